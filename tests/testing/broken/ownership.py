"""Drivers that break laws of ownership, recovery and leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stitchkit_django.core import Message, MessageStatus, RunState, TerminalReason
from stitchkit_django.core.driver import AssistantWanted, InsertMessage
from stitchkit_django.core.memory import utc_now
from tests.testing.broken.defect import (
    BrokenDriver,
    breaks,
    kind,
    put_head,
    put_message,
    updates,
    with_history,
    with_run,
    with_runs,
)

if TYPE_CHECKING:
    from stitchkit_django.core import Facts, ReadSet, Run, WriteSet
    from stitchkit_django.core.driver import ConversationView, RunFacts, RunWrite
    from stitchkit_django.core.memory import MemoryTransaction


@breaks(
    "runs_are_taken_in_the_order_of_their_inputs",
    "active_runs_are_listed_by_turn",
)
class QueuesById(BrokenDriver):
    """Takes the active run of the lowest id for the first one."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        if facts.first_active_id is None:
            return facts
        active = inner.conversations[wanted.conversation_id].active_runs()
        return replace(facts, first_active_id=min(run.id for run in active))


@breaks(
    "a_stale_revision_is_refused",
    "a_failure_leaves_nothing",
    "a_renewal_tells_of_an_interrupt",
    "a_write_leaves_a_lease_that_it_does_not_name",
    "an_interrupt_is_durable",
    "conversations_are_isolated",
    "versions_rise_by_exactly_one",
)
class LeavesTheRevisionOfAnInterrupt(BrokenDriver):
    """Writes an interrupt's state, and forgets its revision."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "interrupt":
            changes = with_run(changes, revision=changes.runs[0].run.revision - 1)
        return inner.write(changes)


@breaks(
    "a_stale_fence_is_refused",
    "a_fence_that_is_not_given_is_not_checked",
    "a_lease_ends_with_the_run",
    "a_lease_is_judged_as_stored",
    "a_renewal_tells_of_an_interrupt",
    "a_requeue_keeps_usage_fence_and_answer",
    "fence_and_usage_are_read_back",
)
class CountsFencesFromEachQueueing(BrokenDriver):
    """Clears the fence with the owner, so that the next one is 1 again."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "requeue":
            changes = with_run(changes, fencing_token=None, acquired_at=None)
        return inner.write(changes)


@breaks("a_foreign_owner_is_refused")
class FoldsTheCaseOfOwners(BrokenDriver):
    """Keeps owners in small letters."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "acquire":
            changes = with_run(changes, owner_id=(changes.runs[0].run.owner_id or "").lower())
        return inner.write(changes)


@breaks(
    "a_fence_that_is_not_given_is_not_checked",
    "fence_and_usage_are_read_back",
    "rows_are_a_whole_conversation",
)
class GuardsByTheFirstFence(BrokenDriver):
    """Writes no answer of an owner after the first."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        later = any(one.guard and (one.guard.fencing_token or 0) > 1 for one in changes.runs)
        return not (later and kind(changes) == "checkpoint") and inner.write(changes)


@breaks("fence_and_usage_are_read_back")
class ReadsNoUsageInASnapshot(BrokenDriver):
    """Leaves a column out of one of its statements."""

    def snapshot(self, conversation_id: str) -> ConversationView:
        view = super().snapshot(conversation_id)
        return replace(view, runs=tuple(replace(run, usage=None) for run in view.runs))


@breaks("an_interrupt_is_durable")
class LosesTheUsageOfAnInterruptedRun(BrokenDriver):
    """Writes usage where an operation names some, and else clears it."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "interrupt":
            changes = with_run(changes, usage=None)
        return inner.write(changes)


@breaks("every_end_is_read_back")
class KeepsNoPolicy(BrokenDriver):
    """Has no column for the name of a policy, and takes its end for a success."""

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        facts = super().run(conversation_id, run_id)
        if facts.run is None or facts.run.run.terminal_policy_name is None:
            return facts
        run = replace(
            facts.run.run, terminal_policy_name=None, terminal_reason=TerminalReason.SUCCESS
        )
        return replace(facts, run=replace(facts.run, run=run))


@breaks("a_cancelled_run_keeps_an_answer")
class GivesACancelledRunNoMessage(BrokenDriver):
    """Retains the empty answer of a cancelled run, and leaves it out of the history."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "cancel":
            changes = with_history(
                changes, lambda one: None if isinstance(one, InsertMessage) else one
            )
        return inner.write(changes)


