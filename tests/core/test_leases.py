"""A lease says until when an owner is believed to live; nothing but the clock ends it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from stitchkit_django.core import (
    AgentStore,
    Applied,
    ConflictReason,
    MemoryDriver,
    RecoveryAction,
    RunState,
    TextPart,
    WriteSet,
    reducer,
)
from stitchkit_django.core.operations import (
    CheckpointRun,
    Mutation,
    RecoverRun,
    RequestInterrupt,
)
from stitchkit_django.core.wanted import wanted
from tests.core.steps import (
    acquire,
    admit,
    checkpoint,
    end,
    owned,
    reason_of,
    rows,
    run_of,
    view,
)
from tests.factories import MOMENT

if TYPE_CHECKING:
    from stitchkit_django.core import Run
    from tests.core.clock import Clock

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def renew(store: AgentStore, run: Run, lease: timedelta | None = MINUTE) -> Applied:
    assert run.owner_id is not None
    assert run.fencing_token is not None
    outcome = store.renew_lease(
        "c", run.id, owner_id=run.owner_id, fencing_token=run.fencing_token, lease=lease
    )
    assert isinstance(outcome, Applied), outcome
    return outcome


def recover(store: AgentStore, run: Run) -> ConflictReason | RunState:
    """Abandon a run if its lease has lapsed; give what came of it."""
    outcome = store.recover_run(
        "c",
        run.id,
        expected_revision=run.revision,
        action="abandon",
        require_expired_lease=True,
    )
    return run_of(outcome).state if isinstance(outcome, Applied) else reason_of(outcome)


def test_a_lease_begins_with_the_acquisition(store: AgentStore) -> None:
    run = acquire(store, admit(store), lease=timedelta(seconds=1.5))

    assert (run.lease_seconds, run.lease_expires_at) == (1.5, MOMENT + timedelta(seconds=1.5))


def test_a_lease_is_exact_to_the_microsecond(store: AgentStore) -> None:
    lease = timedelta(days=1, microseconds=1)

    run = acquire(store, admit(store), lease=lease)

    assert run.lease_seconds == 86_400.000001
    assert run.lease_expires_at == MOMENT + lease


# ---------------------------------------------------------------- renewal


def test_a_renewal_moves_the_lease_and_nothing_else(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    before = rows(driver)
    clock.move(by=timedelta(seconds=30))

    outcome = renew(store, run, timedelta(minutes=2))

    assert outcome.version == before.head.version
    renewed = view(store).run
    assert outcome.run == renewed
    assert (renewed.lease_seconds, renewed.lease_expires_at) == (120.0, clock.moment + 2 * MINUTE)
    assert (renewed.revision, renewed.updated_at) == (run.revision, MOMENT)
    assert rows(driver).head == before.head


def test_a_renewal_tells_of_a_requested_interrupt(store: AgentStore) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    store.request_interrupt("c", "r1")

    outcome = renew(store, run)

    assert outcome.run is not None
    assert outcome.run.state is RunState.INTERRUPT_REQUESTED


def test_a_renewal_may_begin_shorten_or_take_away_a_lease(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    renew(store, run, HOUR)
    assert view(store).run.lease_expires_at == MOMENT + HOUR
    renew(store, run, MINUTE)
    assert view(store).run.lease_expires_at == MOMENT + MINUTE
    renew(store, run, None)
    assert view(store).run == run


def test_a_lapsed_lease_binds_nobody_until_the_run_is_taken(
    store: AgentStore, clock: Clock
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    clock.move(by=HOUR)

    renew(store, run)
    clock.move(by=HOUR)
    run = checkpoint(store, view(store).run, "Hel")
    clock.move(by=HOUR)

    assert end(store, run).state is RunState.COMPLETED


def test_a_renewal_after_the_run_was_taken_is_refused(store: AgentStore, clock: Clock) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    clock.move(by=HOUR)
    store.recover_run("c", "r1", expected_revision=1, action="requeue", replay_safe=True)
    acquire(store, view(store).run, "worker")

    outcome = store.renew_lease("c", "r1", owner_id="worker", fencing_token=1, lease=MINUTE)

    assert run.fencing_token == 1
    assert reason_of(outcome) is ConflictReason.FENCE


def test_a_clock_that_was_set_back_shortens_no_renewed_lease(
    store: AgentStore, clock: Clock
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    clock.move(by=-HOUR)

    renew(store, run)

    assert view(store).run.lease_expires_at == MOMENT + MINUTE
    assert recover(store, run) is ConflictReason.LEASE


# ---------------------------------------------------------------- checkpoint


def test_a_checkpoint_extends_the_lease_by_its_length(store: AgentStore, clock: Clock) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    clock.move(by=timedelta(seconds=30))

    run = checkpoint(store, run, "Hel")

    assert run.lease_expires_at == clock.moment + MINUTE
    assert view(store).run == run


def test_a_checkpoint_never_shortens_a_lease(store: AgentStore, clock: Clock) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    clock.move(by=HOUR)
    renew(store, run, MINUTE)
    clock.move(by=-HOUR)

    run = checkpoint(store, run, "Hel")

    assert run.lease_expires_at == MOMENT + HOUR + MINUTE
    assert view(store).run == run


def test_a_checkpoint_gives_no_lease_to_a_run_without_one(store: AgentStore) -> None:
    run = checkpoint(store, acquire(store, admit(store)), "Hel")

    assert (run.lease_seconds, run.lease_expires_at) == (None, None)


def decided(driver: MemoryDriver, request: Mutation) -> WriteSet:
    """Decide an operation, but don't write it yet."""
    decision = driver.transaction(
        lambda transaction: reducer.decide(transaction.read(wanted(request)), request)
    )
    assert isinstance(decision, WriteSet)
    return decision


