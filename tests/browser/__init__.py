"""Tests of the admin in a real browser: `pytest -m browser`, with the extra `browser`."""
