"""Durable AI-agent conversations and runs for Django."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stitchkit_django.registry import get_store as get_store

__all__ = ["get_store"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Lazy: importing the package, as `stitchkit_django.core` does, imports no Django.
    if name == "get_store":
        from stitchkit_django.registry import get_store  # noqa: PLC0415

        return get_store
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
