"""Laws of absorption: an answer takes queued runs in whole, or leaves them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    MemoryDriver,
    Message,
    MessageRole,
    MessageStatus,
    Place,
    PlacedMessage,
    RunState,
    StoredRun,
    TerminalReason,
    TextPart,
)
from stitchkit_django.core.driver import LAST_SLOT
from stitchkit_django.testing.claims import expect
from stitchkit_django.testing.conversation import Conversation, opened

if TYPE_CHECKING:
    from stitchkit_django.core import Run
    from stitchkit_django.core.driver import ConversationRows
    from stitchkit_django.testing.conversation import MakeStore


def check_an_absorption_is_whole(make_store: MakeStore) -> None:
    """An absorbed run ends with the absorbing one, and its inputs stand in that one's turn."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit("1"))
        second, last = conversation.admit("2"), conversation.admit("3")
        conversation.admit("4", joins="r2")
        second = conversation.view("r2").run

        ended = conversation.end(run, absorb=[_absorption(last), _absorption(second)])

        inputs = ("i-1", "i-3", "i-2", "i-4")
        expect("inputs of the run", ended.input_message_ids, inputs)
        expect("history", conversation.history(), [*inputs, "a-r1"])
        snapshot = conversation.store.load_snapshot(conversation.id)
        expect("turns", snapshot.turns, (run.turn,) * 5)
        expect("runs of the snapshot", snapshot.runs, (ended,))
        for run_id in ("r2", "r3"):
            view = conversation.view(run_id)
            end = (view.run.state, view.run.terminal_reason, view.run.absorbed_into_run_id)
            whole = (RunState.SUPERSEDED, TerminalReason.ABSORBED, "r1")
            expect(f"end of {run_id}", end, whole)
            expect(f"answer of {run_id}", view.assistant, None)
        expect("active runs", conversation.store.list_active_runs(conversation.id), ())


def check_a_changed_run_is_not_absorbed(make_store: MakeStore) -> None:
    """A run that has got another input is left to run, and nothing of it is moved."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit("1"))
        named = _absorption(conversation.admit("2"))
        left = conversation.admit("3", joins="r2")

        ended = conversation.end(run, absorb=[named])

        expect("inputs of the run", ended.input_message_ids, ("i-1",))
        expect("run that is left", conversation.view("r2").run, left)
        expect("history", conversation.history(), ["i-1", "a-r1", "i-2", "i-3"])
        conversation.acquire(left)


def check_a_run_that_has_answered_in_part_is_not_absorbed(make_store: MakeStore) -> None:
    """A queued run that has a message of its own, as rows can be restored, is left to run."""
    with opened(make_store) as conversation:
        model = Conversation(AgentStore(MemoryDriver()), conversation.id)
        model.acquire(model.admit("1"))
        model.admit("2")
        held = _with_message(model.rows(), "r2")
        conversation.driver.transaction(lambda transaction: transaction.restore(held))
        left = conversation.view("r2").run

        ended = conversation.end(conversation.view("r1").run, absorb=[_absorption(left)])

        expect("inputs of the run", ended.input_message_ids, ("i-1",))
        expect("run that is left", conversation.view("r2").run, left)
        expect("history", conversation.history(), ["i-1", "a-r1", "i-2", "a-r2"])


def check_an_absorbed_input_that_was_compacted_stays(make_store: MakeStore) -> None:
    """An input that a summary has replaced is not moved with its run: archived, or gone."""
    with opened(make_store) as made:
        conversation = made.archiving()
        run = conversation.acquire(conversation.admit("1"))
        runs = [conversation.admit("2"), conversation.admit("3")]
        conversation.compact("i-2", summary_id="s2")
        conversation.deleting().compact("i-3", summary_id="s3")
        archived = conversation.row("i-2")

        ended = conversation.end(run, absorb=[_absorption(one) for one in runs])

        expect("inputs of the run", ended.input_message_ids, ("i-1", "i-2", "i-3"))
        expect("history", conversation.history(), ["i-1", "a-r1", "s2", "s3"])
        expect("archived input", conversation.row("i-2"), archived)
        expect("answer of a retry", conversation.retry("3").run, ended)


def check_a_retry_of_an_absorbed_input_gets_the_answer(make_store: MakeStore) -> None:
    """A retry of an input whose run was absorbed reaches the run that answered, and its answer."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit("1"))
        ended = conversation.end(run, absorb=[_absorption(conversation.admit("2"))])

        retry = conversation.retry("2")

        expect("run", retry.run, ended)
        expect("answer", retry.assistant, conversation.message("a-r1"))
        expect("input", retry.input.id, "i-2")
        expect("pending answer", retry.pending, None)


def _with_message(rows: ConversationRows, run_id: str) -> ConversationRows:
    # As if the run had been acquired, had kept a part of its answer, and had been queued again.
    (run,) = [stored.run for stored in rows.runs if stored.run.id == run_id]
    message = Message(
        id=run.assistant_message_id,
        conversation_id=run.conversation_id,
        run_id=run.id,
        role=MessageRole.ASSISTANT,
        status=MessageStatus.STREAMING,
        parts=(TextPart(text="So far"),),
        created_at=run.updated_at,
        updated_at=run.updated_at,
    )
    again = replace(run, revision=3, fencing_token=1, acquired_at=run.updated_at)
    others = [stored for stored in rows.runs if stored.run.id != run_id]
    placed = PlacedMessage(message=message, place=Place(run.turn, LAST_SLOT))
    return replace(rows, runs=(*others, StoredRun(run=again)), messages=(*rows.messages, placed))


def _absorption(run: Run) -> Absorption:
    return Absorption(run_id=run.id, input_message_ids=run.input_message_ids)
