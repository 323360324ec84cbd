"""An input is accepted once, however often it is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import (
    AdmissionReceipt,
    AgentStore,
    Applied,
    Conflict,
    ConflictReason,
    CorruptRecordError,
    IdentityTakenError,
    MemoryDriver,
    MessageRole,
    MessageStatus,
    NotFound,
    RunState,
    TextPart,
)
from tests.core.steps import (
    abandon,
    acquire,
    admit,
    answer,
    answered,
    checkpoint,
    compact,
    duplicate,
    end,
    history,
    reason_of,
    requeue,
    rows,
    run_of,
    view,
)
from tests.factories import MOMENT, RunFactory, conversation_rows

if TYPE_CHECKING:
    from tests.core.clock import Clock


# ---------------------------------------------------------------- a fresh key


def test_an_input_is_kept_with_a_queued_run_and_a_receipt(
    store: AgentStore, driver: MemoryDriver
) -> None:
    outcome = store.accept_input(
        "c",
        "k",
        [TextPart(text="Hello?")],
        metadata={"from": "web"},
        input_message_id="i",
        run_id="r",
        assistant_message_id="a",
    )

    assert isinstance(outcome, Applied)
    assert outcome.version == 1
    run, message, pending = outcome.run, outcome.input, outcome.pending
    assert run is not None
    assert message is not None
    assert pending is not None
    assert (run.id, run.turn, run.state, run.revision) == ("r", 1, RunState.QUEUED, 0)
    assert (run.input_message_ids, run.assistant_message_id) == (("i",), "a")
    assert (run.owner_id, run.fencing_token, run.acquired_at, run.usage) == (None,) * 4
    assert (message.id, message.role, message.status) == (
        "i",
        MessageRole.USER,
        MessageStatus.COMMITTED,
    )
    assert (message.parts, message.metadata) == ((TextPart(text="Hello?"),), {"from": "web"})
    assert (pending.id, pending.run_id, pending.status) == ("a", "r", "pending")
    assert {run.created_at, run.updated_at, message.created_at, pending.created_at} == {MOMENT}
    assert rows(driver).receipts == (
        AdmissionReceipt(
            conversation_id="c",
            idempotency_key="k",
            input=message,
            run_id="r",
            assistant_message_id="a",
            created_at=MOMENT,
        ),
    )
    assert store.load_snapshot("c").messages == (message,)
    assert view(store, "r").run == run


def test_ids_that_are_not_given_are_made_by_the_store(driver: MemoryDriver) -> None:
    made = iter(["first", "second", "third"])
    store = AgentStore(driver, new_id=lambda: next(made))

    run = run_of(store.accept_input("c", "k", "Hello?"))

    assert {*run.input_message_ids, run.id, run.assistant_message_id} == {
        "first",
        "second",
        "third",
    }


def test_ids_that_a_store_makes_by_itself_are_never_the_same(store: AgentStore) -> None:
    runs = [run_of(store.accept_input("c", str(key), "Hello?")) for key in range(20)]

    ids = {identity for run in runs for identity in (run.id, run.assistant_message_id)}
    ids |= {identity for run in runs for identity in run.input_message_ids}
    assert len(ids) == 60


def test_admissions_are_queued_in_the_order_of_their_versions(store: AgentStore) -> None:
    runs = [admit(store, key) for key in "321"]

    assert [run.turn for run in runs] == [1, 2, 3]
    assert store.list_active_runs("c") == tuple(runs)
    assert history(store) == ["i-3", "i-2", "i-1"]


@pytest.mark.parametrize(
    "keys",
    [("k", "K", "é", "e"), ("é", "e\u0301"), ("a", "a\u200b"), ("ﬁ", "fi")],
    ids=ascii,
)
def test_keys_that_differ_in_a_byte_are_different_keys(
    store: AgentStore, keys: tuple[str, ...]
) -> None:
    admitted = [run_of(store.accept_input("c", key, key)) for key in keys]

    retried = [duplicate(store.accept_input("c", key, key)) for key in keys]

    assert [found.run for found in retried] == admitted
    assert all(found.same_input for found in retried)


def test_one_key_in_two_conversations_is_two_keys(store: AgentStore) -> None:
    one = run_of(store.accept_input("c", "k", "Hello?"))
    other = run_of(store.accept_input("d", "k", "Hello?"))

    assert one.id != other.id
    assert duplicate(store.accept_input("d", "k", "Hello?")).run == other


# ---------------------------------------------------------------- a known key


def test_a_retry_gets_what_the_first_admission_became(
    store: AgentStore, driver: MemoryDriver
) -> None:
    first = store.accept_input("c", "k", "Hello?", metadata={"a": 1})
    before = rows(driver)

    outcome = duplicate(store.accept_input("c", "k", "Hello?", metadata={"a": 1}))

    assert isinstance(first, Applied)
    assert (outcome.version, outcome.input, outcome.run) == (1, first.input, first.run)
    assert (outcome.pending, outcome.assistant) == (first.pending, None)
    assert outcome.same_input
    assert rows(driver) == before


@pytest.mark.parametrize(
    ("parts", "metadata"),
    [("Hello!", {"a": 1}), ("Hello?", {"a": True}), ("Hello?", None)],
    ids=["text", "type", "none"],
)
def test_a_retry_with_another_input_is_told_so_and_changes_nothing(
    store: AgentStore, driver: MemoryDriver, parts: str, metadata: Any
) -> None:
    first = run_of(store.accept_input("c", "k", "Hello?", metadata={"a": 1}))
    before = rows(driver)

    outcome = duplicate(store.accept_input("c", "k", parts, metadata=metadata))

    assert not outcome.same_input
    assert (outcome.run, outcome.input.parts) == (first, (TextPart(text="Hello?"),))
    assert rows(driver) == before


def test_a_retry_of_extreme_numbers_is_the_same_input(store: AgentStore) -> None:
    admit(store, "1", metadata={"t": 1e100, "z": -0.0})

    outcome = duplicate(store.accept_input("c", "1", "Hello?", metadata={"z": -0.0, "t": 1e100}))

    assert outcome.same_input
    assert str(outcome.input.metadata) == "{'t': 1e+100, 'z': -0.0}"


@pytest.mark.parametrize("stage", ["running", "completed", "abandoned", "cancelled", "compacted"])
def test_a_retry_is_answered_at_every_stage_of_its_run(store: AgentStore, stage: str) -> None:
    run = admit(store)
    match stage:
        case "running":
            checkpoint(store, acquire(store, run), "Hel")
        case "completed":
            end(store, acquire(store, run))
        case "abandoned":
            abandon(store, run)
        case "cancelled":
            store.cancel_run("c", "r1")
        case "compacted":
            end(store, acquire(store, run))
            compact(store, "i-1", "a-r1")

    outcome = duplicate(store.accept_input("c", "1", "Hello?"))

    assert outcome.run == view(store).run
    assert outcome.assistant == view(store).assistant
    assert (outcome.pending is not None) is (stage == "running")
    assert outcome.same_input


def test_a_known_key_is_told_before_anything_else_is_looked_at(store: AgentStore) -> None:
    admit(store, "1")
    admit(store, "2")

    outcome = store.accept_input(
        "c", "1", "Hello?", input_message_id="i-2", run_id="r2", expected_version=9
    )

    assert duplicate(outcome).run.id == "r1"


def test_a_receipt_without_its_run_is_told_as_corrupt(driver: MemoryDriver) -> None:
    held = conversation_rows(RunFactory.build())
    broken = type(held)(head=held.head, receipts=held.receipts, messages=held.messages)
    driver.transaction(lambda transaction: transaction.restore(broken))

    with pytest.raises(CorruptRecordError) as refused:
        AgentStore(driver).accept_input("c", "k-r1", "Hello?")

    assert refused.value.row == "receipt 'k-r1' in conversation 'c'"


def test_a_receipt_is_never_changed(store: AgentStore, driver: MemoryDriver) -> None:
    admit(store)
    receipts = rows(driver).receipts

    end(store, checkpoint(store, acquire(store, view(store).run), "Hel"))
    compact(store, "i-1", "a-r1")

    assert rows(driver).receipts == receipts


# ---------------------------------------------------------------- taken ids


@pytest.mark.parametrize("field", ["input_message_id", "assistant_message_id"])
@pytest.mark.parametrize(
    "identity",
    ["i-1", "a-r1", "i-2", "a-r2", "s"],
    ids=["archived input", "archived answer", "input", "reserved answer", "summary"],
)
def test_an_id_that_a_message_has_or_will_have_is_taken(
    store: AgentStore, driver: MemoryDriver, field: str, identity: str
) -> None:
    answered(store)
    compact(store, "i-1", "a-r1")
    admit(store, "2")
    before = rows(driver)

    with pytest.raises(IdentityTakenError) as refused:
        admit(store, "3", **{field: identity})

    assert (refused.value.conversation_id, refused.value.identifier) == ("c", identity)
    assert rows(driver) == before


@pytest.mark.parametrize("identity", ["i-1", "a-r1"])
def test_an_id_stays_taken_when_its_message_was_deleted(
    driver: MemoryDriver, identity: str
) -> None:
    store = AgentStore(driver, archive_compacted=False)
    answered(store)
    compact(store, "i-1", "a-r1")

    with pytest.raises(IdentityTakenError):
        admit(store, "2", input_message_id=identity)


def test_a_run_id_that_a_run_has_is_taken(store: AgentStore) -> None:
    answered(store)

    with pytest.raises(IdentityTakenError) as refused:
        admit(store, "2", run_id="r1")

    assert refused.value.identifier == "r1"


def test_runs_and_messages_are_named_apart(store: AgentStore) -> None:
    admit(store, "1")

    admit(store, "2", run_id="i-1", input_message_id="r1")

    assert history(store) == ["i-1", "r1"]


@pytest.mark.parametrize(
    "ids",
    [
        {"input_message_id": "x", "assistant_message_id": "x"},
        {"input_message_id": "x", "run_id": "x"},
        {"run_id": "x", "assistant_message_id": "x"},
    ],
    ids="+".join,
)
def test_an_id_given_twice_is_refused(store: AgentStore, ids: dict[str, str]) -> None:
    with pytest.raises(IdentityTakenError) as refused:
        admit(store, "1", **ids)

    assert refused.value.identifier == "x"


def test_taken_ids_are_told_before_a_version_that_moved(store: AgentStore) -> None:
    admit(store, "1")

    with pytest.raises(IdentityTakenError):
        admit(store, "2", run_id="r1", expected_version=9)


# ---------------------------------------------------------------- versions and conversations


def test_a_version_that_moved_is_a_conflict(store: AgentStore) -> None:
    admit(store, "1")

    outcome = store.accept_input("c", "2", "Hello?", expected_version=0)

    assert outcome == Conflict(reason=ConflictReason.VERSION, version=1)
    assert history(store) == ["i-1"]


def test_version_0_is_that_of_a_new_conversation(store: AgentStore, driver: MemoryDriver) -> None:
    outcome = store.accept_input("d", "1", "Hello?", expected_version=1)

    assert outcome == Conflict(reason=ConflictReason.VERSION, version=0)
    assert driver.rows("d") is None
    assert run_of(store.accept_input("d", "1", "Hello?", expected_version=0)).turn == 1


def test_a_version_that_moved_is_told_before_a_run_that_is_not_there(store: AgentStore) -> None:
    admit(store, "1")

    outcome = store.accept_input("c", "2", "x", expected_version=9, coalesce_into="nobody")

    assert reason_of(outcome) is ConflictReason.VERSION


# ---------------------------------------------------------------- joining a queued run


def test_an_input_that_joins_a_queued_run_makes_no_other(
    store: AgentStore, driver: MemoryDriver
) -> None:
    admit(store, "1")
    admit(store, "2")

    outcome = store.accept_input(
        "c", "3", "And?", input_message_id="i-3", coalesce_into="r1", run_id="r1"
    )

    run = run_of(outcome)
    assert isinstance(outcome, Applied)
    assert (outcome.version, run.id, run.revision) == (3, "r1", 1)
    assert run.input_message_ids == ("i-1", "i-3")
    assert outcome.pending is not None
    assert outcome.pending.id == "a-r1"
    assert history(store) == ["i-1", "i-3", "i-2"]
    receipt = rows(driver).receipts[2]
    assert (receipt.run_id, receipt.assistant_message_id) == ("r1", "a-r1")
    assert duplicate(store.accept_input("c", "3", "And?")).run == run


def test_ids_that_a_join_does_not_use_may_be_anything_valid(store: AgentStore) -> None:
    admit(store, "1")

    outcome = store.accept_input(
        "c",
        "2",
        "And?",
        input_message_id="i-2",
        run_id="i-2",
        assistant_message_id="a-r1",
        coalesce_into="r1",
    )

    assert run_of(outcome).input_message_ids == ("i-1", "i-2")


def test_the_input_id_of_a_join_may_be_taken(store: AgentStore) -> None:
    admit(store, "1")

    with pytest.raises(IdentityTakenError):
        admit(store, "2", input_message_id="a-r1", coalesce_into="r1")


def test_a_requeued_run_may_be_joined(store: AgentStore) -> None:
    requeue(store, checkpoint(store, acquire(store, admit(store, "1")), "Hel"))

    admit(store, "2", coalesce_into="r1")

    assert history(store) == ["i-1", "i-2", "a-r1"]


@pytest.mark.parametrize("exists", [True, False], ids=["known", "new"])
def test_there_may_be_no_run_to_join(
    store: AgentStore, driver: MemoryDriver, *, exists: bool
) -> None:
    if exists:
        admit(store, "1")
    before = driver.rows("c")

    assert store.accept_input("c", "2", "x", coalesce_into="nobody") == NotFound()
    assert driver.rows("c") == before


def test_a_run_that_is_not_queued_is_not_joined(store: AgentStore) -> None:
    run = acquire(store, admit(store, "1"))

    outcome = store.accept_input("c", "2", "x", coalesce_into="r1")

    assert outcome == Conflict(reason=ConflictReason.STATE, version=2, run=run)


# ---------------------------------------------------------------- moments


def test_nothing_is_written_with_a_moment_before_the_last_write(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    admit(store, "1")
    clock.move(by=-timedelta(hours=1))

    second = admit(store, "2")
    ended = end(store, checkpoint(store, acquire(store, view(store).run), "Hel"))

    assert second.created_at == MOMENT
    assert {ended.acquired_at, ended.updated_at, ended.ended_at} == {MOMENT}
    assert answer(store).created_at == MOMENT
    assert rows(driver).head.updated_at == MOMENT
    assert compact(store, "i-1").created_at == MOMENT


def test_the_head_carries_the_moment_of_the_last_write(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    admit(store, "1")
    clock.move(by=timedelta(seconds=5))

    admit(store, "2")

    assert rows(driver).head.updated_at == clock.moment
    assert view(store, "r1").run.updated_at == MOMENT
