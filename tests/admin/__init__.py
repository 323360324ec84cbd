"""Tests of the admin, through Django's test client."""
