"""What a run is asked to measure."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """The options of a run, checked."""

    options: tuple[str, ...] = ("recommended", "defaults")
    """Which OPTIONS of the database the store has."""
    seconds: float = 5
    """How long each contender is measured for each thing."""
    threads: int = 8
    lengths: tuple[int, ...] = (0, 100, 1000, 5000, 20000)
    """Messages of the conversations that grow."""
    active_runs: int = 10_000
    """That recovery pages through."""
