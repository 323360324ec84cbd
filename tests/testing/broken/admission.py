"""Drivers that break laws of admission and of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stitchkit_django.core import Head, Message, MessageRole, MessageStatus, StoredRun
from stitchkit_django.core.driver import (
    LAST_SLOT,
    ActiveRuns,
    ConversationRows,
    InsertMessage,
    Place,
)
from tests.testing.broken.defect import BrokenDriver, breaks, kind, put_head

if TYPE_CHECKING:
    from collections.abc import Collection

    from stitchkit_django.core import Facts, ReadSet, Run, WriteSet
    from stitchkit_django.core.driver import ConversationView
    from stitchkit_django.core.memory import MemoryTransaction


@breaks("an_input_is_admitted_once")
class LooksForIdsBeforeTheKey(BrokenDriver):
    """Finds no receipt where an id of the retry is taken, be it by the first admission."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        return replace(facts, receipt=None) if facts.taken else facts


@breaks(
    "a_retry_gets_the_original",
    "a_cancelled_run_keeps_an_answer",
    "a_retry_is_answered_after_archiving",
    "a_retry_is_answered_after_deletion",
    "a_retry_of_an_absorbed_input_gets_the_answer",
    "an_absorbed_input_that_was_compacted_stays",
    "an_answer_is_read_back_exactly",
)
class AnswersWithTheAdmittedRun(BrokenDriver):
    """Keeps the run with the receipt, as it was then."""

    def __init__(self) -> None:
        super().__init__()
        self.admitted: dict[tuple[str, str], Run] = {}

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if changes.receipt is not None:
            key = (changes.receipt.conversation_id, changes.receipt.idempotency_key)
            self.admitted[key] = changes.runs[0].run
        return inner.write(changes)

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        run = self.admitted.get((wanted.conversation_id, wanted.idempotency_key or ""))
        if facts.receipt is None or run is None:
            return facts
        return replace(facts, receipt_run=StoredRun(run=run))


@breaks("a_retry_is_answered_after_archiving")
class JoinsReceiptsWithTheHistory(BrokenDriver):
    """Finds no receipt whose input was archived."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        if facts.receipt is None:
            return facts
        row = inner.conversations[wanted.conversation_id].messages.get(facts.receipt.input.id)
        archived = row is not None and row.archived_at is not None
        return replace(facts, receipt=None) if archived else facts


@breaks(
    "a_retry_is_answered_after_deletion",
    "an_absorbed_input_that_was_compacted_stays",
)
class DeletesReceiptsWithTheirMessages(BrokenDriver):
    """Has a foreign key from the receipt to its input."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        if facts.receipt is None:
            return facts
        messages = inner.conversations[wanted.conversation_id].messages
        return facts if facts.receipt.input.id in messages else replace(facts, receipt=None)


@breaks(
    "a_joined_input_is_admitted_once",
    "a_batch_that_takes_the_last_receipt_takes_the_run",
    "a_run_is_forgotten_with_its_receipts",
    "rows_are_a_whole_conversation",
)
class KeepsNoReceiptOfAJoin(BrokenDriver):
    """Keeps one receipt a run."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "join":
            changes = replace(changes, receipt=None)
        return inner.write(changes)


@breaks(
    "inputs_join_in_order",
    "an_absorption_is_whole",
    "many_rows_are_written_at_once",
    "pages_make_up_the_history",
)
class OrdersATurnById(BrokenDriver):
    """Reads the messages of a turn in the order of their ids."""

    def snapshot(self, conversation_id: str) -> ConversationView:
        view = super().snapshot(conversation_id)
        ordered = sorted(
            view.messages,
            key=lambda one: (one.place.turn, one.place.slot == LAST_SLOT, one.message.id),
        )
        return replace(view, messages=tuple(ordered))


@breaks(
    "a_pending_answer_is_not_in_history",
    "a_snapshot_is_of_the_latest_version",
)
class WritesThePendingAnswer(BrokenDriver):
    """Makes an empty message as a run is acquired."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        run = changes.runs[0].run if changes.runs else None
        if run is None or kind(changes) != "acquire":
            return inner.write(changes)
        if run.assistant_message_id in inner.conversations[run.conversation_id].messages:
            return inner.write(changes)
        message = Message(
            id=run.assistant_message_id,
            conversation_id=run.conversation_id,
            run_id=run.id,
            role=MessageRole.ASSISTANT,
            status=MessageStatus.STREAMING,
            parts=(),
            created_at=run.updated_at,
            updated_at=run.updated_at,
        )
        pending = InsertMessage(message=message, place=Place(run.turn, LAST_SLOT))
        return inner.write(replace(changes, history=(pending,)))


@breaks(
    "an_admission_at_another_version_is_refused",
    "a_live_run_is_loaded_without_an_answer",
    "a_snapshot_is_of_the_latest_version",
    "publishers_see_what_was_committed",
    "versions_rise_by_exactly_one",
)
class LeavesTheHeadOfACheckpoint(BrokenDriver):
    """Writes a checkpoint without moving the head."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        written = inner.write(changes)
        if written and kind(changes) == "checkpoint":
            put_head(inner, changes.head.conversation_id, version=changes.expected_version)
        return written


@breaks(
    "a_refused_admission_makes_no_conversation",
    "only_an_admission_makes_a_conversation",
)
class MakesAHeadToLockIt(BrokenDriver):
    """Inserts a head, so that it can be locked, and leaves it there."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        if wanted.admits and wanted.conversation_id not in inner.conversations:
            head = Head(conversation_id=wanted.conversation_id, version=0, updated_at=facts.moment)
            inner.restore(ConversationRows(head=head))
        return facts


