"""A run may answer for others that still wait: whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    InvalidAbsorptionError,
    InvalidIdentifierError,
    InvalidValueError,
    MemoryDriver,
    MessageStatus,
    RunState,
    TerminalReason,
    prompt_messages,
)
from tests.core.steps import (
    acquire,
    admit,
    answer,
    compact,
    duplicate,
    end,
    history,
    owned,
    row,
    rows,
    view,
)
from tests.factories import MOMENT, RunFactory, conversation_rows

if TYPE_CHECKING:
    from stitchkit_django.core import Run


def absorption(run: Run) -> Absorption:
    return Absorption(run_id=run.id, input_message_ids=run.input_message_ids)


def test_an_absorbed_run_ends_and_its_inputs_join_the_answer(
    store: AgentStore, driver: MemoryDriver
) -> None:
    first, second, third = (admit(store, key) for key in "123")
    second = view(store, admit(store, "4", coalesce_into="r2").id).run
    first = acquire(store, first)

    ended = end(store, first, absorb=[absorption(second), absorption(third)])

    absorbed = view(store, "r2")
    assert (absorbed.run.state, absorbed.run.terminal_reason) == (
        RunState.SUPERSEDED,
        TerminalReason.ABSORBED,
    )
    assert (absorbed.run.absorbed_into_run_id, absorbed.run.ended_at) == ("r1", MOMENT)
    assert (absorbed.run.revision, absorbed.run.turn) == (second.revision + 1, 2)
    assert absorbed.run.input_message_ids == ("i-2", "i-4")
    assert absorbed.assistant is None
    assert ended.input_message_ids == ("i-1", "i-2", "i-4", "i-3")
    assert history(store) == ["i-1", "i-2", "i-4", "i-3", "a-r1"]
    assert store.load_snapshot("c").turns == (1,) * 5
    assert [row(driver, one).place.slot for one in ended.input_message_ids] == [0, 1, 2, 3]
    assert store.list_active_runs("c") == ()


def test_an_absorption_is_one_write(store: AgentStore, driver: MemoryDriver) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    version = rows(driver).head.version

    end(store, first, absorb=[absorption(second)])

    assert rows(driver).head.version == version + 1


def test_a_retry_of_an_absorbed_key_reaches_the_answer(store: AgentStore) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2", "And?")
    ended = end(store, first, absorb=[absorption(second)])

    outcome = duplicate(store.accept_input("c", "2", "And?"))

    assert (outcome.run, outcome.assistant, outcome.pending) == (ended, answer(store), None)
    assert outcome.input.id == "i-2"
    assert outcome.same_input


def test_the_answer_knows_what_it_absorbed(store: AgentStore) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    end(store, first, absorb=[absorption(second)])

    known = prompt_messages(store.load_snapshot("c"), "r1")

    assert [message.id for message in known] == ["i-1", "i-2", "a-r1"]


# ---------------------------------------------------------------- left to run


@pytest.mark.parametrize(
    "inputs",
    [("i-2",), ("i-2", "i-4", "i-5"), ("i-2", "i-5"), ("i-2", "i-4", "i-4"), ()],
    ids=["fewer", "more", "others", "twice", "none"],
)
def test_a_run_whose_inputs_are_not_exactly_those_named_is_left_to_run(
    store: AgentStore, inputs: tuple[str, ...]
) -> None:
    first = acquire(store, admit(store, "1"))
    admit(store, "2")
    second = admit(store, "4", coalesce_into="r2")
    third = admit(store, "3")
    named = Absorption(run_id="r2", input_message_ids=inputs)

    ended = end(store, first, absorb=[named, absorption(third)])

    assert view(store, "r2").run == second
    assert view(store, "r3").run.absorbed_into_run_id == "r1"
    assert ended.input_message_ids == ("i-1", "i-3")
    assert history(store) == ["i-1", "i-3", "a-r1", "i-2", "i-4"]
    assert acquire(store, second).state is RunState.RUNNING


def test_the_inputs_may_be_named_in_any_order(store: AgentStore) -> None:
    first = acquire(store, admit(store, "1"))
    admit(store, "2")
    admit(store, "3", coalesce_into="r2")

    named = Absorption(run_id="r2", input_message_ids=("i-3", "i-2"))

    assert end(store, first, absorb=[named]).input_message_ids == ("i-1", "i-2", "i-3")


def test_a_run_that_is_not_there_is_nothing_to_absorb(store: AgentStore) -> None:
    first = acquire(store, admit(store, "1"))
    named = Absorption(run_id="nobody", input_message_ids=("i-2",))

    assert end(store, first, absorb=[named]).input_message_ids == ("i-1",)


def test_a_run_that_has_ended_is_not_absorbed(store: AgentStore) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    store.cancel_run("c", "r2")
    cancelled = view(store, "r2").run

    end(store, first, absorb=[absorption(second)])

    assert view(store, "r2").run == cancelled


@pytest.mark.parametrize("answered", [True, False], ids=["in part", "not at all"])
def test_a_run_that_has_answered_in_part_keeps_its_answer_and_is_left_to_run(
    driver: MemoryDriver, *, answered: bool
) -> None:
    first = RunFactory.build(acquired=True)
    second = RunFactory.build(id="r2", turn=2, fencing_token=1, acquired_at=MOMENT)
    answers = {"r2": MessageStatus.STREAMING} if answered else {}
    held = conversation_rows(first, second, **answers)
    driver.transaction(lambda transaction: transaction.restore(held))
    store = AgentStore(driver)

    end(store, first, absorb=[absorption(second)])

    assert view(store, "r2").run.is_active is answered


def test_an_absorbed_input_that_a_summary_stands_for_stays_where_it_is(
    store: AgentStore, driver: MemoryDriver
) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    compact(store, "i-2")
    archived = row(driver, "i-2")

    ended = end(store, first, absorb=[absorption(second)])

    assert row(driver, "i-2") == archived
    assert ended.input_message_ids == ("i-1", "i-2")
    assert history(store) == ["i-1", "a-r1", "s"]


def test_an_absorbed_input_that_was_deleted_is_missed_by_nobody(driver: MemoryDriver) -> None:
    store = AgentStore(driver, archive_compacted=False)
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    compact(store, "i-2")

    ended = end(store, first, absorb=[absorption(second)])

    assert ended.input_message_ids == ("i-1", "i-2")
    assert history(store) == ["i-1", "a-r1", "s"]


# ---------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    "reason", ["interrupted", "superseded", "cancelled", "timeout", "provider_failure"]
)
def test_an_end_that_completes_nothing_absorbs_nothing(
    store: AgentStore, driver: MemoryDriver, reason: str
) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    before = rows(driver)

    with pytest.raises(InvalidAbsorptionError, match="completes nothing") as refused:
        end(store, first, reason=reason, absorb=[absorption(second)])

    assert refused.value.run_id == "r1"
    assert rows(driver) == before


@pytest.mark.parametrize("reason", ["success", "policy_stop", "provider_stop"])
def test_every_end_that_completes_may_absorb(store: AgentStore, reason: str) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    policy = "budget" if reason == "policy_stop" else None

    end(store, first, reason=reason, policy_name=policy, absorb=[absorption(second)])

    assert view(store, "r2").run.absorbed_into_run_id == "r1"


def test_a_run_does_not_absorb_itself(store: AgentStore) -> None:
    first = acquire(store, admit(store, "1"))

    with pytest.raises(InvalidAbsorptionError, match="names itself"):
        end(store, first, absorb=[absorption(first)])


def test_a_run_is_named_once(store: AgentStore, driver: MemoryDriver) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    before = rows(driver)

    with pytest.raises(InvalidAbsorptionError, match="names a run twice"):
        end(store, first, absorb=[absorption(second), absorption(second)])

    assert rows(driver) == before


@pytest.mark.parametrize(
    "absorb", ["r2", {"r2"}, [("r2", ("i-2",))], None], ids=["str", "set", "tuples", "None"]
)
def test_what_is_no_sequence_of_absorptions_is_refused(store: AgentStore, absorb: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        store.commit_terminal(
            "c",
            "r1",
            expected_revision=0,
            owner_id="w",
            parts="x",
            reason="success",
            absorb=absorb,
        )

    assert refused.value.path == "$.absorb"


def test_an_absorption_names_ids() -> None:
    with pytest.raises(InvalidIdentifierError):
        Absorption(run_id="", input_message_ids=("i",))
    with pytest.raises(InvalidIdentifierError):
        Absorption(run_id="r", input_message_ids=(" i",))
    with pytest.raises(InvalidValueError):
        Absorption(run_id="r", input_message_ids="i")  # type: ignore[arg-type] # on purpose


def test_an_empty_sequence_absorbs_nothing(store: AgentStore) -> None:
    run = acquire(store, admit(store, "1"))

    outcome = store.commit_terminal("c", "r1", **owned(run), parts="x", reason="timeout", absorb=[])

    assert outcome.outcome == "applied"
