"""Laws of leases: what moves one, and by which one a run is judged."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stitchkit_django.core import ConflictReason, RunState
from stitchkit_django.testing.claims import applied, expect, refused, run_of
from stitchkit_django.testing.conversation import opened, owned

if TYPE_CHECKING:
    from datetime import datetime

    from stitchkit_django.core import Outcome, Run
    from stitchkit_django.testing.conversation import Conversation, MakeStore

HOUR: Final = timedelta(hours=1)
LAPSING: Final = timedelta(microseconds=1)
PATIENCE_SECONDS: Final = 60
"""How long a check waits for the driver's clock to go on."""


def check_a_renewal_moves_the_lease_alone(make_store: MakeStore) -> None:
    """A renewal changes a run's lease, and neither its revision nor the head."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit(), lease=timedelta(minutes=1))
        before = conversation.rows()

        renewed = _renewed(conversation, run, HOUR)
        found = applied(renewed)

        expect("version", found.version, before.head.version)
        assert found.run is not None, "a renewal gives no run"
        expect("length of the lease", found.run.lease_seconds, 3600.0)
        assert _end(found.run) > _end(run), "the lease ends no later"
        moved = replace(run, lease_seconds=3600.0, lease_expires_at=_end(found.run))
        expect("run that is read", conversation.view().run, moved)
        after = conversation.rows()
        unmoved = replace(after, runs=before.runs)
        expect("all but the run", unmoved, before)
        run_of(_renewed(conversation, run, None))
        unleased = replace(run, lease_seconds=None, lease_expires_at=None)
        expect("run without its lease", conversation.view().run, unleased)


def check_a_renewal_tells_of_an_interrupt(make_store: MakeStore) -> None:
    """A heartbeat is answered with the run's state, and refused once the run is another's."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit(), lease=HOUR)
        conversation.interrupt(run)
        told = run_of(_renewed(conversation, run, HOUR))
        expect("state", told.state, RunState.INTERRUPT_REQUESTED)
        expect("revision", told.revision, run.revision + 1)
        again = conversation.acquire(conversation.requeue(conversation.view().run), lease=HOUR)

        with conversation.unchanged("renewals of those who don't own the run"):
            refused(_renewed(conversation, run, HOUR), ConflictReason.FENCE)
            foreign = replace(again, owner_id="another")
            refused(_renewed(conversation, foreign, HOUR), ConflictReason.OWNER)
        conversation.end(again)
        with conversation.unchanged("a renewal of an ended run"):
            refused(_renewed(conversation, again, HOUR), ConflictReason.STATE)


def check_a_renewal_of_what_has_moved_writes_nothing(make_store: MakeStore) -> None:
    """`Driver.renew` is False, and writes nothing, when state, owner or fence have moved."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit(), lease=HOUR)
        renewed = replace(run, lease_seconds=7200.0, lease_expires_at=_end(run) + HOUR)
        expected = {
            "another owner": replace(run, owner_id="another"),
            "another fence": replace(run, fencing_token=2),
            "another state": replace(run, state=RunState.INTERRUPT_REQUESTED),
            "an unknown run": replace(run, id="unknown"),
            "an unknown conversation": replace(run, conversation_id="unknown"),
        }

        for name, other in expected.items():
            with conversation.unchanged(f"a renewal that expects {name}"):
                expect(name, conversation.driver.renew(other, renewed), expected=False)
        other = replace(renewed, revision=9, owner_id="another", updated_at=_end(run))
        expect("renewal", conversation.driver.renew(run, other), expected=True)
        expect("run that is read", conversation.view().run, renewed)


def check_a_lease_is_judged_as_stored(make_store: MakeStore) -> None:
    """A recovery that needs a lapsed lease looks at the stored one, by the database's clock."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit(), lease=LAPSING)
        _await_lapse(conversation, run)
        run_of(_renewed(conversation, run, HOUR))
        with conversation.unchanged("a recovery of a run that was renewed"):
            refused(_recovered(conversation, run), ConflictReason.LEASE)
        run_of(_renewed(conversation, run, None))
        with conversation.unchanged("a recovery of a run without a lease"):
            refused(_recovered(conversation, run), ConflictReason.LEASE)
        lapsing = run_of(_renewed(conversation, run, LAPSING))
        _await_lapse(conversation, lapsing)

        queued = run_of(_recovered(conversation, run))

        expect("state", queued.state, RunState.QUEUED)
        expect("lease", (queued.lease_seconds, queued.lease_expires_at), (None, None))
        expect("run that is read", conversation.view().run, queued)


def check_a_checkpoint_extends_a_lease(make_store: MakeStore) -> None:
    """A checkpoint begins the lease anew, and never shortens it."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit(), lease=HOUR)
        kept = conversation.checkpoint(run)
        read = conversation.view().run
        long = replace(kept, lease_expires_at=_end(kept) + HOUR)
        expect("renewal", conversation.driver.renew(kept, long), expected=True)
        longest = conversation.checkpoint(kept)

        expect("lease of a checkpoint", _end(kept), kept.updated_at + HOUR)
        expect("run that is read after it", read, kept)
        assert _end(kept) >= _end(run), "a checkpoint has shortened the lease"
        expect("lease that ends later", longest.lease_expires_at, long.lease_expires_at)
        expect("run that is read", conversation.view().run, longest)


def check_a_lease_ends_with_the_run(make_store: MakeStore) -> None:
    """A run that has ended, or is queued again, has no lease."""
    with opened(make_store) as conversation:
        ended = conversation.end(conversation.acquire(conversation.admit("1"), lease=HOUR))
        queued = conversation.requeue(conversation.acquire(conversation.admit("2"), lease=HOUR))

        for run in (ended, queued):
            expect(f"lease of {run.id}", (run.lease_seconds, run.lease_expires_at), (None, None))
            expect("run that is read", conversation.view(run.id).run, run)
        run = conversation.acquire(queued)
        expect("lease of the next owner", conversation.view("r2").run.lease_expires_at, None)
        abandoned = conversation.abandon(run_of(_renewed(conversation, run, HOUR)))
        expect("abandoned run", conversation.view("r2").run, abandoned)


def _renewed(conversation: Conversation, run: Run, lease: timedelta | None) -> Outcome:
    ownership = owned(run)
    assert ownership["fencing_token"] is not None, "an owned run has no fence"
    return conversation.store.renew_lease(
        conversation.id,
        run.id,
        owner_id=ownership["owner_id"],
        fencing_token=ownership["fencing_token"],
        lease=lease,
    )


def _recovered(conversation: Conversation, run: Run) -> Outcome:
    return conversation.store.recover_run(
        conversation.id,
        run.id,
        expected_revision=run.revision,
        action="requeue",
        replay_safe=True,
        require_expired_lease=True,
    )


def _end(run: Run) -> datetime:
    assert run.lease_expires_at is not None, f"run {run.id!r} has no lease"
    return run.lease_expires_at


def _await_lapse(conversation: Conversation, run: Run) -> None:
    # The lease is of a microsecond, so a clock that runs has passed it at the next look or soon.
    deadline = time.monotonic() + PATIENCE_SECONDS
    while conversation.driver.run(conversation.id, run.id).moment < _end(run):
        assert time.monotonic() < deadline, "the driver's clock stands still"
