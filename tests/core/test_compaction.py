"""A summary stands for a range: each message is active, summarised once, or archived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import (
    AgentStore,
    Applied,
    Conflict,
    ConflictReason,
    FilePart,
    IdentityTakenError,
    InvalidCompactionError,
    InvalidValueError,
    MemoryDriver,
    MessageRole,
    MessageStatus,
    NotFound,
    Place,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
    prompt_messages,
)
from tests.core.steps import (
    acquire,
    admit,
    answered,
    checkpoint,
    compact,
    end,
    history,
    message,
    requeue,
    row,
    rows,
)
from tests.factories import MOMENT

if TYPE_CHECKING:
    from stitchkit_django.core import Outcome


def try_compact(
    store: AgentStore, *message_ids: str, version: int | None = None, summary_id: str = "s"
) -> Outcome:
    if version is None:
        version = store.load_snapshot("c").version
    return store.compact_history(
        "c",
        expected_version=version,
        message_ids=message_ids,
        summary_parts="In short.",
        summary_id=summary_id,
    )


# ---------------------------------------------------------------- what a summary does


def test_a_summary_takes_the_place_of_the_first_message_that_it_replaces(
    store: AgentStore, driver: MemoryDriver
) -> None:
    for key in "123":
        answered(store, key)

    summary = compact(store, "a-r1", "i-2", "a-r2")

    assert history(store) == ["i-1", "s", "i-3", "a-r3"]
    assert (summary.role, summary.status) == (MessageRole.SUMMARY, MessageStatus.COMMITTED)
    assert (summary.parts, summary.run_id) == ((TextPart(text="In short."),), None)
    assert summary.created_at == MOMENT
    assert row(driver, "s").place == row(driver, "a-r1").place
    assert store.load_snapshot("c").turns == (1, 1, 7, 7)


def test_what_was_replaced_is_archived_with_its_place_and_its_summary(
    store: AgentStore, driver: MemoryDriver
) -> None:
    answered(store)
    before = [row(driver, one) for one in ("i-1", "a-r1")]

    compact(store, "i-1", "a-r1")

    after = [row(driver, one) for one in ("i-1", "a-r1")]
    assert [(one.archived_at, one.replaced_by) for one in after] == [(MOMENT, "s")] * 2
    assert [(one.message, one.place) for one in after] == [
        (one.message, one.place) for one in before
    ]
    assert row(driver, "s").archived_at is None


def test_what_was_replaced_is_deleted_where_a_store_says_so(driver: MemoryDriver) -> None:
    store = AgentStore(driver, archive_compacted=False)
    answered(store)

    compact(store, "i-1", "a-r1")

    assert [one.message.id for one in rows(driver).messages] == ["s"]


def test_a_compaction_is_one_write_that_touches_no_run(
    store: AgentStore, driver: MemoryDriver
) -> None:
    answered(store)
    before = rows(driver)

    outcome = try_compact(store, "i-1", "a-r1")

    assert isinstance(outcome, Applied)
    assert (outcome.version, outcome.run) == (before.head.version + 1, None)
    assert rows(driver).runs == before.runs
    assert store.load_snapshot("c").runs == ()


def test_messages_may_be_named_in_any_order(store: AgentStore) -> None:
    for key in "12":
        answered(store, key)

    compact(store, "a-r2", "i-1", "i-2", "a-r1")

    assert history(store) == ["s"]


def test_a_summary_id_that_is_not_given_is_made(driver: MemoryDriver) -> None:
    answered(AgentStore(driver))
    store = AgentStore(driver, new_id=lambda: "made")

    outcome = store.compact_history(
        "c", expected_version=3, message_ids=["i-1"], summary_parts="In short."
    )

    assert isinstance(outcome, Applied)
    assert outcome.summary is not None
    assert outcome.summary.id == "made"


def test_a_single_message_may_be_summarised(store: AgentStore) -> None:
    answered(store)

    compact(store, "i-1")

    assert history(store) == ["s", "a-r1"]


@pytest.mark.parametrize("archive", [True, False], ids=["archived", "deleted"])
def test_a_summary_may_be_summarised_with_what_follows(
    driver: MemoryDriver, *, archive: bool
) -> None:
    store = AgentStore(driver, archive_compacted=archive)
    for key in "1234":
        answered(store, key)

    compact(store, *history(store)[:-2], summary_id="s1")
    answered(store, "5")
    compact(store, *history(store)[:-2], summary_id="s2")

    assert history(store) == ["s2", "i-5", "a-r5"]
    assert row(driver, "s2").place == Place(1, 0)
    replaced = {one.message.id: one.replaced_by for one in rows(driver).messages}
    first = {f"{kind}{key}": "s1" for key in "123" for kind in ("i-", "a-r")}
    second = dict.fromkeys(["s1", "i-4", "a-r4"], "s2")
    active = dict.fromkeys(["s2", "i-5", "a-r5"])
    assert replaced == (first | second | active if archive else active)


# ---------------------------------------------------------------- what happens meanwhile


def test_a_summary_that_a_message_has_overtaken_is_a_conflict_and_nothing_is_lost(
    store: AgentStore,
) -> None:
    answered(store)
    seen = store.load_snapshot("c")
    admit(store, "2")

    outcome = try_compact(store, *(one.id for one in seen.messages), version=seen.version)

    assert outcome == Conflict(reason=ConflictReason.VERSION, version=4)
    assert history(store) == ["i-1", "a-r1", "i-2"]


def test_an_input_that_came_meanwhile_stands_after_the_summary(store: AgentStore) -> None:
    answered(store)
    admit(store, "2")

    compact(store, "i-1", "a-r1")
    admit(store, "3")

    assert history(store) == ["s", "i-2", "i-3"]


def test_an_input_that_joins_a_summarised_one_stands_after_the_summary(
    store: AgentStore,
) -> None:
    answered(store, "1")
    admit(store, "2")
    compact(store, "i-1", "a-r1", "i-2")

    admit(store, "3", coalesce_into="r2")
    end(store, acquire(store, store.list_active_runs("c")[0]))

    assert history(store) == ["s", "i-3", "a-r2"]


def test_the_inputs_of_a_waiting_run_may_be_summarised_and_it_knows_the_summary(
    store: AgentStore,
) -> None:
    admit(store, "1")

    compact(store, "i-1")

    assert [one.id for one in prompt_messages(store.load_snapshot("c"), "r1")] == ["s"]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "message_ids",
    [("i-1", "nothing"), ("i-1", "a-r3"), ("i-1", "i-2")],
    ids=["unknown", "reserved", "archived"],
)
def test_a_message_that_is_not_in_the_active_history_is_not_found(
    store: AgentStore, driver: MemoryDriver, message_ids: tuple[str, ...]
) -> None:
    answered(store, "1")
    answered(store, "2")
    admit(store, "3")
    compact(store, "i-2")
    before = rows(driver)

    assert try_compact(store, *message_ids, summary_id="i-1") == NotFound()
    assert rows(driver) == before


def test_an_unknown_conversation_holds_no_message(store: AgentStore, driver: MemoryDriver) -> None:
    assert try_compact(store, "i-1", version=0) == NotFound()
    assert try_compact(store, "i-1", version=1) == Conflict(
        reason=ConflictReason.VERSION, version=0
    )
    assert driver.rows("c") is None


def test_a_version_that_moved_is_told_before_what_is_not_found(store: AgentStore) -> None:
    answered(store)

    assert try_compact(store, "nothing", version=2) == Conflict(
        reason=ConflictReason.VERSION, version=3
    )


def test_a_range_has_no_gap(store: AgentStore, driver: MemoryDriver) -> None:
    answered(store, "1")
    answered(store, "2")
    before = rows(driver)

    with pytest.raises(InvalidCompactionError, match="not a whole range") as refused:
        try_compact(store, "i-1", "i-2", summary_id="i-1")

    assert refused.value.message_ids == ("i-1", "i-2")
    assert rows(driver) == before


def test_a_range_may_span_what_a_summary_stands_for(store: AgentStore) -> None:
    for key in "123":
        answered(store, key)
    compact(store, "i-2", "a-r2", summary_id="s1")

    compact(store, "a-r1", "s1", "i-3", summary_id="s2")

    assert history(store) == ["i-1", "s2", "a-r3"]


@pytest.mark.parametrize("requeued", [False, True], ids=["running", "requeued"])
def test_the_answer_of_an_active_run_is_not_summarised(
    store: AgentStore, driver: MemoryDriver, *, requeued: bool
) -> None:
    run = checkpoint(store, acquire(store, admit(store)), "Hel")
    if requeued:
        requeue(store, run)
    before = rows(driver)

    with pytest.raises(InvalidCompactionError, match="'a-r1' is the answer of an active run"):
        try_compact(store, "i-1", "a-r1", summary_id="i-1")

    assert rows(driver) == before


@pytest.mark.parametrize(
    "summary_id",
    ["i-1", "a-r1", "a-r2", "s"],
    ids=["replaced", "kept", "reserved", "another summary"],
)
def test_the_id_of_a_summary_is_a_fresh_one(
    store: AgentStore, driver: MemoryDriver, summary_id: str
) -> None:
    answered(store, "1")
    admit(store, "2")
    compact(store, "i-2")
    before = rows(driver)

    with pytest.raises(IdentityTakenError) as refused:
        try_compact(store, "i-1", summary_id=summary_id)

    assert refused.value.identifier == summary_id
    assert rows(driver) == before


@pytest.mark.parametrize("message_ids", [(), ("i-1", "i-1")], ids=["none", "one twice"])
def test_a_range_names_each_of_its_messages_once(
    store: AgentStore, message_ids: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidCompactionError):
        try_compact(store, *message_ids)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"message_ids": "i-1"}, "$.message_ids"),
        ({"summary_parts": [FilePart(media_type="a/b", reference="x")]}, "$.parts[0]"),
        ({"expected_version": None}, "$.expected_version"),
        ({"expected_version": -1}, "$.expected_version"),
    ],
    ids=str,
)
def test_what_can_not_be_a_compaction_is_refused(
    store: AgentStore, fields: dict[str, Any], path: str
) -> None:
    given: dict[str, Any] = {
        "expected_version": 0,
        "message_ids": ["i-1"],
        "summary_parts": "x",
    }

    with pytest.raises(InvalidValueError) as refused:
        store.compact_history("c", **(given | fields))

    assert refused.value.path == path


def test_a_call_and_its_result_stay_or_go_together(store: AgentStore, driver: MemoryDriver) -> None:
    call = ToolCallPart(call_id="1", tool_name="add", input={})
    result = ToolResultPart(call_id="1", tool_name="add", outcome=ToolOutcome.SUCCESS)
    end(store, acquire(store, admit(store)), [call, result])

    compact(store, "i-1")
    assert message(store, "a-r1").parts == (call, result)
    compact(store, "s", "a-r1", summary_id="s2")

    assert history(store) == ["s2"]
    assert row(driver, "a-r1").message.parts == (call, result)
