"""Drivers that fail in one way each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from msgspec.structs import replace

from stitchkit_django.core import CorruptRecordError, MemoryDriver
from stitchkit_django.core.driver import UnreadableRun
from stitchkit_django.core.memory import MemoryTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import Facts, ReadSet, Run, WriteSet
    from stitchkit_django.core.driver import RunScan

T = TypeVar("T")


class UntouchableDriver(MemoryDriver):
    """Fails whatever is asked of it."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise AssertionError(name)


class UnreadableDriver(MemoryDriver):
    """Can't read the row of one run, which ends each page that a scan comes to it in."""

    unreadable_key = 2

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        scan = super().scan_active(cursor, limit)
        keys = [keyed.key for keyed in scan.runs]
        if self.unreadable_key not in keys:
            return scan
        error = CorruptRecordError("run 'r2' in conversation 'c'", "it says so")
        return replace(
            scan,
            runs=scan.runs[: keys.index(self.unreadable_key)],
            unreadable=UnreadableRun(self.unreadable_key, error),
        )


class LosingDriver(MemoryDriver):
    """Loses its first writes and renewals as if others had moved the rows."""

    def __init__(self, *, losses: int) -> None:
        super().__init__()
        self.losses = losses
        self.reads = 0

    def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
        return super().transaction(lambda inner: work(_LosingTransaction(self, inner)))

    def renew(self, expected: Run, renewed: Run) -> bool:
        return not self.loses() and super().renew(expected, renewed)

    def loses(self) -> bool:
        """Count down a loss, if any are left."""
        self.losses -= 1
        return self.losses >= 0


class _LosingTransaction(MemoryTransaction):
    def __init__(self, driver: LosingDriver, inner: MemoryTransaction) -> None:
        self.driver = driver
        self.inner = inner

    def read(self, wanted: ReadSet) -> Facts:
        self.driver.reads += 1
        return self.inner.read(wanted)

    def write(self, changes: WriteSet) -> bool:
        return not self.driver.loses() and self.inner.write(changes)
