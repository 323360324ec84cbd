"""Drivers that break laws of absorption, of the history and of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stitchkit_django.core import MessageRole, MessageStatus, Place
from stitchkit_django.core.driver import (
    AssistantWanted,
    InsertMessage,
    MoveMessages,
    RangeMember,
    ReplaceRange,
)
from tests.testing.broken.defect import (
    BrokenDriver,
    breaks,
    kind,
    put_head,
    put_message,
    with_history,
    with_runs,
)

if TYPE_CHECKING:
    from stitchkit_django.core import Facts, Message, ReadSet, WriteSet
    from stitchkit_django.core.driver import HistoryMutation
    from stitchkit_django.core.memory import MemoryTransaction


@breaks(
    "an_absorption_is_whole",
    "many_rows_are_written_at_once",
)
class LeavesAbsorbedInputs(BrokenDriver):
    """Leaves the inputs of an absorbed run in its own turn."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        unmoved = with_history(changes, lambda one: None if isinstance(one, MoveMessages) else one)
        return inner.write(unmoved)


@breaks(
    "a_changed_run_is_not_absorbed",
    "an_absorption_is_whole",
)
class ReadsOtherRunsAsAdmitted(BrokenDriver):
    """Knows the first input alone of a run that is to be absorbed."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        others = [replace(one, input_message_ids=one.input_message_ids[:1]) for one in facts.others]
        return replace(facts, others=tuple(others))


@breaks("a_run_that_has_answered_in_part_is_not_absorbed")
class LooksForNoAnswerOfOtherRuns(BrokenDriver):
    """Tells of no run that is to be absorbed that it has a message."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        return replace(inner.read(wanted), answered=frozenset())


@breaks("an_absorbed_input_that_was_compacted_stays")
class MovesArchivedMessages(BrokenDriver):
    """Moves a message whether it is active or not."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        written, where = inner.write(changes), changes.head.conversation_id
        for mutation in changes.history if written else ():
            for one, place in mutation.moves if isinstance(mutation, MoveMessages) else ():
                if one in inner.conversations[where].messages:
                    put_message(inner, where, one, place=place)
        return written


@breaks(
    "a_retry_of_an_absorbed_input_gets_the_answer",
    "a_conversation_is_restored_whole",
    "an_absorbed_input_that_was_compacted_stays",
)
class DoesNotFollowAnAbsorption(BrokenDriver):
    """Answers a retry with the run of its receipt, and with no other."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        return replace(inner.read(wanted), absorber=None)


# ---------------------------------------------------------------- the order, and compaction


@breaks(
    "history_is_in_causal_order",
    "a_changed_run_is_not_absorbed",
    "a_run_that_has_answered_in_part_is_not_absorbed",
    "an_absorbed_input_that_was_compacted_stays",
    "an_absorption_is_whole",
    "inputs_join_in_order",
)
class AppendsAnswers(BrokenDriver):
    """Puts a new answer at the end of the history, where the next free number is."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        def appended(mutation: HistoryMutation) -> HistoryMutation:
            if not isinstance(mutation, InsertMessage) or kind(changes) in {"admit", "join"}:
                return mutation
            return replace(mutation, place=Place(changes.head.version, mutation.place.slot))

        return inner.write(with_history(changes, appended))


@breaks(
    "a_summary_takes_the_place_of_its_range",
    "pages_are_stable_under_compaction",
)
class PutsASummaryLast(BrokenDriver):
    """Gives a summary the place of the last message that it replaces."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        written = inner.write(changes)
        for mutation in changes.history if written else ():
            if isinstance(mutation, ReplaceRange):
                where, summary = changes.head.conversation_id, mutation.summary.id
                put_message(inner, where, summary, place=mutation.last)
        return written


