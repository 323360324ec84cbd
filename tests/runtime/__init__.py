"""Tests of what stands between the store and a project's agent code."""
