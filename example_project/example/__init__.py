"""A small site around an agent: the project's package, and its one app."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[1]
"""Where manage.py is."""
