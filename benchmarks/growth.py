"""Turns in conversations of any length: their time, and the bytes that the server writes ahead."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from benchmarks.cases import Case, contenders, measured
from benchmarks.filling import fill
from benchmarks.report import Measurement
from benchmarks.turns import take_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.contenders import Contender
    from benchmarks.databases import Database
    from benchmarks.plan import Plan

SECTION: Final = "whole turns, one client, by length"
_SPREAD: Final = 2000
"""Messages over which short conversations are spread, so that they stay short."""


def measure(database: Database, plan: Plan) -> list[Measurement]:
    """Measure a turn at each length; all lengths and contenders take turns."""
    with contenders(database, plan) as opened:
        cases = [
            Case(
                Measurement(
                    SECTION,
                    f"turn at {length:,}",
                    entry.name,
                    floor=entry.floor,
                    length=length,
                    is_flat=True,
                ),
                partial(_turn_in_next, contender, _conversations(database, length)),
                database.written,
            )
            for length in plan.lengths
            for entry, contender in opened
        ]
        database.settle()
        return measured(cases, plan.seconds * len(opened))


def _turn_in_next(contender: Contender, conversations: Iterator[str]) -> None:
    take_turn(contender, next(conversations))


def _conversations(database: Database, length: int) -> Iterator[str]:
    if length:
        return cycle(fill(database, max(1, _SPREAD // length), length))
    # Each turn begins a conversation of its own.
    return iter(lambda: str(uuid4()), None)