@breaks(
    "an_ended_run_stays_ended",
    "of_two_ends_one_is_applied",
)
class ReadsAnEndedRunAsItWas(BrokenDriver):
    """Tells a run that its owner has ended to be running still."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        run = facts.run
        if run is None or run.is_active or run.owner_id is None:
            return facts
        running = replace(
            run, state=RunState.RUNNING, terminal_reason=None, terminal_detail=None, ended_at=None
        )
        return replace(facts, run=running)


# ---------------------------------------------------------------- recovery


@breaks(
    "a_requeue_needs_evidence",
    "a_lease_ends_with_the_run",
    "a_lease_is_judged_as_stored",
    "a_renewal_stops_what_was_decided_by_a_lease",
    "a_renewal_tells_of_an_interrupt",
    "versions_rise_by_exactly_one",
)
class TakesASilentRunForAQueuedOne(BrokenDriver):
    """Tells a run that has said nothing to be one that nobody has taken."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        run = facts.run
        silent = wanted.assistant is AssistantWanted.WHOLE and facts.assistant is None
        if run is None or not run.is_acquired or not silent:
            return facts
        queued = replace(
            run,
            state=RunState.QUEUED,
            owner_id=None,
            lease_seconds=None,
            lease_expires_at=None,
        )
        return replace(facts, run=queued)

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        def by_revision(write: RunWrite) -> RunWrite:
            stored = inner.conversations[write.run.conversation_id].runs.get(write.run.id)
            if write.guard is None or stored is None:
                return write
            return replace(write, guard=replace(write.guard, owner_id=stored.run.owner_id))

        if kind(changes) in {"requeue", "abandon", "cancel"}:
            changes = with_runs(changes, by_revision)
        return inner.write(changes)


@breaks("a_requeue_keeps_usage_fence_and_answer")
class LosesTheUsageOfARequeuedRun(BrokenDriver):
    """Begins anew with a run that is queued again."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "requeue":
            changes = with_run(changes, usage=None)
        return inner.write(changes)


@breaks(
    "an_abandoned_run_has_its_message",
    "open_tool_calls_are_closed",
)
class LeavesTheMessageOfAnAbandonedRun(BrokenDriver):
    """Retains the answer of an abandoned run, and leaves the history as it was."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "abandon":
            changes = with_history(
                changes, lambda one: None if updates(one, MessageStatus.FAILED) else one
            )
        return inner.write(changes)


@breaks("open_tool_calls_are_closed")
class UpdatesTheStatusOfACancelledAnswer(BrokenDriver):
    """Leaves the parts of a cancelled run's answer as they were."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        where, before = changes.head.conversation_id, dict(inner.conversations)
        written = inner.write(changes)
        for mutation in changes.history if written and kind(changes) == "cancel" else ():
            if updates(mutation, MessageStatus.INTERRUPTED):
                message: Message = mutation.message  # type: ignore[union-attr] # it updates one
                kept = replace(message, parts=before[where].messages[message.id].message.parts)
                put_message(inner, where, message.id, message=kept)
        return written


# ---------------------------------------------------------------- leases


@breaks("a_renewal_moves_the_lease_alone")
class TouchesTheHeadInARenewal(BrokenDriver):
    """Notes each renewal in the head."""

    def renew(self, expected: Run, renewed: Run) -> bool:
        done = super().renew(expected, renewed)

        def touch(inner: MemoryTransaction) -> None:
            put_head(inner, expected.conversation_id, updated_at=utc_now())

        if done:
            self.transaction(lambda hooked: touch(hooked.inner))  # type: ignore[attr-defined] # a HookedTransaction
        return done


@breaks("a_renewal_tells_of_an_interrupt")
class RenewsRunningRunsAlone(BrokenDriver):
    """Looks for the state `running` in a renewal."""

    def renew(self, expected: Run, renewed: Run) -> bool:
        return expected.state is RunState.RUNNING and super().renew(expected, renewed)


@breaks("a_renewal_of_what_has_moved_writes_nothing")
class RenewsWhateverTheFence(BrokenDriver):
    """Looks for the owner in a renewal, and not for the fence."""

    def renew(self, expected: Run, renewed: Run) -> bool:
        stored = self.run(expected.conversation_id, expected.id).run
        fence = stored.run.fencing_token if stored else None
        return super().renew(replace(expected, fencing_token=fence or 1), renewed)


@breaks("a_lease_is_judged_as_stored")
class RenewsNoLapsedLease(BrokenDriver):
    """Says of a lapsed lease that it was renewed, and leaves it."""

    def renew(self, expected: Run, renewed: Run) -> bool:
        facts = self.run(expected.conversation_id, expected.id)
        lease = None if facts.run is None else facts.run.run.lease_expires_at
        if lease is not None and lease <= facts.moment:
            return True
        return super().renew(expected, renewed)


@breaks("a_checkpoint_extends_a_lease")
class WritesNoLeaseInACheckpoint(BrokenDriver):
    """Leaves leases to acquisitions and renewals."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        if kind(changes) == "checkpoint":
            changes = with_runs(changes, lambda write: replace(write, lease=False))
        return inner.write(changes)


@breaks("a_lease_ends_with_the_run")
class HandsALeaseToTheNextOwner(BrokenDriver):
    """Keeps the lease beside the run, and doesn't clear it."""

    def __init__(self) -> None:
        super().__init__()
        self.leases: dict[tuple[str, str], Run] = {}

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        for write in changes.runs:
            run, key = write.run, (write.run.conversation_id, write.run.id)
            if run.lease_expires_at is not None:
                self.leases[key] = run
            elif kind(changes) == "acquire" and key in self.leases:
                leased = self.leases[key]
                changes = with_run(
                    changes,
                    lease_seconds=leased.lease_seconds,
                    lease_expires_at=leased.lease_expires_at,
                )
        return inner.write(changes)
