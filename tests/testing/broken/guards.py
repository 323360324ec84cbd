"""Drivers that guard their writes too little, or too much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tests.testing.broken.defect import BrokenDriver, breaks, put_run, with_runs

if TYPE_CHECKING:
    from stitchkit_django.core import Run, WriteSet
    from stitchkit_django.core.driver import RunGuard, RunWrite
    from stitchkit_django.core.memory import MemoryTransaction


def as_stored(inner: MemoryTransaction, write: RunWrite) -> RunGuard | None:
    """Give the guard that a run would pass, whatever it was read as."""
    if write.guard is None:
        return None
    run = inner.conversations[write.run.conversation_id].runs[write.run.id].run
    return replace(
        write.guard,
        revision=run.revision,
        owner_id=run.owner_id,
        fencing_token=run.fencing_token,
        lease_expires_at=run.lease_expires_at if write.guard.lease else None,
    )


@breaks("a_write_at_another_version_writes_nothing")
class GuardsNoHead(BrokenDriver):
    """Relies on the guards of runs."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        found = inner.conversations.get(changes.head.conversation_id)
        version = found.head.version if found else 0
        return inner.write(replace(changes, expected_version=version))


@breaks("a_write_with_a_stale_run_writes_nothing")
class GuardsNoFence(BrokenDriver):
    """Compares revision and owner."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        def unfenced(write: RunWrite) -> RunWrite:
            guard = as_stored(inner, write)
            if guard is None or write.guard is None:
                return write
            return replace(write, guard=replace(write.guard, fencing_token=guard.fencing_token))

        return inner.write(with_runs(changes, unfenced))


@breaks("one_stale_run_of_several_stops_the_write")
class GuardsTheFirstRunAlone(BrokenDriver):
    """Relies on the head for the runs that are absorbed."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        first, others = changes.runs[:1], changes.runs[1:]
        unguarded = tuple(replace(one, guard=as_stored(inner, one)) for one in others)
        return inner.write(replace(changes, runs=first + unguarded))


@breaks("a_renewal_stops_what_was_decided_by_a_lease")
class GuardsNoLease(BrokenDriver):
    """Compares revision, owner and fence, and no lease."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        def unleased(write: RunWrite) -> RunWrite:
            if write.guard is None:
                return write
            return replace(write, guard=replace(write.guard, lease=False, lease_expires_at=None))

        return inner.write(with_runs(changes, unleased))


@breaks(
    "a_renewal_does_not_stop_an_end",
    "a_checkpoint_extends_a_lease",
    "a_lease_ends_with_the_run",
    "a_lease_is_judged_as_stored",
    "a_renewal_moves_the_lease_alone",
    "a_renewal_of_what_has_moved_writes_nothing",
    "a_renewal_stops_what_was_decided_by_a_lease",
    "a_write_leaves_a_lease_that_it_does_not_name",
    "versions_rise_by_exactly_one",
)
class CountsRenewalsAsRevisions(BrokenDriver):
    """Raises the revision in a renewal."""

    def renew(self, expected: Run, renewed: Run) -> bool:
        done = super().renew(expected, renewed)

        def count(inner: MemoryTransaction) -> None:
            stored = inner.conversations[expected.conversation_id].runs[expected.id]
            revision = stored.run.revision + 1
            put_run(inner, expected.conversation_id, expected.id, revision=revision)

        if done:
            self.transaction(lambda hooked: count(hooked.inner))  # type: ignore[attr-defined] # a HookedTransaction
        return done


@breaks("a_write_leaves_a_lease_that_it_does_not_name")
class WritesEveryColumn(BrokenDriver):
    """Writes a run as a whole, its lease as it was read included."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        return inner.write(with_runs(changes, lambda write: replace(write, lease=True)))


@breaks("a_refused_write_can_be_decided_anew")
class GivesUpAfterARefusal(BrokenDriver):
    """Writes nothing more in a transaction that has refused a write."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[MemoryTransaction] = []

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        written = inner not in self.refused and inner.write(changes)
        if not written:
            self.refused.append(inner)
        return written


@breaks(
    "of_two_ends_one_is_applied",
    "a_refused_write_can_be_decided_anew",
    "a_renewal_stops_what_was_decided_by_a_lease",
    "a_write_at_another_version_writes_nothing",
    "a_write_with_a_stale_run_writes_nothing",
    "one_stale_run_of_several_stops_the_write",
)
class LetsTheLastOneWin(BrokenDriver):
    """Guards nothing."""

    def write(self, inner: MemoryTransaction, changes: WriteSet) -> bool:
        found = inner.conversations.get(changes.head.conversation_id)
        version = found.head.version if found else 0
        free = with_runs(changes, lambda write: replace(write, guard=as_stored(inner, write)))
        return inner.write(replace(free, expected_version=version))
