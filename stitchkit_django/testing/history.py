"""Laws of the history: its order, and what a compaction replaces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from stitchkit_django.core import Absorption, ConflictReason, InvalidCompactionError, NotFound
from stitchkit_django.testing.claims import expect, raised, refused
from stitchkit_django.testing.conversation import opened

if TYPE_CHECKING:
    from stitchkit_django.core import Outcome
    from stitchkit_django.testing.conversation import Conversation, MakeStore

MANY: Final = 350
"""More ids than many a driver puts into one statement."""


def check_history_is_in_causal_order(make_store: MakeStore) -> None:
    """An answer stands before an input that was admitted before it, but asks for a later turn."""
    with opened(make_store) as conversation:
        first, second = conversation.admit("1"), conversation.admit("2")
        conversation.checkpoint(conversation.acquire(first))
        while_running = conversation.history()
        conversation.end(conversation.view("r1").run)
        conversation.end(conversation.acquire(second))

        expect("history, while the first runs", while_running, ["i-1", "a-r1", "i-2"])
        expect("history", conversation.history(), ["i-1", "a-r1", "i-2", "a-r2"])
        snapshot = conversation.store.load_snapshot(conversation.id)
        turns = (first.turn, first.turn, second.turn, second.turn)
        expect("turns", snapshot.turns, turns)


def check_a_summary_takes_the_place_of_its_range(make_store: MakeStore) -> None:
    """A summary stands where the first message that it replaces stood, also of a summary."""
    with opened(make_store) as conversation:
        for key in "123":
            conversation.answered(key)
        place = conversation.row("a-r1").place

        summary = conversation.compact("i-2", "a-r1", summary_id="s1")
        once = conversation.history()
        conversation.compact("s1", "a-r2", summary_id="s2")

        expect("history", once, ["i-1", "s1", "a-r2", "i-3", "a-r3"])
        expect("history after the next", conversation.history(), ["i-1", "s2", "i-3", "a-r3"])
        expect("place of the summary", conversation.row("s2").place, place)
        expect("summary", (summary.id, summary.role), ("s1", "summary"))
        expect("summary's row", conversation.row("s1").message, summary)


def check_compacted_messages_are_archived(make_store: MakeStore) -> None:
    """Messages that a summary replaces are kept, with the moment and the summary's id."""
    with opened(make_store) as made:
        conversation = made.archiving()
        conversation.answered()
        before = conversation.row("i-1"), conversation.row("a-r1")

        summary = conversation.compact("i-1", "a-r1")

        for earlier in before:
            row = conversation.row(earlier.message.id)
            expect("message", row.message, earlier.message)
            archived = (row.archived_at, row.replaced_by)
            expect("archived", archived, (summary.created_at, "s"))
        expect("summary", conversation.row("s").archived_at, None)


def check_archived_messages_stay_as_they_are(make_store: MakeStore) -> None:
    """A later compaction of the same range, archiving or deleting, leaves archived messages."""
    with opened(make_store) as made:
        conversation = made.archiving()
        for key in "123":
            conversation.answered(key)
        conversation.compact("i-1", "a-r1", summary_id="s1")
        archived = conversation.row("i-1"), conversation.row("a-r1")

        conversation.compact("s1", "i-2", summary_id="s2")
        conversation.deleting().compact("s2", "a-r2", summary_id="s3")

        found = conversation.row("i-1"), conversation.row("a-r1")
        expect("archived messages", found, archived)
        expect("summary that was archived", conversation.row("s1").replaced_by, "s2")
        expect("history", conversation.history(), ["s3", "i-3", "a-r3"])


def check_many_rows_are_written_at_once(make_store: MakeStore) -> None:
    """An end can absorb hundreds of runs, and a summary stand for hundreds of messages."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit("0"))
        queued = [conversation.admit(str(number)) for number in range(1, MANY)]
        absorb = [
            Absorption(run_id=one.id, input_message_ids=one.input_message_ids) for one in queued
        ]

        ended = conversation.end(run, absorb=absorb)
        inputs = [f"i-{number}" for number in range(MANY)]
        absorbed = conversation.history()
        conversation.compact(*inputs)

        expect("inputs of the run", ended.input_message_ids, tuple(inputs))
        expect("history", absorbed, [*inputs, "a-r0"])
        expect("active runs", conversation.store.list_active_runs(conversation.id), ())
        expect("history in the end", conversation.history(), ["s", "a-r0"])


def check_compacted_messages_are_deleted_where_none_is_archived(make_store: MakeStore) -> None:
    """A store that archives nothing leaves no row of what a summary replaces."""
    with opened(make_store) as made:
        conversation = made.deleting()
        conversation.answered("1")
        conversation.admit("2")

        conversation.compact("i-1", "a-r1")

        ids = [placed.message.id for placed in conversation.rows().messages]
        expect("rows of messages", ids, ["s", "i-2"])


def check_a_compaction_at_another_version_is_refused(make_store: MakeStore) -> None:
    """A summary of a history that has moved is refused, and nothing is lost."""
    with opened(make_store) as conversation:
        conversation.answered("1")
        run = conversation.acquire(conversation.admit("2"))
        version = conversation.version
        conversation.interrupt(run)

        with conversation.unchanged("a compaction at an older version"):
            outcome = _compacted(conversation, "i-1", "a-r1", version=version)
            conflict = refused(outcome, ConflictReason.VERSION)

        expect("version that the conflict tells", conflict.version, version + 1)


def check_a_range_with_a_gap_is_not_compacted(make_store: MakeStore) -> None:
    """A range that leaves out a message between its ends is refused."""
    with opened(make_store) as conversation:
        conversation.answered("1")
        conversation.answered("2")

        with conversation.unchanged("compactions of ranges with gaps"):
            for ids in (("i-1", "i-2"), ("i-1", "a-r1", "a-r2"), ("a-r2", "i-1")):
                raised(InvalidCompactionError, partial(conversation.compact, *ids))


def check_what_is_not_active_is_not_compacted(make_store: MakeStore) -> None:
    """A message that is archived, or unknown, is not found by a compaction."""
    with opened(make_store) as made:
        conversation = made.archiving()
        conversation.answered()
        conversation.compact("i-1")

        with conversation.unchanged("compactions of what is not in the history"):
            for identity in ("i-1", "unknown"):
                outcome = _compacted(conversation, identity, "a-r1", version=conversation.version)
                assert isinstance(outcome, NotFound), f"{identity} was found: {outcome!r}"


def check_the_answer_of_an_active_run_is_not_compacted(make_store: MakeStore) -> None:
    """An answer that is still written stays out of every summary."""
    with opened(make_store) as conversation:
        conversation.checkpoint(conversation.acquire(conversation.admit()))

        with conversation.unchanged("a compaction of an active run's answer"):
            raised(InvalidCompactionError, lambda: conversation.compact("i-1", "a-r1"))

        conversation.compact("i-1")


def _compacted(conversation: Conversation, *message_ids: str, version: int) -> Outcome:
    return conversation.store.compact_history(
        conversation.id,
        expected_version=version,
        message_ids=message_ids,
        summary_parts="In short.",
        summary_id="late",
    )