@breaks("only_an_admission_makes_a_conversation")
class MakesAHeadForAnyOperation(BrokenDriver):
    """Makes a head wherever it is to lock one."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        if facts.head is not None:
            return facts
        head = Head(conversation_id=wanted.conversation_id, version=0, updated_at=facts.moment)
        inner.restore(ConversationRows(head=head))
        return replace(facts, head=head)


# ---------------------------------------------------------------- ids


class _Overlooks(BrokenDriver):
    """Doesn't see where some ids are taken."""

    def overlooked(self, inner: MemoryTransaction, wanted: ReadSet) -> Collection[str]:
        raise NotImplementedError

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        if not facts.taken:
            return facts
        return replace(facts, taken=facts.taken.difference(self.overlooked(inner, wanted)))


@breaks("the_id_of_a_reserved_answer_is_taken")
class ReservesNoAnswer(_Overlooks):
    """Looks for new ids among messages and receipts alone."""

    def overlooked(self, inner: MemoryTransaction, wanted: ReadSet) -> Collection[str]:
        found = inner.conversations[wanted.conversation_id]
        reserved = {stored.run.assistant_message_id for stored in found.runs.values()}
        return reserved.difference(found.messages)


@breaks("the_id_of_a_deleted_input_is_taken")
class FreesTheIdsOfDeletedInputs(_Overlooks):
    """Doesn't look for new ids among receipts."""

    def overlooked(self, inner: MemoryTransaction, wanted: ReadSet) -> Collection[str]:
        found = inner.conversations[wanted.conversation_id]
        inputs = {receipt.input.id for receipt in found.receipts.values()}
        return inputs.difference(found.messages)


@breaks("the_id_of_an_archived_message_is_taken")
class FreesTheIdsOfArchivedMessages(_Overlooks):
    """Looks for new ids in the active history alone."""

    def overlooked(self, inner: MemoryTransaction, wanted: ReadSet) -> Collection[str]:
        found = inner.conversations[wanted.conversation_id]
        return [key for key, one in found.messages.items() if one.archived_at is not None]


@breaks("the_id_of_a_message_is_taken")
class LooksForIdsAmongReceiptsAlone(_Overlooks):
    """Takes receipts to know of every message, and forgets summaries."""

    def overlooked(self, inner: MemoryTransaction, wanted: ReadSet) -> Collection[str]:
        found = inner.conversations[wanted.conversation_id]
        return [
            key
            for key, one in found.messages.items()
            if one.archived_at is None and one.message.role is MessageRole.SUMMARY
        ]


@breaks("the_id_of_an_ended_run_is_taken")
class FreesTheIdsOfEndedRuns(_Overlooks):
    """Looks for a new run's id among active runs alone."""

    def overlooked(self, inner: MemoryTransaction, wanted: ReadSet) -> Collection[str]:
        found = inner.conversations[wanted.conversation_id]
        return [key for key, stored in found.runs.items() if not stored.run.is_active]


@breaks("the_id_of_a_message_is_taken_for_a_summary")
class LooksForNoIdInACompaction(_Overlooks):
    """Looks for new ids in admissions alone."""

    def overlooked(self, inner: MemoryTransaction, wanted: ReadSet) -> Collection[str]:
        del inner
        return wanted.new_message_ids if wanted.range_ids else ()


@breaks("ids_are_compared_byte_for_byte")
class FoldsTheCaseOfKeys(BrokenDriver):
    """Compares keys by a collation that takes capitals for small letters."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        found = inner.conversations.get(wanted.conversation_id)
        for key in found.receipts if found else ():
            if key.casefold() == (wanted.idempotency_key or "").casefold():
                wanted = replace(wanted, idempotency_key=key)
        return inner.read(wanted)


@breaks("ids_of_any_characters_are_kept")
class CutsKeys(BrokenDriver):
    """Has a column of 100 characters for keys, and a database that cuts what is longer."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        receipt = changes.receipt
        if receipt is not None:
            cut = replace(receipt, idempotency_key=receipt.idempotency_key[:100])
            changes = replace(changes, receipt=cut)
        return inner.write(changes)


@breaks("conversation_ids_are_compared_byte_for_byte")
class FoldsTheCaseOfConversations(BrokenDriver):
    """Compares the ids of conversations by such a collation."""

    def active_runs(self, conversation_id: str) -> ActiveRuns:
        named = [
            super(FoldsTheCaseOfConversations, self).active_runs(one)
            for one in self._conversations
            if one.casefold() == conversation_id.casefold()
        ]
        runs = [run for active in named for run in active.runs]
        head = super().active_runs(conversation_id).head
        return ActiveRuns(head=head, runs=tuple(runs))
