"""Where several things have moved, the first of the contract's order is told; misuse comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    Conflict,
    ConflictReason,
    InvalidAbsorptionError,
    MemoryDriver,
    NotFound,
    ReplayNotSafeError,
    TextPart,
)
from tests.core.steps import acquire, admit, answered, end, rows, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import Outcome, Run

    Call = Callable[[AgentStore, dict[str, Any]], Outcome]

SELF = Absorption(run_id="r1", input_message_ids=("i-1",))


def acquire_call(store: AgentStore, wrong: dict[str, Any]) -> Outcome:
    fields: dict[str, Any] = {"expected_revision": view(store).run.revision, "owner_id": "worker"}
    return store.acquire_run("c", "r1", **(fields | wrong))


def proof(run: Run) -> dict[str, Any]:
    return {"expected_revision": run.revision, "owner_id": "worker", "fencing_token": 1}


def checkpoint_call(store: AgentStore, wrong: dict[str, Any]) -> Outcome:
    return store.checkpoint_run("c", "r1", **(proof(view(store).run) | wrong), parts="x")


def end_call(store: AgentStore, wrong: dict[str, Any]) -> Outcome:
    fields = proof(view(store).run) | {"reason": "success"} | wrong
    return store.commit_terminal("c", "r1", **fields, parts="x")


def renew_call(store: AgentStore, wrong: dict[str, Any]) -> Outcome:
    fields: dict[str, Any] = {"owner_id": "worker", "fencing_token": 1}
    return store.renew_lease("c", "r1", **(fields | wrong))


def interrupt_call(store: AgentStore, wrong: dict[str, Any]) -> Outcome:
    return store.request_interrupt("c", "r1", **wrong)


def cancel_call(store: AgentStore, wrong: dict[str, Any]) -> Outcome:
    return store.cancel_run("c", "r1", **wrong)


def recover_call(store: AgentStore, wrong: dict[str, Any]) -> Outcome:
    fields: dict[str, Any] = {"expected_revision": view(store).run.revision, "action": "abandon"}
    return store.recover_run("c", "r1", **(fields | wrong))


REVISION = {"expected_revision": 9}
OWNER = {"owner_id": "another"}
FENCE = {"fencing_token": 9}
LEASE = {"require_expired_lease": True}
UNSAFE = {"action": "requeue"}
ABSORBS = {"absorb": [SELF]}


def queued(store: AgentStore) -> None:
    admit(store, "1")


def second(store: AgentStore) -> None:
    """Let r1 be queued behind another run."""
    admit(store, "0")
    admit(store, "1")


def running(store: AgentStore) -> None:
    acquire(store, admit(store, "1"))


def ended(store: AgentStore) -> None:
    answered(store, "1")


def second_ended(store: AgentStore) -> None:
    admit(store, "0")
    admit(store, "1")
    store.cancel_run("c", "r1")


@pytest.mark.parametrize(
    ("arrange", "call", "wrong", "reason"),
    [
        (second_ended, acquire_call, REVISION, "revision"),
        (second_ended, acquire_call, {}, "state"),
        (second, acquire_call, {}, "queue"),
        (ended, checkpoint_call, REVISION | OWNER | FENCE, "revision"),
        (ended, checkpoint_call, OWNER | FENCE, "state"),
        (running, checkpoint_call, OWNER | FENCE, "owner"),
        (running, checkpoint_call, FENCE, "fence"),
        (ended, end_call, REVISION | OWNER | FENCE | ABSORBS, "revision"),
        (ended, end_call, OWNER | FENCE | ABSORBS, "state"),
        (running, end_call, OWNER | FENCE | ABSORBS, "owner"),
        (running, end_call, FENCE | ABSORBS, "fence"),
        (queued, renew_call, OWNER | FENCE, "state"),
        (running, renew_call, OWNER | FENCE, "owner"),
        (running, renew_call, FENCE, "fence"),
        (queued, interrupt_call, REVISION, "revision"),
        (queued, interrupt_call, {}, "state"),
        (running, cancel_call, REVISION, "revision"),
        (running, cancel_call, {}, "state"),
        (ended, recover_call, REVISION | LEASE | UNSAFE, "revision"),
        (ended, recover_call, LEASE | UNSAFE, "state"),
        (running, recover_call, LEASE | UNSAFE, "lease"),
        (queued, recover_call, LEASE, "lease"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_first_of_what_has_moved_is_told_and_nothing_is_written(
    store: AgentStore,
    driver: MemoryDriver,
    *,
    arrange: Callable[[AgentStore], None],
    call: Call,
    wrong: dict[str, Any],
    reason: str,
) -> None:
    arrange(store)
    before = rows(driver)

    outcome = call(store, wrong)

    assert outcome == Conflict(
        reason=ConflictReason(reason), version=before.head.version, run=view(store).run
    )
    assert rows(driver) == before


@pytest.mark.parametrize(
    ("call", "wrong", "error"),
    [
        (end_call, ABSORBS, InvalidAbsorptionError),
        (recover_call, UNSAFE, ReplayNotSafeError),
    ],
    ids=["end", "recover"],
)
def test_misuse_that_depends_on_state_is_raised_when_nothing_has_moved(
    store: AgentStore, driver: MemoryDriver, call: Call, wrong: Any, error: type[Exception]
) -> None:
    running(store)
    before = rows(driver)

    with pytest.raises(error):
        call(store, wrong)

    assert rows(driver) == before


@pytest.mark.parametrize("conversation_id", ["c", "unknown"])
@pytest.mark.parametrize(
    "call",
    [
        lambda store, c: store.acquire_run(c, "x", expected_revision=0, owner_id="w"),
        lambda store, c: store.checkpoint_run(c, "x", expected_revision=0, owner_id="w", parts="x"),
        lambda store, c: store.renew_lease(c, "x", owner_id="w", fencing_token=1),
        lambda store, c: store.request_interrupt(c, "x"),
        lambda store, c: store.cancel_run(c, "x"),
        lambda store, c: store.recover_run(c, "x", expected_revision=0, action="requeue"),
        lambda store, c: store.commit_terminal(
            c, "x", expected_revision=0, owner_id="w", parts="x", reason="success", absorb=[SELF]
        ),
    ],
    ids=["acquire", "checkpoint", "renew", "interrupt", "cancel", "recover", "end"],
)
def test_a_run_that_is_not_there_is_not_found_and_makes_no_conversation(
    store: AgentStore, driver: MemoryDriver, conversation_id: str, call: Any
) -> None:
    admit(store)

    assert call(store, conversation_id) == NotFound()
    assert driver.rows("unknown") is None


def test_a_second_acquisition_is_told_that_it_lost(store: AgentStore) -> None:
    run = admit(store)
    won = acquire(store, run, "first")

    lost = store.acquire_run("c", "r1", expected_revision=run.revision, owner_id="second")

    assert lost == Conflict(reason=ConflictReason.REVISION, version=2, run=won)


def test_a_second_end_is_told_that_it_lost(store: AgentStore) -> None:
    run = acquire(store, admit(store))
    won = end(store, run, "First", reason="success")

    lost = store.commit_terminal(
        "c", "r1", expected_revision=1, owner_id="worker", parts="Second", reason="timeout"
    )

    assert lost == Conflict(reason=ConflictReason.REVISION, version=3, run=won)
    assert view(store).run == won


def test_an_interrupt_after_the_end_is_told_and_the_end_stays(store: AgentStore) -> None:
    ended_run = answered(store)

    lost = store.request_interrupt("c", "r1")

    assert lost == Conflict(reason=ConflictReason.STATE, version=3, run=ended_run)


def test_the_fence_and_not_the_name_of_the_owner_is_the_proof(store: AgentStore) -> None:
    old = acquire(store, admit(store), "worker")
    store.recover_run("c", "r1", expected_revision=1, action="requeue", replay_safe=True)
    new = acquire(store, view(store).run, "worker")

    lost = store.commit_terminal(
        "c",
        "r1",
        expected_revision=new.revision,
        owner_id="worker",
        fencing_token=old.fencing_token,
        parts="x",
        reason="success",
    )

    assert lost == Conflict(reason=ConflictReason.FENCE, version=4, run=new)


def test_a_fence_that_is_not_given_is_not_checked(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    outcome = store.commit_terminal(
        "c",
        "r1",
        expected_revision=run.revision,
        owner_id="worker",
        parts=[TextPart(text="x")],
        reason="success",
    )

    assert outcome.outcome == "applied"
