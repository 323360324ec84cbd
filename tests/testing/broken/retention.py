"""Drivers that break laws of retention and of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from stitchkit_django.core import MemoryDriver
from tests.testing.broken.defect import (
    BrokenDriver,
    HookedTransaction,
    breaks,
    kind,
    put_head,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from stitchkit_django.core import Facts, ReadSet, WriteSet
    from stitchkit_django.core.driver import ConversationRows
    from stitchkit_django.core.memory import MemoryTransaction

T = TypeVar("T")


@breaks("a_purged_id_stays_purged")
class FreesAPurgedId(BrokenDriver):
    """Leaves a head that doesn't tell of the purge."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        return inner.write(replace(changes, head=replace(changes.head, purged_at=None)))


@breaks("a_purge_beside_an_active_run_is_refused")
class ReadsOwnedRunsAsTheActiveOnes(BrokenDriver):
    """Tells a purge of the runs that have an owner."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        return replace(facts, active=tuple(run for run in facts.active if run.is_acquired))


@breaks("a_run_is_forgotten_with_its_receipts")
class ForgetsTheRunFirst(BrokenDriver):
    """Deletes a run with the first batch of its receipts."""

    def forget(self, inner: MemoryTransaction, where: str, run_id: str, limit: int) -> int:
        gone = inner.forget(where, run_id, limit=limit)
        found = inner.conversations.get(where)
        if found is not None and run_id in found.runs:
            runs = {key: stored for key, stored in found.runs.items() if key != run_id}
            inner.conversations[where] = replace(found, runs=runs)
        return gone


@breaks("a_batch_that_takes_the_last_receipt_takes_the_run")
class LeavesTheRunOfAFullBatch(BrokenDriver):
    """Looks for more receipts only after a batch that was not full."""

    def forget(self, inner: MemoryTransaction, where: str, run_id: str, limit: int) -> int:
        found = inner.conversations.get(where)
        receipts = [one for one in found.receipts.values() if one.run_id == run_id] if found else ()
        if found is None or len(receipts) != limit:
            return inner.forget(where, run_id, limit=limit)
        left = {key: one for key, one in found.receipts.items() if one.run_id != run_id}
        inner.conversations[where] = replace(found, receipts=left)
        return limit


@breaks("what_is_unknown_is_not_forgotten")
class CountsAnUnknownRun(BrokenDriver):
    """Counts a run as deleted without looking."""

    def forget(self, inner: MemoryTransaction, where: str, run_id: str, limit: int) -> int:
        return max(1, inner.forget(where, run_id, limit=limit))


@breaks(
    "a_forgotten_key_is_new",
    "what_is_unknown_is_not_forgotten",
)
class RemembersForgottenRuns(BrokenDriver):
    """Never gives the id of a run free."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: set[str] = set()

    def forget(self, inner: MemoryTransaction, where: str, run_id: str, limit: int) -> int:
        self.forgotten.add(run_id)
        return inner.forget(where, run_id, limit=limit)

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        return replace(facts, taken=facts.taken | self.forgotten.intersection([wanted.new_run_id]))


@breaks("archived_messages_are_forgotten_before_a_moment")
class ForgetsWithoutALimit(BrokenDriver):
    """Deletes all archived messages in one batch."""

    def forget_archived(
        self, inner: MemoryTransaction, where: str, before: datetime, limit: int
    ) -> int:
        return inner.forget_archived(where, before, limit=limit + 1_000)


@breaks("a_conversation_is_restored_whole")
class RestoresTheActiveHistory(BrokenDriver):
    """Leaves archived messages out of a restore."""

    def restore(self, inner: MemoryTransaction, rows: ConversationRows) -> bool:
        active = tuple(one for one in rows.messages if one.archived_at is None)
        return inner.restore(replace(rows, messages=active))


