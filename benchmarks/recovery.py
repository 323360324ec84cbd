"""Pages of active runs over all conversations, as a pass of recovery reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from benchmarks.cases import Case, contenders, measured
from benchmarks.contenders import PAGE
from benchmarks.filling import fill_active
from benchmarks.report import Measurement

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.contenders import Contender
    from benchmarks.databases import Database
    from benchmarks.plan import Plan

NAME: Final = f"page of {PAGE} runs"


def measure(database: Database, plan: Plan) -> list[Measurement]:
    """Measure one page after another, from the first to the last and over again."""
    fill_active(database, plan.active_runs)
    database.settle()
    section = f"scan_recoverable, {plan.active_runs:,} active runs or more"
    with contenders(database, plan) as opened:
        cases = [
            Case(Measurement(section, NAME, entry.name, floor=entry.floor), _next_page(contender))
            for entry, contender in opened
        ]
        return measured(cases, plan.seconds * len(opened))


def _next_page(contender: Contender) -> Callable[[], None]:
    cursor: Any = None

    def read() -> None:
        nonlocal cursor
        cursor = contender.recovery_page(cursor)

    return read
