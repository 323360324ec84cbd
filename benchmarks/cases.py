"""One thing that one contender does over and over; cases take turns, so that noise hits all."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.entries import entries
from benchmarks.timing import rotated, rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.contenders import Contender, Entry
    from benchmarks.databases import Database
    from benchmarks.plan import Plan
    from benchmarks.report import Measurement

WARM_UP: Final = 6
"""How often it is done before it counts: after five times a prepared statement has its plan."""


class Case(NamedTuple):
    """What is done, and where its samples go."""

    measurement: Measurement
    work: Callable[[], object]
    written: Callable[[], int | None] | None = None
    """Gives the bytes written ahead so far, where they are to be measured."""

    def run(self) -> None:
        """Do it once, timed."""
        before = None if self.written is None else self.written()
        with self.measurement.samples.one():
            self.work()
        after = None if self.written is None else self.written()
        if before is not None and after is not None:
            self.measurement.written.append(after - before)


@contextmanager
def contenders(
    database: Database, plan: Plan, *others: Entry
) -> Iterator[list[tuple[Entry, Contender]]]:
    """Open all contenders, and others, for this thread while the block lasts."""
    with ExitStack() as opened:
        yield [
            (entry, opened.enter_context(closing(entry.open())))
            for entry in [*entries(database, plan.options), *others]
        ]


def measured(cases: Sequence[Case], seconds: float) -> list[Measurement]:
    """Run all cases in turn until the seconds have passed; give what they took."""
    for case in cases:
        for _ in range(WARM_UP):
            case.work()
    for number in rounds(seconds):
        for case in rotated(cases, number):
            case.run()
    return [case.measurement for case in cases]
