"""Laws of recovery: what becomes of a run whose owner is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stitchkit_django.core import (
    ConflictReason,
    MessageStatus,
    ReplayNotSafeError,
    RunState,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)
from stitchkit_django.testing.claims import expect, raised, refused
from stitchkit_django.testing.conversation import opened, owned
from stitchkit_django.testing.ownership import SPENT

if TYPE_CHECKING:
    from stitchkit_django.testing.conversation import MakeStore

OPEN_CALL: Final = (
    TextPart(text="So far"),
    ToolCallPart(call_id="call-1", tool_name="search", input={"for": "it"}),
)
CLOSED_CALL: Final = (
    *OPEN_CALL,
    ToolResultPart(call_id="call-1", tool_name="search", outcome=ToolOutcome.INTERRUPTED),
)


def check_a_requeue_needs_evidence(make_store: MakeStore) -> None:
    """A run that had an owner is queued again only on the caller's word; one that hadn't, is."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit())
        recover = conversation.store.recover_run

        with conversation.unchanged("a requeue without evidence"):
            raised(
                ReplayNotSafeError,
                lambda: recover(
                    conversation.id, "r1", expected_revision=run.revision, action="requeue"
                ),
            )
        queued = conversation.requeue(run)
        recover(conversation.id, "r1", expected_revision=queued.revision, action="requeue")

        found = conversation.view().run
        expect("state and owner", (found.state, found.owner_id), (RunState.QUEUED, None))
        expect("revision", found.revision, queued.revision + 1)


def check_a_requeue_keeps_usage_fence_and_answer(make_store: MakeStore) -> None:
    """A run that is queued again keeps its usage, its fence and what it has said."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit())
        kept = conversation.checkpoint(run, OPEN_CALL, metadata={"step": 1}, usage=SPENT)
        said = conversation.message("a-r1")

        queued = conversation.requeue(kept)
        waiting = conversation.view().run
        taken = conversation.acquire(queued, "another")

        expect("queued run", waiting, queued)
        kept_back = (waiting.usage, waiting.fencing_token, waiting.owner_id)
        expect("usage, fence and owner", kept_back, (SPENT, 1, None))
        expect("next fence, and usage", (taken.fencing_token, taken.usage), (2, SPENT))
        expect("run that is read", conversation.view().run, taken)
        expect("what it has said", conversation.message("a-r1"), said)
        with conversation.unchanged("a write of the old owner"):
            refused(
                conversation.store.checkpoint_run(
                    conversation.id, "r1", **owned(kept), parts="Old"
                ),
                ConflictReason.REVISION,
            )


def check_an_abandoned_run_has_its_message(make_store: MakeStore) -> None:
    """A run that is given up has, as of the same version, a failed answer with what it had."""
    with opened(make_store) as conversation:
        had = conversation.checkpoint(conversation.acquire(conversation.admit("1")), "So far")
        version = conversation.version
        abandoned = conversation.abandon(had, detail="its worker is gone")
        snapshot = conversation.store.load_snapshot(conversation.id)
        never_taken = conversation.abandon(conversation.admit("2"))

        expect("version", snapshot.version, version + 1)
        statuses = [(one.id, one.status) for one in snapshot.messages]
        failed = ("a-r1", MessageStatus.FAILED)
        expect("messages", statuses, [("i-1", MessageStatus.COMMITTED), failed])
        answer = conversation.message("a-r1")
        expect("what it says", answer.parts, (TextPart(text="So far"),))
        view = conversation.view()
        expect("run and retained answer", (view.run, view.assistant), (abandoned, answer))
        ended = (view.run.state, view.run.owner_id, view.run.terminal_detail)
        expect("end", ended, (RunState.ABANDONED, None, "its worker is gone"))
        empty = conversation.message(never_taken.assistant_message_id)
        expect("answer of a run never taken", (empty.status, empty.parts), (answer.status, ()))


def check_open_tool_calls_are_closed(make_store: MakeStore) -> None:
    """At each end a call without a result gets one, in history and retained answer; not before."""
    with opened(make_store) as conversation:
        running = conversation.checkpoint(conversation.acquire(conversation.admit("1")), OPEN_CALL)
        expect("parts of an active run", conversation.message("a-r1").parts, OPEN_CALL)
        conversation.end(running, OPEN_CALL)
        for key in "23":
            run = conversation.acquire(conversation.admit(key))
            kept = conversation.checkpoint(run, OPEN_CALL)
            if key == "2":
                conversation.abandon(kept)
            else:
                conversation.cancel(conversation.requeue(kept))

        for run_id in ("r1", "r2", "r3"):
            answer = conversation.view(run_id).assistant
            assert answer is not None, f"{run_id} has no answer"
            expect(f"answer of {run_id}", answer.parts, CLOSED_CALL)
            expect("message in the history", conversation.message(answer.id), answer)
