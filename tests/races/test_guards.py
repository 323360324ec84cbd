"""What moves between a read and its write, past the head's lock, stops the write; PostgreSQL.

A renewal is the one write of the store that may come there; anything else comes past the store.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from stitchkit_django import get_store
from stitchkit_django.core import Absorption, ConflictReason, RunState, StoreUnavailableError
from stitchkit_django.models import Run as RunRow
from tests.core.steps import (
    acquire,
    admit,
    checkpoint,
    owned,
    reason_of,
    view,
)
from tests.races.threads import RUN_WRITE, aside, before

if TYPE_CHECKING:
    from stitchkit_django.core import AgentStore, Outcome, Run

LAPSED = timedelta(microseconds=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def store(postgres_alias: str) -> AgentStore:
    return get_store(postgres_alias)


def test_a_renewal_between_the_read_and_the_write_of_a_recovery_saves_the_run(
    store: AgentStore,
) -> None:
    run = acquire(store, admit(store), lease=LAPSED)

    with before("postgres", RUN_WRITE, partial(aside, partial(renew, store, run, HOUR))):
        outcome = store.recover_run(
            "c",
            run.id,
            expected_revision=run.revision,
            action="abandon",
            require_expired_lease=True,
        )

    assert reason_of(outcome) is ConflictReason.LEASE
    kept = view(store).run
    assert (kept.state, kept.owner_id, kept.revision) == (RunState.RUNNING, "worker", run.revision)
    assert kept.lease_seconds == HOUR.total_seconds()
    assert store.load_snapshot("c").version == 2


def test_a_renewal_between_the_read_and_the_write_of_a_checkpoint_is_never_shortened(
    store: AgentStore,
) -> None:
    run = acquire(store, admit(store), lease=LAPSED)

    with before("postgres", RUN_WRITE, partial(aside, partial(renew, store, run, HOUR))):
        checkpoint(store, run, "So far")

    kept = view(store).run
    assert kept.revision == run.revision + 1
    assert kept.lease_expires_at is not None
    assert kept.lease_expires_at > kept.updated_at + HOUR / 2
    assert kept.lease_seconds == HOUR.total_seconds()


def test_a_lease_taken_away_between_the_read_and_the_write_of_a_checkpoint_stays_away(
    store: AgentStore,
) -> None:
    run = acquire(store, admit(store), lease=HOUR)

    with before("postgres", RUN_WRITE, partial(aside, partial(renew, store, run, None))):
        checkpoint(store, run, "So far")

    kept = view(store).run
    assert (kept.lease_seconds, kept.lease_expires_at) == (None, None)
    assert kept.revision == run.revision + 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        pytest.param({"fencing_token": 2}, "fence", id="fence"),
        pytest.param({"owner_id": "another"}, "owner", id="owner"),
        pytest.param({"revision": 7}, "revision", id="revision"),
    ],
)
@pytest.mark.parametrize("operation", ["checkpoint", "end"])
def test_a_worker_that_lost_its_run_between_the_read_and_the_write_moves_nothing(
    store: AgentStore, operation: str, fields: dict[str, object], told: str
) -> None:
    run = acquire(store, admit(store))

    def take_away() -> None:
        RunRow.objects.using("postgres").update(**fields)

    with before("postgres", RUN_WRITE, partial(aside, take_away)):
        outcome = write(store, run, operation)

    assert reason_of(outcome) == told
    snapshot = store.load_snapshot("c")
    assert (snapshot.version, [one.id for one in snapshot.messages]) == (2, ["i-1"])
    assert snapshot.runs == (view(store).run,)
    assert snapshot.runs[0].state is RunState.RUNNING


def test_a_renewal_whose_run_was_taken_after_its_read_is_refused(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    def take_away() -> None:
        RunRow.objects.using("postgres").update(fencing_token=2)

    with before("postgres", RUN_WRITE, partial(aside, take_away)):
        outcome = renew(store, run, HOUR)

    assert reason_of(outcome) is ConflictReason.FENCE
    assert view(store).run.lease_expires_at is None


# Under SERIALIZABLE the move refuses the whole transaction, which is then decided anew.
@pytest.mark.read_committed
def test_an_end_whose_queued_run_moved_in_the_middle_of_its_write_leaves_no_half(
    store: AgentStore,
) -> None:
    run = acquire(store, admit(store, "1"))
    queued = admit(store, "2")
    absorb = [Absorption(run_id=queued.id, input_message_ids=queued.input_message_ids)]

    def move() -> None:
        RunRow.objects.using("postgres").filter(run_id=queued.id).update(revision=7)

    with (
        before("postgres", RUN_WRITE, partial(aside, move)),
        pytest.raises(StoreUnavailableError, match="past the store"),
    ):
        store.commit_terminal(
            "c", run.id, **owned(run), parts="All", reason="success", absorb=absorb
        )

    assert view(store, run.id).run == run
    snapshot = store.load_snapshot("c")
    assert (snapshot.version, [one.id for one in snapshot.messages]) == (3, ["i-1", "i-2"])


def write(store: AgentStore, run: Run, operation: str) -> Outcome:
    if operation == "checkpoint":
        return store.checkpoint_run("c", run.id, **owned(run), parts="Stale")
    return store.commit_terminal("c", run.id, **owned(run), parts="Stale", reason="success")


def renew(store: AgentStore, run: Run, lease: timedelta | None) -> Outcome:
    return store.renew_lease("c", run.id, owner_id="worker", fencing_token=1, lease=lease)
