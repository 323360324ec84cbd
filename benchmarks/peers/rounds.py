"""Turns and reads of all peers at all lengths, one after the other, over and over."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.report import Measurement
from benchmarks.timing import rotated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.databases import Database
    from benchmarks.peers.process import Worker

FLOOR: Final = "store"
WARM_UP: Final = 2
_READ: Final = {None: "all messages read", 100: "the last 100 read"}


def measure(
    workers: Sequence[Worker], database: Database, lengths: Sequence[int], rounds: int
) -> list[Measurement]:
    """Measure turns, then reads, each in a conversation for each peer, length and window."""
    turns = list(_cases(workers, lengths, "turn"))
    reads = list(_cases(workers, lengths, "read"))
    database.settle()
    for cases in (turns, reads):
        for _ in range(WARM_UP):
            for _, work in cases:
                work()
        for number in range(rounds):
            for measurement, work in rotated(cases, number):
                _run(measurement, work, database)
    return sorted(
        (measurement for measurement, _ in (*turns, *reads)),
        key=lambda one: (one.section, one.length),
    )


def _cases(
    workers: Sequence[Worker], lengths: Sequence[int], operation: str
) -> Iterator[tuple[Measurement, Callable[[], float]]]:
    for worker in workers:
        for window in worker.kind.windows:
            for length in lengths:
                _, conversation = worker.told(do="fill", length=length)
                measurement = Measurement(
                    f"{operation}, {_READ[window]}",
                    f"{length:,} messages",
                    worker.kind.name,
                    floor=None if worker.kind.name == FLOOR else FLOOR,
                    length=length,
                    is_flat=window is not None,
                )
                yield measurement, partial(_seconds, worker, operation, conversation, window)


def _seconds(worker: Worker, operation: str, conversation: str, window: int | None) -> float:
    seconds, _ = worker.told(do=operation, conversation=conversation, window=window)
    return seconds


def _run(measurement: Measurement, work: Callable[[], float], database: Database) -> None:
    before = database.written()
    measurement.samples.seconds.append(work())
    after = database.written()
    if before is not None and after is not None and measurement.section.startswith("turn"):
        measurement.written.append(after - before)