@breaks(
    "rows_are_a_whole_conversation",
    "a_conversation_is_restored_whole",
)
class GivesNoAbsorbedRun(BrokenDriver):
    """Takes absorbed runs for nobody's business."""

    def rows(self, conversation_id: str) -> ConversationRows | None:
        found = super().rows(conversation_id)
        if found is None:
            return None
        runs = tuple(one for one in found.runs if one.run.absorbed_into_run_id is None)
        return replace(found, runs=runs)


@breaks("a_conversation_is_not_restored_over_another")
class RestoresOverAPurgedOne(BrokenDriver):
    """Takes the id of a purged conversation for a free one."""

    def restore(self, inner: MemoryTransaction, rows: ConversationRows) -> bool:
        found = inner.conversations.get(rows.head.conversation_id)
        if found is not None and found.head.purged_at is not None:
            del inner.conversations[rows.head.conversation_id]
        return inner.restore(rows)


# ---------------------------------------------------------------- transactions


@breaks(
    "a_failure_leaves_nothing",
    "a_failed_restore_leaves_nothing",
    "publishers_see_what_was_committed",
)
class KeepsWhatAFailedTransactionWrote(BrokenDriver):
    """Commits in any case."""

    def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
        failures: list[Exception] = []

        def kept(inner: MemoryTransaction) -> T | None:
            try:
                return work(HookedTransaction(self, inner))
            except Exception as error:  # noqa: BLE001 - whatever it is, it comes out later
                inner.callbacks.clear()
                failures.append(error)
                return None

        result = MemoryDriver.transaction(self, kept)
        if failures:
            raise failures[0]
        return result  # type: ignore[return-value] # None only after a failure


@breaks("a_failed_restore_leaves_nothing")
class RestoresBesideTheTransaction(BrokenDriver):
    """Restores over a connection of its own."""

    def restore(self, inner: MemoryTransaction, rows: ConversationRows) -> bool:
        restored = inner.restore(rows)
        self._conversations = dict(inner.conversations)
        return restored


@breaks("versions_rise_by_exactly_one")
class MovesTheHeadTwiceInACancel(BrokenDriver):
    """Moves the head for the run, and again for its message."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        written = inner.write(changes)
        if written and kind(changes) == "cancel":
            put_head(inner, changes.head.conversation_id, version=changes.head.version + 1)
        return written


@breaks("the_head_tells_of_the_latest_write")
class KeepsTheMomentOfTheFirstWrite(BrokenDriver):
    """Writes the head's version, and not its moment."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        found = inner.conversations.get(changes.head.conversation_id)
        if found is not None:
            head = replace(changes.head, updated_at=found.head.updated_at)
            changes = replace(changes, head=head)
        return inner.write(changes)


@breaks("callbacks_follow_the_commit")
class CallsBackInReverse(BrokenDriver):
    """Calls the latest callback first."""

    def after_commit(self, inner: MemoryTransaction, callback: Callable[[], object]) -> None:
        inner.callbacks.insert(0, callback)


@breaks(
    "no_callback_follows_a_failure",
    "publishers_see_what_was_committed",
)
class CallsBackAfterTheNextCommit(BrokenDriver):
    """Keeps callbacks of a failed transaction until another one commits."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], object]] = []

    def after_commit(self, inner: MemoryTransaction, callback: Callable[[], object]) -> None:
        del inner
        self.waiting.append(callback)

    def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
        result = super().transaction(work)
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()
        return result


@breaks(
    "publishers_see_what_was_committed",
    "callbacks_follow_the_commit",
)
class CallsBackBeforeTheCommit(BrokenDriver):
    """Calls back at the end of the work."""

    def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
        def calling(hooked: MemoryTransaction) -> T:
            result = work(hooked)
            inner = hooked.inner  # type: ignore[attr-defined] # a HookedTransaction
            callbacks, inner.callbacks = inner.callbacks, []
            for callback in callbacks:
                callback()
            return result

        return super().transaction(calling)