@breaks(
    "compacted_messages_are_archived",
    "archived_messages_stay_as_they_are",
)
class ForgetsWhatReplacedAMessage(BrokenDriver):
    """Notes when a message was archived, and not for which summary."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        written = inner.write(changes)
        for mutation in changes.history if written else ():
            if isinstance(mutation, ReplaceRange) and mutation.archive:
                for one in mutation.replaced_ids:
                    put_message(inner, changes.head.conversation_id, one, replaced_by=None)
        return written


@breaks("archived_messages_stay_as_they_are")
class ArchivesARangeAgain(BrokenDriver):
    """Archives whatever stands in the range, archived messages too."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        written, where = inner.write(changes), changes.head.conversation_id
        for mutation in changes.history if written else ():
            if isinstance(mutation, ReplaceRange):
                for key, row in inner.conversations[where].messages.items():
                    in_range = mutation.first <= row.place <= mutation.last
                    if in_range and row.archived_at is not None:
                        put_message(inner, where, key, replaced_by=mutation.summary.id)
        return written


@breaks("many_rows_are_written_at_once")
class MovesAHundredMessages(BrokenDriver):
    """Sends one batch of moves, and no more."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        def batch(mutation: HistoryMutation) -> HistoryMutation:
            if isinstance(mutation, MoveMessages):
                return replace(mutation, moves=mutation.moves[:100])
            return mutation

        return inner.write(with_history(changes, batch))


@breaks(
    "compacted_messages_are_deleted_where_none_is_archived",
    "a_forgotten_key_is_new",
)
class ArchivesAlways(BrokenDriver):
    """Doesn't look at what the store wants of the replaced messages."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        def archiving(mutation: HistoryMutation) -> HistoryMutation:
            if isinstance(mutation, ReplaceRange):
                return replace(mutation, archive=True)
            return mutation

        return inner.write(with_history(changes, archiving))


@breaks(
    "a_compaction_at_another_version_is_refused",
    "versions_rise_by_exactly_one",
)
class LeavesTheHeadOfAnInterrupt(BrokenDriver):
    """Writes an interrupt without moving the head."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        written = inner.write(changes)
        if written and kind(changes) == "interrupt":
            put_head(inner, changes.head.conversation_id, version=changes.expected_version)
        return written


@breaks("a_range_with_a_gap_is_not_compacted")
class CountsTheNamedMessages(BrokenDriver):
    """Counts between the ends of a range only what was named."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        return replace(facts, between=len(facts.members))


@breaks("what_is_not_active_is_not_compacted")
class FindsArchivedMessages(BrokenDriver):
    """Looks for the messages of a range among the archived ones, too."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        found = inner.conversations.get(wanted.conversation_id)
        archived = [
            RangeMember(id=key, place=one.place, status=one.message.status)
            for key, one in (found.messages.items() if found else ())
            if key in wanted.range_ids and one.archived_at is not None
        ]
        members = (*archived, *facts.members)
        return replace(facts, members=members, between=len(members)) if archived else facts


@breaks("the_answer_of_an_active_run_is_not_compacted")
class ReadsNoStatusInARange(BrokenDriver):
    """Takes every message of a range for a finished one."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        members = [replace(one, status=MessageStatus.COMPLETED) for one in facts.members]
        return replace(facts, members=tuple(members))


# ---------------------------------------------------------------- values


def sorted_keys(message: Message) -> Message:
    """Give a message whose metadata went through a column that sorts keys."""
    metadata: Any = message.metadata
    return (
        message if metadata is None else replace(message, metadata=dict(sorted(metadata.items())))
    )


@breaks("an_input_is_read_back_exactly")
class SortsTheKeysOfInputs(BrokenDriver):
    """Keeps the metadata of inputs in a column that sorts keys."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        def stored(mutation: HistoryMutation) -> HistoryMutation:
            if isinstance(mutation, InsertMessage) and mutation.message.role is MessageRole.USER:
                return replace(mutation, message=sorted_keys(mutation.message))
            return mutation

        return inner.write(with_history(changes, stored))


@breaks("an_answer_is_read_back_exactly")
class SortsTheKeysOfRetainedAnswers(BrokenDriver):
    """Keeps retained answers in such a column."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        retained = with_runs(
            changes,
            lambda write: replace(write, answer=write.answer and sorted_keys(write.answer)),
        )
        return inner.write(retained)


@breaks("what_a_run_has_said_is_kept_exactly")
class ReadsNoBeginningOfAnAnswer(BrokenDriver):
    """Takes what a run has said to have been begun now."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        if facts.assistant is None or wanted.assistant is not AssistantWanted.WHOLE:
            return facts
        return replace(facts, assistant=replace(facts.assistant, created_at=facts.moment))
