"""Laws of ownership: who may write a run, and that a run has one end."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from stitchkit_django.core import (
    ConflictReason,
    Cost,
    MessageStatus,
    Provenance,
    RunState,
    TerminalReason,
    TokenCount,
    Usage,
)
from stitchkit_django.core.lifecycle import ENDINGS, RESERVED_REASONS
from stitchkit_django.testing.claims import expect, refused, run_of
from stitchkit_django.testing.conversation import opened, owned

if TYPE_CHECKING:
    from stitchkit_django.core import Outcome, Run
    from stitchkit_django.testing.conversation import Conversation, MakeStore, Ownership

SPENT: Final = Usage(
    input_tokens=TokenCount(value=0, provenance=Provenance.PROVIDER_REPORTED),
    output_tokens=TokenCount(value=2**63 - 1, provenance=Provenance.COMPUTED),
    reasoning_tokens=TokenCount(provenance=Provenance.UNAVAILABLE),
    cache_read_tokens=TokenCount(value=3, provenance=Provenance.ESTIMATED),
    cache_write_tokens=TokenCount(value=4, provenance=Provenance.ESTIMATED),
    cost=Cost(
        amount=Decimal("123456789012345678.1234567890"),
        currency="USD",
        provenance=Provenance.PROVIDER_REPORTED,
    ),
)
"""A usage that has everything."""


def check_runs_are_taken_in_the_order_of_their_inputs(make_store: MakeStore) -> None:
    """A run is not acquired before the runs of earlier inputs have ended."""
    with opened(make_store) as conversation:
        first, second = conversation.admit("2"), conversation.admit("1")
        with conversation.unchanged("an acquisition out of turn"):
            refused(_acquired(conversation, second), ConflictReason.QUEUE)
        taken = conversation.acquire(first)
        with conversation.unchanged("a second acquisition in a conversation"):
            refused(_acquired(conversation, second), ConflictReason.QUEUE)
        conversation.end(taken)

        expect("state of the second", conversation.acquire(second).state, RunState.RUNNING)


def check_a_stale_revision_is_refused(make_store: MakeStore) -> None:
    """An owner that hasn't seen an interrupt is told so by the revision, and writes nothing."""
    with opened(make_store) as conversation:
        seen = conversation.acquire(conversation.admit())
        conversation.interrupt(seen)

        with conversation.unchanged("writes at an older revision"):
            kept = refused(_checkpointed(conversation, seen, owned(seen)), ConflictReason.REVISION)
            refused(_ended(conversation, seen, owned(seen)), ConflictReason.REVISION)

        assert kept.run is not None, "the conflict doesn't tell the run as it is"
        expect("revision that the conflict tells", kept.run.revision, seen.revision + 1)


def check_a_stale_fence_is_refused(make_store: MakeStore) -> None:
    """An owner that has lost its run can't write it, not even under the name of the next owner."""
    with opened(make_store) as conversation:
        lost = conversation.acquire(conversation.admit())
        run = conversation.acquire(conversation.requeue(lost))

        ownership = _ownership(run, "worker", lost.fencing_token)
        with conversation.unchanged("writes with an older fence"):
            refused(_checkpointed(conversation, run, ownership), ConflictReason.FENCE)
            refused(_ended(conversation, run, ownership), ConflictReason.FENCE)


def check_a_foreign_owner_is_refused(make_store: MakeStore) -> None:
    """A worker that another one has followed can't write the run, at whatever revision."""
    with opened(make_store) as conversation:
        lost = conversation.acquire(conversation.admit(), "worker")
        run = conversation.acquire(conversation.requeue(lost), "Worker")

        with conversation.unchanged("writes of another owner"):
            for owner_id in ("worker", "another"):
                ownership = _ownership(run, owner_id, None)
                refused(_checkpointed(conversation, run, ownership), ConflictReason.OWNER)
                refused(_ended(conversation, run, ownership), ConflictReason.OWNER)


def check_a_fence_that_is_not_given_is_not_checked(make_store: MakeStore) -> None:
    """An owner may leave its fencing token out, after the second acquisition as well."""
    with opened(make_store) as conversation:
        again = conversation.requeue(conversation.acquire(conversation.admit()))
        run = conversation.acquire(again)

        kept = run_of(_checkpointed(conversation, run, _ownership(run, "worker", None)))
        ended = run_of(_ended(conversation, run, _ownership(kept, "worker", None)))

        expect("fence", (kept.fencing_token, ended.fencing_token), (2, 2))
        expect("run that is read", conversation.view().run, ended)


def check_fence_and_usage_are_read_back(make_store: MakeStore) -> None:
    """What an owner's writes say of fence and usage is read back by every read, digit by digit."""
    with opened(make_store) as conversation:
        again = conversation.requeue(conversation.acquire(conversation.admit()))
        run = conversation.checkpoint(conversation.acquire(again), usage=SPENT)

        expect("fence", run.fencing_token, 2)
        reads = {
            "run": [conversation.view().run],
            "active runs": [*conversation.store.list_active_runs(conversation.id)],
            "runs of the snapshot": [*conversation.store.load_snapshot(conversation.id).runs],
            "rows": [stored.run for stored in conversation.rows().runs],
        }
        for name, found in reads.items():
            expect(name, found, [run])
            # Amounts are equal whatever digits they are written with.
            expect(f"usage in {name}", repr([one.usage for one in found]), repr([SPENT]))
        ended = conversation.end(run)
        expect("usage after an end that names none", conversation.view().run.usage, SPENT)
        expect("ended run", conversation.view().run, ended)


