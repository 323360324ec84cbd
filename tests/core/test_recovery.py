"""A run whose owner is gone is queued again or given up; what it had stays."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from stitchkit_django.core import (
    AgentStore,
    Cost,
    InvalidValueError,
    MemoryDriver,
    MessageStatus,
    Provenance,
    ReplayNotSafeError,
    RunState,
    TerminalReason,
    TextPart,
    Usage,
)
from tests.core.steps import (
    abandon,
    acquire,
    admit,
    answer,
    checkpoint,
    history,
    message,
    requeue,
    rows,
    run_of,
    view,
)
from tests.factories import MOMENT

if TYPE_CHECKING:
    from stitchkit_django.core import Run
    from tests.core.clock import Clock

USAGE = Usage(cost=Cost(amount=Decimal("0.5"), currency="USD", provenance=Provenance.COMPUTED))
MINUTE = timedelta(minutes=1)


def spent(store: AgentStore) -> Run:
    """Give a run that has said something, spent money, and holds fence 1 and a lease."""
    run = acquire(store, admit(store), lease=MINUTE)
    return checkpoint(store, run, "Hel", usage=USAGE, metadata={"n": 1})


# ---------------------------------------------------------------- requeue


@pytest.mark.parametrize("interrupted", [False, True], ids=["running", "interrupt requested"])
def test_a_requeued_run_keeps_usage_fence_and_answer_and_loses_owner_and_lease(
    store: AgentStore, *, interrupted: bool
) -> None:
    run = spent(store)
    if interrupted:
        run = run_of(store.request_interrupt("c", "r1"))

    queued = requeue(store, run)

    assert (queued.state, queued.revision) == (RunState.QUEUED, run.revision + 1)
    assert (queued.usage, queued.fencing_token, queued.acquired_at) == (USAGE, 1, MOMENT)
    assert (queued.owner_id, queued.lease_seconds, queued.lease_expires_at) == (None, None, None)
    assert view(store).run == queued
    assert message(store, "a-r1").parts == (TextPart(text="Hel"),)
    assert message(store, "a-r1").status is MessageStatus.STREAMING


def test_the_fence_of_a_requeued_run_goes_on_rising(store: AgentStore) -> None:
    again = acquire(store, requeue(store, spent(store)), "another")

    assert (again.fencing_token, again.usage) == (2, USAGE)


def test_a_queued_run_may_be_requeued_though_its_replay_is_not_safe(store: AgentStore) -> None:
    admit(store)

    run = run_of(store.recover_run("c", "r1", expected_revision=0, action="requeue"))

    assert (run.state, run.revision) == (RunState.QUEUED, 1)


def test_an_acquired_run_is_not_requeued_unless_its_replay_is_safe(
    store: AgentStore, driver: MemoryDriver
) -> None:
    run = spent(store)
    before = rows(driver)

    with pytest.raises(ReplayNotSafeError) as refused:
        store.recover_run("c", "r1", expected_revision=run.revision, action="requeue")

    assert refused.value.run_id == "r1"
    assert rows(driver) == before


def test_a_requeued_run_keeps_its_place_in_the_queue(store: AgentStore) -> None:
    first = acquire(store, admit(store, "1"))
    second = admit(store, "2")

    first = requeue(store, first)

    assert store.list_active_runs("c") == (first, second)


# ---------------------------------------------------------------- abandon


@pytest.mark.parametrize("interrupted", [False, True], ids=["running", "interrupt requested"])
def test_an_abandoned_run_keeps_what_it_had_in_a_failed_answer(
    store: AgentStore, clock: Clock, *, interrupted: bool
) -> None:
    run = spent(store)
    if interrupted:
        run = run_of(store.request_interrupt("c", "r1"))
    clock.move(by=MINUTE)

    ended = abandon(store, run, detail="the worker is gone")

    assert (ended.state, ended.terminal_reason) == (RunState.ABANDONED, TerminalReason.ABANDONED)
    assert (ended.terminal_detail, ended.ended_at) == ("the worker is gone", clock.moment)
    assert (ended.usage, ended.fencing_token) == (USAGE, 1)
    assert (ended.owner_id, ended.lease_seconds, ended.lease_expires_at) == (None, None, None)
    assert (answer(store).status, answer(store).parts) == (
        MessageStatus.FAILED,
        (TextPart(text="Hel"),),
    )
    assert (answer(store).metadata, answer(store).created_at) == ({"n": 1}, MOMENT)
    assert history(store) == ["i-1", "a-r1"]


def test_a_run_that_had_said_nothing_is_abandoned_with_an_empty_answer(store: AgentStore) -> None:
    abandon(store, admit(store))

    assert (answer(store).status, answer(store).parts) == (MessageStatus.FAILED, ())


def test_a_conversation_takes_the_next_run_after_its_worker_was_given_up(
    store: AgentStore,
) -> None:
    run = spent(store)
    waiting = admit(store, "2")

    abandon(store, run)

    assert acquire(store, waiting).state is RunState.RUNNING


def test_the_detail_of_an_abandoned_run_is_cut_too(store: AgentStore) -> None:
    run = abandon(store, admit(store), detail="x" * 5_000)

    assert run.terminal_detail == "x" * 4_096


@pytest.mark.parametrize("action", ["restart", None, 1])
def test_an_action_is_of_its_closed_set(store: AgentStore, action: str) -> None:
    with pytest.raises(InvalidValueError, match="is not one of requeue, abandon"):
        store.recover_run("c", "r1", expected_revision=0, action=action)
