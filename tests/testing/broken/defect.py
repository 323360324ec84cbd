"""What a broken driver is made of: a memory driver with a hook for each method of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from stitchkit_django.core import MemoryDriver, MessageStatus, RunState
from stitchkit_django.core.driver import DeleteAll, ReplaceRange, UpdateMessage
from stitchkit_django.core.memory import MemoryTransaction

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from stitchkit_django.core import Facts, ReadSet, WriteSet
    from stitchkit_django.core.driver import ConversationRows, HistoryMutation, RunWrite

T = TypeVar("T")
DriverT = TypeVar("DriverT", bound="type[BrokenDriver]")


class Defect(NamedTuple):
    """A driver that breaks a law, and by that a few others."""

    check: str
    """Name of the check that finds it, without `check_`."""
    driver: type[BrokenDriver]
    also: frozenset[str]
    """Names of the other checks that fail, since their laws rest on the broken one."""


DEFECTS: Final[list[Defect]] = []


def breaks(check: str, *also: str) -> Callable[[DriverT], DriverT]:
    """Register a driver as one that breaks a law."""

    def register(driver: DriverT) -> DriverT:
        DEFECTS.append(Defect(check, driver, frozenset(also)))
        return driver

    return register


class BrokenDriver(MemoryDriver):
    """Keeps every law; a subclass overrides what it breaks."""

    def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
        return super().transaction(lambda inner: work(HookedTransaction(self, inner)))

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        return inner.read(wanted)

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        return inner.write(changes)

    def forget(self, inner: MemoryTransaction, where: str, run_id: str, limit: int) -> int:
        return inner.forget(where, run_id, limit=limit)

    def forget_archived(
        self, inner: MemoryTransaction, where: str, before: datetime, limit: int
    ) -> int:
        return inner.forget_archived(where, before, limit=limit)

    def restore(self, inner: MemoryTransaction, rows: ConversationRows) -> bool:
        return inner.restore(rows)

    def after_commit(self, inner: MemoryTransaction, callback: Callable[[], object]) -> None:
        inner.after_commit(callback)


class HookedTransaction(MemoryTransaction):
    """Hands each call to the driver's hook."""

    def __init__(self, driver: BrokenDriver, inner: MemoryTransaction) -> None:
        self.driver = driver
        self.inner = inner

    def read(self, wanted: ReadSet) -> Facts:
        return self.driver.read(self.inner, wanted)

    def write(self, changes: WriteSet) -> bool:
        return self.driver.write(self.inner, changes)

    def forget(self, conversation_id: str, run_id: str, *, limit: int) -> int:
        return self.driver.forget(self.inner, conversation_id, run_id, limit)

    def forget_archived(self, conversation_id: str, before: datetime, *, limit: int) -> int:
        return self.driver.forget_archived(self.inner, conversation_id, before, limit)

    def restore(self, rows: ConversationRows) -> bool:
        return self.driver.restore(self.inner, rows)

    def after_commit(self, callback: Callable[[], object]) -> None:
        self.driver.after_commit(self.inner, callback)


def kind(changes: WriteSet) -> str:
    """Name the operation that a write set is of."""
    for mutation in changes.history:
        if isinstance(mutation, ReplaceRange):
            return "compact"
        if isinstance(mutation, DeleteAll):
            return "purge"
    write = changes.runs[0]
    if changes.receipt is not None:
        return "admit" if write.guard is None else "join"
    match write.run.state:
        case RunState.RUNNING:
            return "checkpoint" if changes.history else "acquire"
        case RunState.INTERRUPT_REQUESTED:
            return "interrupt"
        case RunState.QUEUED:
            return "requeue"
        case RunState.ABANDONED:
            return "abandon"
        case RunState.CANCELLED if write.run.owner_id is None:
            return "cancel"
        case _:
            return "end"


def with_runs(changes: WriteSet, change: Callable[[RunWrite], RunWrite]) -> WriteSet:
    """Give a write set with each of its runs changed."""
    return replace(changes, runs=tuple(map(change, changes.runs)))


def with_run(changes: WriteSet, **fields: Any) -> WriteSet:
    """Give a write set whose runs have other fields."""
    return with_runs(changes, lambda write: replace(write, run=replace(write.run, **fields)))


def with_history(
    changes: WriteSet, change: Callable[[HistoryMutation], HistoryMutation | None]
) -> WriteSet:
    """Give a write set with each mutation of the history changed, or left out where it is None."""
    changed = [change(mutation) for mutation in changes.history]
    return replace(changes, history=tuple(one for one in changed if one is not None))


def updates(mutation: HistoryMutation, status: MessageStatus) -> bool:
    """Tell whether a mutation updates a message to a status."""
    return isinstance(mutation, UpdateMessage) and mutation.message.status is status


def put_run(inner: MemoryTransaction, where: str, run_id: str, **fields: Any) -> None:
    """Change a run behind the store's back."""
    found = inner.conversations[where]
    stored = found.runs[run_id]
    changed = replace(stored, run=replace(stored.run, **fields))
    inner.conversations[where] = replace(found, runs={**found.runs, run_id: changed})


def put_message(inner: MemoryTransaction, where: str, message_id: str, **fields: Any) -> None:
    """Change a message's row behind the store's back."""
    found = inner.conversations[where]
    changed = replace(found.messages[message_id], **fields)
    messages = {**found.messages, message_id: changed}
    inner.conversations[where] = replace(found, messages=messages)


def put_head(inner: MemoryTransaction, where: str, **fields: Any) -> None:
    """Change a head behind the store's back."""
    found = inner.conversations[where]
    inner.conversations[where] = replace(found, head=replace(found.head, **fields))
