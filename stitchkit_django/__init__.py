"""Durable AI-agent conversations and runs for Django."""

from __future__ import annotations

__version__ = "0.1.0"
