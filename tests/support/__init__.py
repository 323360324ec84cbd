"""Tests of what the package brings for a project's own tests."""
