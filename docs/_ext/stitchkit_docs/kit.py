"""The conformance kit: every law, grouped by the module that it stands in."""

from __future__ import annotations

import importlib
from itertools import groupby
from typing import TYPE_CHECKING

from stitchkit_django import testing
from stitchkit_docs.markdown import paragraphs
from stitchkit_docs.source import docstring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def laws() -> str:
    """Give the laws that one thread can tell."""
    return _grouped(testing.CHECKS)


def races() -> str:
    """Give the laws that need several threads."""
    return _grouped(testing.RACES)


def _grouped(checks: Iterable[Callable[..., None]]) -> str:
    ordered = sorted(checks, key=lambda check: check.__module__)
    blocks = [
        paragraphs(
            f"**{docstring(importlib.import_module(module)).summary}**",
            "\n".join(f"- `{one.__name__}`: {docstring(one).summary}" for one in group),
        )
        for module, group in groupby(ordered, key=lambda check: check.__module__)
    ]
    return paragraphs(*blocks)