def check_an_interrupt_is_durable(make_store: MakeStore) -> None:
    """A requested interrupt is there for all to see, stops checkpoints, and keeps the usage."""
    with opened(make_store) as conversation:
        kept = conversation.checkpoint(conversation.acquire(conversation.admit()), usage=SPENT)

        run = conversation.interrupt(kept)

        expect("state", run.state, RunState.INTERRUPT_REQUESTED)
        expect("run that is read", conversation.view().run, run)
        active = conversation.store.list_active_runs(conversation.id)
        expect("active runs", active, (run,))
        with conversation.unchanged("a checkpoint after an interrupt"):
            refused(_checkpointed(conversation, run, owned(run)), ConflictReason.STATE)
        ended = conversation.end(run, "So", reason="interrupted")
        expect("usage in the end", (ended.state, ended.usage), (RunState.INTERRUPTED, SPENT))
        expect("answer", conversation.message("a-r1").status, MessageStatus.INTERRUPTED)


def check_every_end_is_read_back(make_store: MakeStore) -> None:
    """Each reason that an owner can give is read back, with the state and status that it means."""
    with opened(make_store) as conversation:
        for reason in sorted(set(TerminalReason) - RESERVED_REASONS):
            run = conversation.acquire(conversation.admit(reason))
            stops = reason is TerminalReason.POLICY_STOP

            ended = run_of(
                conversation.store.commit_terminal(
                    conversation.id,
                    run.id,
                    **owned(run),
                    parts="Hello!",
                    reason=reason,
                    policy_name="max_steps" if stops else None,
                    detail=f"because of {reason}",
                )
            )

            view = conversation.view(run.id)
            expect(f"run that ended by {reason}", view.run, ended)
            expect("state", view.run.state, ENDINGS[reason].state)
            answer = conversation.message(run.assistant_message_id)
            expect("answer", view.assistant, answer)
            expect("status", answer.status, ENDINGS[reason].status)


def check_a_cancelled_run_keeps_an_answer(make_store: MakeStore) -> None:
    """A queued run that is cancelled has an answer: what it had said, or an empty one."""
    with opened(make_store) as conversation:
        queued = conversation.cancel(conversation.admit("1"))
        had = conversation.checkpoint(conversation.acquire(conversation.admit("2")), "So far")
        requeued = conversation.cancel(conversation.requeue(had))

        for run, text in ((queued, ""), (requeued, "So far")):
            answer = conversation.view(run.id).assistant
            assert answer is not None, f"{run.id} has no answer"
            found = "".join(getattr(part, "text", "?") for part in answer.parts)
            expect(f"answer of {run.id}", (answer.status, found), (MessageStatus.INTERRUPTED, text))
            expect("message in the history", conversation.message(answer.id), answer)
            expect("answer of a retry", conversation.retry(run.id[1:]).assistant, answer)
        expect("history", conversation.history(), ["i-1", "a-r1", "i-2", "a-r2"])


def check_an_ended_run_stays_ended(make_store: MakeStore) -> None:
    """Nothing that is asked of a run that has ended changes it."""
    with opened(make_store) as conversation:
        run = conversation.answered()
        store = conversation.store

        with conversation.unchanged("operations on an ended run"):
            refused(_acquired(conversation, run), ConflictReason.STATE)
            refused(_checkpointed(conversation, run, owned(run)), ConflictReason.STATE)
            refused(_ended(conversation, run, owned(run)), ConflictReason.STATE)
            refused(store.request_interrupt(conversation.id, run.id), ConflictReason.STATE)
            refused(store.cancel_run(conversation.id, run.id), ConflictReason.STATE)
            for action in ("requeue", "abandon"):
                recovered = store.recover_run(
                    conversation.id, run.id, expected_revision=run.revision, action=action
                )
                refused(recovered, ConflictReason.STATE)

        expect("run", conversation.view().run, run)


def _acquired(conversation: Conversation, run: Run) -> Outcome:
    return conversation.store.acquire_run(
        conversation.id, run.id, expected_revision=run.revision, owner_id="another"
    )


def _checkpointed(conversation: Conversation, run: Run, ownership: Ownership) -> Outcome:
    return conversation.store.checkpoint_run(conversation.id, run.id, **ownership, parts="So far")


def _ended(conversation: Conversation, run: Run, ownership: Ownership) -> Outcome:
    return conversation.store.commit_terminal(
        conversation.id, run.id, **ownership, parts="Hello!", reason="success"
    )


def _ownership(run: Run, owner_id: str, fencing_token: int | None) -> Ownership:
    return {
        "expected_revision": run.revision,
        "owner_id": owner_id,
        "fencing_token": fencing_token,
    }
