"""The transition table and what the operations do are one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stitchkit_django.core import (
    ACQUIRED_STATES,
    ACTIVE_STATES,
    TERMINAL_STATES,
    Absorption,
    AgentStore,
    Applied,
    Conflict,
    MemoryDriver,
    Outcome,
    Run,
    RunState,
    TerminalReason,
)
from stitchkit_django.core.lifecycle import (
    ENDINGS,
    RESERVED_REASONS,
    TRANSITIONS,
    MessageStatus,
    Operation,
)
from tests.core.steps import owned, rows, run_of, view
from tests.factories import RunFactory, conversation_rows, state_fields

if TYPE_CHECKING:
    from collections.abc import Callable

REASONS = sorted(set(TerminalReason) - RESERVED_REASONS)


def absorb(store: AgentStore, run: Run) -> Outcome:
    absorber = view(store, "r0").run
    named = Absorption(run_id=run.id, input_message_ids=run.input_message_ids)
    return store.commit_terminal(
        "c", absorber.id, **owned(absorber), parts="", reason="success", absorb=[named]
    )


OPERATIONS: dict[Operation, Callable[[AgentStore, Run], Outcome]] = {
    Operation.JOIN: lambda store, run: store.accept_input("c", "k", "x", coalesce_into=run.id),
    Operation.ACQUIRE: lambda store, run: store.acquire_run(
        "c", run.id, expected_revision=run.revision, owner_id="worker"
    ),
    Operation.CHECKPOINT: lambda store, run: store.checkpoint_run(
        "c", run.id, **(owned(run) | {"owner_id": "worker"}), parts="x"
    ),
    Operation.RENEW: lambda store, run: store.renew_lease(
        "c", run.id, owner_id="worker", fencing_token=1
    ),
    Operation.INTERRUPT: lambda store, run: store.request_interrupt("c", run.id),
    Operation.CANCEL: lambda store, run: store.cancel_run("c", run.id),
    Operation.REQUEUE: lambda store, run: store.recover_run(
        "c", run.id, expected_revision=run.revision, action="requeue", replay_safe=True
    ),
    Operation.ABANDON: lambda store, run: store.recover_run(
        "c", run.id, expected_revision=run.revision, action="abandon"
    ),
    Operation.END: lambda store, run: store.commit_terminal(
        "c", run.id, **(owned(run) | {"owner_id": "worker"}), parts="x", reason="success"
    ),
    Operation.ABSORB: absorb,
}


def store_with(state: RunState, *others: Run) -> tuple[AgentStore, Run]:
    """Give a store that holds a run of a state, and the run."""
    driver = MemoryDriver()
    run = RunFactory.build(turn=2, **state_fields(state))
    answers = {}
    if run.terminal_reason is not None:
        status = ENDINGS[run.terminal_reason].status
        assert status is not None
        answers["r1"] = status
    held = conversation_rows(*others, run, **answers)
    driver.transaction(lambda transaction: transaction.restore(held))
    return AgentStore(driver), run


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("operation", sorted(set(Operation) - {Operation.ABSORB}))
def test_an_operation_does_what_the_table_says_and_else_conflicts(
    state: RunState, operation: Operation
) -> None:
    store, run = store_with(state)

    outcome = OPERATIONS[operation](store, run)

    found = view(store).run
    if (state, operation) in TRANSITIONS:
        assert isinstance(outcome, Applied)
        after = TRANSITIONS[state, operation] or ENDINGS[TerminalReason.SUCCESS].state
        assert found.state is after
        assert found == outcome.run
        assert found.revision == run.revision + (operation is not Operation.RENEW)
    else:
        assert outcome == Conflict(reason="state", version=1, run=run)  # type: ignore[arg-type] # a member all the same
        assert found == run


@pytest.mark.parametrize("state", RunState)
def test_a_run_is_absorbed_from_the_states_of_the_table_and_else_left(state: RunState) -> None:
    store, run = store_with(state, RunFactory.build(id="r0", turn=1, acquired=True))

    absorber = run_of(OPERATIONS[Operation.ABSORB](store, run))

    found = view(store).run
    if (state, Operation.ABSORB) in TRANSITIONS:
        assert found.state is TRANSITIONS[state, Operation.ABSORB]
        assert found.revision == run.revision + 1
        assert absorber.input_message_ids == ("i-r0", "i-r1")
    else:
        assert found == run
        assert absorber.input_message_ids == ("i-r0",)


@pytest.mark.parametrize("state", sorted(ACQUIRED_STATES))
@pytest.mark.parametrize("reason", REASONS)
def test_an_end_takes_the_state_and_the_answer_the_status_of_its_reason(
    state: RunState, reason: TerminalReason
) -> None:
    store, run = store_with(state)
    policy = "budget" if reason is TerminalReason.POLICY_STOP else None

    ended = run_of(
        store.commit_terminal(
            "c", "r1", **owned(run), parts="Hi", reason=reason, policy_name=policy
        )
    )

    found = view(store)
    assert found.run == ended
    assert found.assistant is not None
    assert (ended.state, found.assistant.status) == ENDINGS[reason]
    assert (ended.terminal_reason, ended.terminal_policy_name) == (reason, policy)


def test_reasons_states_and_statuses_are_those_of_the_contract() -> None:
    assert {
        reason.value: (ending.state.value, ending.status and ending.status.value)
        for reason, ending in ENDINGS.items()
    } == {
        "success": ("completed", "completed"),
        "policy_stop": ("completed", "completed"),
        "provider_stop": ("completed", "completed"),
        "interrupted": ("interrupted", "interrupted"),
        "superseded": ("superseded", "superseded"),
        "absorbed": ("superseded", None),
        "cancelled": ("cancelled", "interrupted"),
        "shutdown": ("cancelled", "interrupted"),
        "timeout": ("cancelled", "failed"),
        "provider_failure": ("failed", "failed"),
        "context_overflow": ("failed", "failed"),
        "abandoned": ("abandoned", "failed"),
    }


def test_every_state_is_active_or_terminal_and_no_operation_leaves_a_terminal_one() -> None:
    assert sorted(ACTIVE_STATES) == ["interrupt_requested", "queued", "running"]
    assert sorted(ACQUIRED_STATES) == ["interrupt_requested", "running"]
    assert sorted(TERMINAL_STATES) == sorted(set(RunState) - ACTIVE_STATES)
    assert not {state for state, _ in TRANSITIONS} & TERMINAL_STATES


def test_the_walk_covers_every_operation() -> None:
    assert set(OPERATIONS) == set(Operation)


def test_the_rows_that_the_walk_begins_with_are_read_as_they_are() -> None:
    driver = MemoryDriver()
    held = conversation_rows(RunFactory.build(ended=True), r1=MessageStatus.COMPLETED)

    driver.transaction(lambda transaction: transaction.restore(held))

    assert rows(driver) == held