def test_a_checkpoint_is_decided_anew_when_a_renewal_came_between_its_read_and_its_write(
    store: AgentStore, driver: MemoryDriver
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    request = CheckpointRun(
        conversation_id="c",
        run_id="r1",
        **owned(run),
        parts=(TextPart(text="Hel"),),
        metadata=None,
        usage=None,
    )
    decision = decided(driver, request)
    renewed = renew(store, run, HOUR).run

    assert not driver.transaction(lambda transaction: transaction.write(decision))

    assert view(store).run == renewed
    assert checkpoint(store, run, "Hel").lease_expires_at == MOMENT + HOUR
    assert view(store).run.lease_seconds == 3_600.0


def test_an_interrupt_is_decided_anew_when_a_renewal_came_between_its_read_and_its_write(
    store: AgentStore, driver: MemoryDriver
) -> None:
    run = acquire(store, admit(store), lease=HOUR)
    request = RequestInterrupt(conversation_id="c", run_id="r1", expected_revision=None)
    decision = decided(driver, request)
    renewed = renew(store, run, MINUTE).run

    assert not driver.transaction(lambda transaction: transaction.write(decision))

    assert view(store).run == renewed
    outcome = store.request_interrupt("c", "r1")
    assert isinstance(outcome, Applied)
    interrupted = outcome.run
    assert interrupted is not None
    assert interrupted.lease_expires_at == MOMENT + MINUTE
    assert view(store).run == interrupted


@pytest.mark.parametrize("action", RecoveryAction)
def test_a_renewal_between_a_recoverys_read_and_its_write_stops_the_write(
    store: AgentStore, driver: MemoryDriver, clock: Clock, action: RecoveryAction
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    clock.move(by=HOUR)
    request = RecoverRun(
        conversation_id="c",
        run_id="r1",
        expected_revision=1,
        action=action,
        replay_safe=True,
        require_expired_lease=True,
        detail=None,
    )
    decision = decided(driver, request)
    renew(store, run, MINUTE)
    before = rows(driver)

    assert not driver.transaction(lambda transaction: transaction.write(decision))

    assert rows(driver) == before


# ---------------------------------------------------------------- recovery


def test_a_lease_that_has_not_lapsed_keeps_its_run(store: AgentStore, clock: Clock) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    clock.move(by=MINUTE - timedelta(microseconds=1))

    assert recover(store, run) is ConflictReason.LEASE
    clock.move(by=timedelta(microseconds=1))
    assert recover(store, run) is RunState.ABANDONED


def test_a_renewal_between_the_scan_and_the_recovery_keeps_the_run(
    store: AgentStore, clock: Clock
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    clock.move(by=HOUR)
    (seen,) = store.scan_recoverable().items

    renew(store, run)

    assert recover(store, seen) is ConflictReason.LEASE


@pytest.mark.parametrize("acquired", [True, False], ids=["acquired", "queued"])
def test_a_run_without_a_lease_has_none_that_could_lapse(
    store: AgentStore, clock: Clock, *, acquired: bool
) -> None:
    run = admit(store)
    if acquired:
        run = acquire(store, run)
    clock.move(by=HOUR)

    assert recover(store, run) is ConflictReason.LEASE
