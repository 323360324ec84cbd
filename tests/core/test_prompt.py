"""What a run may know of its conversation: what came before it, and what is its own."""

from __future__ import annotations

import pytest

from stitchkit_django.core import (
    AgentStore,
    InvalidValueError,
    MessageRole,
    MessageStatus,
    Snapshot,
    prompt_messages,
)
from tests.core.steps import (
    abandon,
    acquire,
    admit,
    answered,
    checkpoint,
    compact,
    end,
    requeue,
)
from tests.factories import MessageFactory, RunFactory


def known(store: AgentStore, run_id: str) -> list[str]:
    return [message.id for message in prompt_messages(store.load_snapshot("c"), run_id)]


def test_a_run_knows_the_earlier_turns_and_its_own_inputs(store: AgentStore) -> None:
    answered(store, "1")
    admit(store, "2")
    admit(store, "3", coalesce_into="r2")

    assert known(store, "r2") == ["i-1", "a-r1", "i-2", "i-3"]


def test_a_run_knows_no_input_and_no_answer_of_a_later_turn(store: AgentStore) -> None:
    run = acquire(store, admit(store, "1"))
    admit(store, "2")
    admit(store, "3")
    store.cancel_run("c", "r2")
    requeue(store, run)

    assert known(store, "r1") == ["i-1"]


def test_a_run_knows_its_own_partial_answer(store: AgentStore) -> None:
    requeue(store, checkpoint(store, acquire(store, admit(store)), "Hel"))

    assert known(store, "r1") == ["i-1", "a-r1"]


@pytest.mark.parametrize(
    ("reason", "usable"),
    [
        ("success", True),
        ("provider_stop", True),
        ("interrupted", True),
        ("cancelled", True),
        ("shutdown", True),
        ("superseded", False),
        ("timeout", False),
        ("provider_failure", False),
        ("context_overflow", False),
    ],
)
def test_a_run_knows_what_another_said_unless_it_was_in_vain(
    store: AgentStore, reason: str, *, usable: bool
) -> None:
    end(store, acquire(store, admit(store, "1")), "Hi", reason=reason)
    admit(store, "2")

    assert known(store, "r2") == (["i-1", "a-r1", "i-2"] if usable else ["i-1", "i-2"])


def test_a_run_does_not_know_what_an_abandoned_one_had_said(store: AgentStore) -> None:
    abandon(store, checkpoint(store, acquire(store, admit(store, "1")), "Hel"))
    admit(store, "2")

    assert known(store, "r2") == ["i-1", "i-2"]


def test_a_failed_run_knows_its_own_answer(store: AgentStore) -> None:
    end(store, acquire(store, admit(store)), "Hi", reason="timeout")

    assert known(store, "r1") == ["i-1", "a-r1"]


def test_a_waiting_run_does_not_know_an_answer_that_is_unfinished(store: AgentStore) -> None:
    checkpoint(store, acquire(store, admit(store, "1")), "Hel")
    admit(store, "2")

    assert known(store, "r2") == ["i-1", "i-2"]


def test_a_summary_stands_for_what_it_replaced(store: AgentStore) -> None:
    answered(store, "1")
    admit(store, "2")
    admit(store, "3")
    compact(store, "i-1", "a-r1")

    assert known(store, "r2") == ["s", "i-2"]


def test_a_summary_of_a_later_turn_is_not_known(store: AgentStore) -> None:
    admit(store, "1")
    admit(store, "2")
    admit(store, "3")
    compact(store, "i-2", "i-3")

    assert known(store, "r1") == ["i-1"]
    assert known(store, "r2") == ["i-1", "s"]


def test_a_system_message_is_known_at_its_turn() -> None:
    snapshot = Snapshot(
        conversation_id="c",
        version=2,
        messages=(
            MessageFactory.build(id="y", role=MessageRole.SYSTEM),
            MessageFactory.build(),
            MessageFactory.build(answer=True, status=MessageStatus.STREAMING),
        ),
        turns=(1, 2, 2),
        runs=(RunFactory.build(turn=2),),
    )

    assert [one.id for one in prompt_messages(snapshot, "r1")] == ["y", "i-r1", "a-r1"]


@pytest.mark.parametrize("run_id", ["nobody", "r1"], ids=["unknown", "ended and compacted"])
def test_a_run_that_the_snapshot_does_not_hold_has_no_prompt(
    store: AgentStore, run_id: str
) -> None:
    answered(store, "1")
    compact(store, "i-1", "a-r1")

    with pytest.raises(InvalidValueError) as refused:
        known(store, run_id)

    assert refused.value.path == "$.run_id"
