"""Reads of whole conversations and of their ends, beside the same texts fetched and decoded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.cases import Case, contenders, measured
from benchmarks.entries import whole_rows
from benchmarks.filling import fill
from benchmarks.report import Measurement

if TYPE_CHECKING:
    from benchmarks.databases import Database
    from benchmarks.plan import Plan

HISTORY: Final = "load_history, the last 100"
SNAPSHOT: Final = "load_snapshot"


def measure(database: Database, plan: Plan) -> list[Measurement]:
    """Measure both reads at each length; all contenders read the same conversations."""
    lengths = {length: fill(database, 1, length)[0] for length in plan.lengths if length}
    database.settle()
    with contenders(database, plan, *whole_rows(database)) as opened:
        cases: dict[str, list[Case]] = {HISTORY: [], SNAPSHOT: []}
        for length, where in lengths.items():
            for entry, contender in opened:
                reads = {HISTORY: contender.history, SNAPSHOT: contender.snapshot}
                for section, read in reads.items():
                    name = f"{length:,} messages"
                    one = Measurement(section, name, entry.name, floor=entry.floor, length=length)
                    one.is_flat = section == HISTORY
                    cases[section].append(Case(one, partial(read, where)))
        seconds = plan.seconds * len(opened)
        return [one for some in cases.values() for one in measured(some, seconds)]
