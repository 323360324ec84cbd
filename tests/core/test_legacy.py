"""The retired aggregate becomes rows of today, or is refused with the reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import (
    AgentStore,
    InvalidValueError,
    MemoryDriver,
    Provenance,
    TerminalReason,
    ToolOutcome,
    ToolResultPart,
)
from stitchkit_django.core.documents import rows_of
from stitchkit_django.core.driver import LAST_SLOT, ConversationRows, Place
from stitchkit_django.core.integrity import findings
from stitchkit_django.core.transfer import ImportResult, import_document
from tests.core.aggregates import (
    admission,
    aggregate,
    answer,
    completed,
    line,
    message,
    recorded,
    run,
    system,
)
from tests.replay import histories

if TYPE_CHECKING:
    from stitchkit_django.core.records import StoredRun

BEGINNING = datetime(2026, 3, 1, 12, tzinfo=UTC)


def rows(document: dict[str, Any]) -> ConversationRows:
    found = rows_of(line(document))
    assert findings(found) == ()
    return found


def only_run(document: dict[str, Any]) -> StoredRun:
    (stored,) = rows(document).runs
    return stored


def refusal(document: dict[str, Any]) -> str:
    with pytest.raises(InvalidValueError) as refused:
        rows_of(line(document))
    return str(refused.value)


def order(found: ConversationRows) -> list[str]:
    return [placed.message.id for placed in found.messages]


# ---------------------------------------------------------------- recorded histories


@pytest.mark.parametrize("history", histories(), ids=lambda history: f"seed {history['seed']}")
def test_a_recorded_conversation_is_the_same_after_its_import(history: dict[str, Any]) -> None:
    document, state = recorded(history)
    driver = MemoryDriver()

    done = import_document(driver, line(document))

    assert (done.result, done.reason) == (ImportResult.IMPORTED, None)
    found = driver.rows("c")
    assert found is not None
    assert findings(found) == ()
    store = AgentStore(driver)
    snapshot = store.load_snapshot("c")
    assert snapshot.version == state["version"]
    assert [one.id for one in snapshot.messages] == [one["id"] for one in state["messages"]]
    told = ("id", "state", "revision", "owner_id", "fencing_token", "terminal_reason")
    assert [[getattr(one, name) for name in told] for one in snapshot.runs] == [
        [one[name] for name in told] for one in state["runs"]
    ]
    assert [one.id for one in store.list_active_runs("c")] == state["active"]


def test_the_recorded_conversations_hold_what_is_hard_about_them() -> None:
    documents = [recorded(history)[0] for history in histories()]
    runs = [one for document in documents for one in document["state"]["runs"]]

    assert sum("absorbedIntoRunId" in one for one in runs) > 5
    assert sum(one["state"] == "queued" and "fencingToken" in one for one in runs) > 1
    assert sum(order(rows_of(line(one))) != ids(one) for one in documents) > 20


def ids(document: dict[str, Any]) -> list[str]:
    return [one["id"] for one in document["messages"]]


# ---------------------------------------------------------------- order


def test_turns_follow_the_first_inputs_then_the_beginning_then_the_id() -> None:
    ended = [
        completed("r4", "i-gone-4", second=2),
        completed("r3", "i-gone-3", second=2),
        completed("r5", "i-gone-5", second=1),
        completed("r2", "i2", second=0),
        completed("r1", "i1", second=9),
    ]
    answers = [answer(one["id"]) for one in ended]
    summary = message("s", role="summary")
    history = [summary, message("i1"), message("i2"), *answers]
    document = aggregate(ended, history, admissions=[])

    found = rows(document)

    assert [one.run.id for one in found.runs] == ["r5", "r3", "r4", "r1", "r2"]


def test_runless_messages_stay_where_they_were() -> None:
    history = [
        system("n0"),
        message("i1"),
        answer("r1"),
        system("n1"),
        message("i2"),
        message("u"),
        system("n2"),
    ]

    found = rows(aggregate([completed("r1", "i1"), run("r2", "i2")], history))

    assert order(found) == ["n0", "i1", "a-r1", "n1", "i2", "u", "n2"]
    assert [placed.place.turn for placed in found.messages] == [1, 2, 2, 3, 4, 4, 4]


def test_another_input_can_join_a_run_that_was_imported_with_messages_between() -> None:
    driver = MemoryDriver()
    history = [message("i1"), system("n"), message("i2"), system("o")]
    import_document(driver, line(aggregate([run("r1", "i1", "i2")], history)))
    store = AgentStore(driver)

    store.accept_input("c", "k", "More", input_message_id="i3", coalesce_into="r1")

    found = driver.rows("c")
    assert found is not None
    assert order(found) == ["i1", "i2", "i3", "n", "o"]
    assert findings(found) == ()


def test_the_version_is_kept_but_not_behind_the_turns() -> None:
    history = [message("i1"), answer("r1"), system("n"), message("i2")]
    runs = [completed("r1", "i1"), run("r2", "i2")]

    assert rows(aggregate(runs, history, version=20)).head.version == 20
    assert rows(aggregate(runs, history, version=2)).head.version == 3


# ---------------------------------------------------------------- what was not said


def test_a_run_that_had_an_owner_gets_the_first_fence_and_no_lease() -> None:
    history = [message("i1"), answer("r1", "streaming")]
    state: dict[str, Any] = {"state": "running", "ownerId": "worker", "revision": 2}

    stored = only_run(aggregate([run("r1", "i1", second=5, **state)], history))

    assert stored.run.fencing_token == 1
    assert stored.run.owner_id == "worker"
    assert stored.run.acquired_at == stored.run.created_at == BEGINNING + timedelta(seconds=5)
    assert stored.run.lease_expires_at is None
    assert stored.run.ended_at is None


def test_a_fence_that_is_there_is_kept() -> None:
    history = [message("i1"), answer("r1")]

    stored = only_run(aggregate([completed("r1", "i1", fencingToken=3, revision=7)], history))

    assert (stored.run.fencing_token, stored.run.revision) == (3, 7)


def test_a_queued_run_has_a_fence_exactly_if_it_has_begun_to_answer() -> None:
    begun = [message("i1"), answer("r1", "streaming")]

    assert only_run(aggregate([run("r1", "i1")], begun)).run.fencing_token == 1
    assert only_run(aggregate([run("r1", "i1")], begun[:1])).run.fencing_token is None


@pytest.mark.parametrize(
    ("state", "reason", "status"),
    [
        ({"state": "queued", "ownerId": "w"}, None, None),
        ({"state": "abandoned", "ownerId": "w"}, "abandoned", "failed"),
        ({"state": "cancelled"}, "cancelled", "interrupted"),
    ],
    ids=["queued", "abandoned", "cancelled"],
)
def test_a_run_that_has_no_owner_today_has_none(
    state: dict[str, Any], reason: str | None, status: str | None
) -> None:
    told: dict[str, Any] = {} if reason is None else {"terminalReason": reason}
    answers = [] if status is None else [answer("r1", status)]

    stored = only_run(aggregate([run("r1", "i1", **state, **told)], [message("i1"), *answers]))

    assert (stored.run.owner_id, stored.run.fencing_token) == (None, None)


def test_a_run_that_its_owner_cancelled_names_the_owner() -> None:
    state: dict[str, Any] = {"state": "cancelled", "terminalReason": "cancelled", "ownerId": "w"}
    history = [message("i1"), answer("r1", "interrupted")]

    stored = only_run(aggregate([run("r1", "i1", **state)], history))

    assert (stored.run.owner_id, stored.run.fencing_token) == ("w", 1)


@pytest.mark.parametrize("state", ["running", "completed"])
def test_an_owner_that_must_have_been_is_called_unknown(state: str) -> None:
    fields: dict[str, Any] = {"state": state, "revision": 2}
    if state == "completed":
        fields["terminalReason"] = "success"
    status = {"running": "streaming"}.get(state, state)
    history = [message("i1"), answer("r1", status)]

    assert only_run(aggregate([run("r1", "i1", **fields)], history)).run.owner_id == "unknown"


def test_a_policy_is_kept_with_a_policy_stop_alone_and_called_unknown_where_it_was_not_named() -> (
    None
):
    history = [message("i1"), answer("r1")]

    def policy(**fields: str) -> str | None:
        document = aggregate([completed("r1", "i1", **fields)], history)
        return only_run(document).run.terminal_policy_name

    assert policy(terminalReason="policy_stop", terminalPolicyName="steps") == "steps"
    assert policy(terminalReason="policy_stop") == "unknown"
    assert policy(terminalReason="provider_stop", terminalPolicyName="steps") is None


def test_a_tool_failure_becomes_a_provider_failure() -> None:
    history = [message("i1"), answer("r1", "failed")]
    document = aggregate(
        [completed("r1", "i1", state="failed", terminalReason="tool_failure")], history
    )

    assert only_run(document).run.terminal_reason is TerminalReason.PROVIDER_FAILURE


def test_a_revision_is_not_behind_what_the_run_has_been_through() -> None:
    history = [message("i1"), answer("r1")]

    stored = only_run(aggregate([completed("r1", "i1", revision=0)], history))

    assert stored.run.revision == 2


def test_usage_is_kept() -> None:
    history = [message("i1"), answer("r1")]
    usage = {
        "inputTokens": {"value": 7, "provenance": "provider-reported"},
        "outputTokens": {"provenance": "unavailable"},
        "cost": {"value": 0.25, "currency": "USD", "provenance": "computed"},
    }

    found = only_run(aggregate([completed("r1", "i1", usage=usage)], history)).run.usage

    assert found is not None
    assert found.input_tokens is not None
    assert (found.input_tokens.value, found.input_tokens.provenance) == (
        7,
        Provenance.PROVIDER_REPORTED,
    )


# ---------------------------------------------------------------- receipts and answers


def test_receipts_and_retained_answers_are_the_messages() -> None:
    history = [message("i1", second=3, metadata={"a": [1, 1.0, None]}), answer("r1")]

    found = rows(aggregate([completed("r1", "i1")], history))

    (receipt,), (stored,) = found.receipts, found.runs
    inputs, answers = found.messages
    assert receipt.input == inputs.message
    assert receipt.created_at == inputs.message.created_at
    assert receipt.idempotency_key == "k-i1"
    assert stored.terminal_assistant == answers.message
    assert answers.place == Place(1, LAST_SLOT)


def test_calls_that_an_ended_run_left_open_are_closed_and_no_others() -> None:
    call = {"type": "tool-call", "callId": "1", "toolName": "search", "input": {}}
    history = [
        message("i1"),
        answer("r1", parts=[call]),
        message("i2"),
        answer("r2", "streaming", parts=[call]),
    ]

    found = rows(aggregate([completed("r1", "i1"), run("r2", "i2")], history))

    closed, open_ = (placed.message.parts for placed in found.messages if placed.message.run_id)
    assert isinstance(closed[-1], ToolResultPart)
    assert closed[-1].outcome is ToolOutcome.INTERRUPTED
    assert len(open_) == 1


def test_an_absorbed_run_points_to_the_run_that_has_its_input() -> None:
    absorbed: dict[str, Any] = {
        "state": "superseded",
        "terminalReason": "absorbed",
        "absorbedIntoRunId": "r1",
        "ownerId": "w",
    }
    runs = [run("r2", "i2", **absorbed), completed("r1", "i1", "i2")]
    admissions = [admission("i1", "r1"), admission("i2", "r2")]
    history = [message("i1"), message("i2"), answer("r1")]

    found = rows(aggregate(runs, history, admissions=admissions))

    assert [(one.run.id, one.run.turn) for one in found.runs] == [("r1", 1), ("r2", 2)]
    assert [one.run_id for one in found.receipts] == ["r1", "r2"]
    assert [placed.place.turn for placed in found.messages] == [1, 1, 1]


def test_a_retry_of_an_imported_key_is_told_its_answer() -> None:
    driver = MemoryDriver()
    history = [message("i1"), answer("r1")]
    import_document(driver, line(aggregate([completed("r1", "i1")], history)))

    retried = AgentStore(driver).accept_input("c", "k-i1", "Text of i1")

    assert retried.outcome == "duplicate"
    assert retried.same_input
    assert retried.assistant is not None
    assert retried.assistant.id == "a-r1"


# ---------------------------------------------------------------- refusals


RUNS = [completed("r1", "i1")]
WHOLE = [message("i1"), answer("r1")]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an input that is missing": (
        aggregate(RUNS, WHOLE[1:]),
        "$.state.admissions[0].input_message_id: the input 'i1' of key 'k-i1' is not among",
    ),
    "an answer that is missing": (
        aggregate(RUNS, WHOLE[:1]),
        "$.state.runs[0].assistant_message_id: the answer 'a-r1' of run 'r1', which has ended, is",
    ),
    "a message that stands there twice": (
        aggregate(RUNS, [*WHOLE, message("i1")]),
        "$.messages[2].id: 'i1' is the id of an earlier message",
    ),
    "an answer of another end": (
        aggregate(RUNS, [message("i1"), answer("r1", "failed")]),
        "$.state.runs[0].terminal_assistant: status failed",
    ),
    "a reason that never was": (
        aggregate([completed("r1", "i1", terminalReason="bored")], WHOLE),
        "$.state.runs[0].terminal_reason: 'bored' is not one of success",
    ),
    "an end without a reason": (
        aggregate([run("r1", "i1", state="completed")], WHOLE),
        "$.state.runs[0].terminal_reason: is None, but must be set",
    ),
    "an id that can not be": (
        aggregate([completed("r1", "i1", ownerId=" w")], WHOLE),
        "$.state.runs[0]: owner_id ' w' has white space",
    ),
    "a key that can not be": (
        aggregate(RUNS, WHOLE, admissions=[admission("i1", "r1") | {"idempotencyKey": ""}]),
        "$.state.admissions[0]: idempotency_key '' is empty",
    ),
    "a message of no run": (
        aggregate(RUNS, [*WHOLE, message("x", role="assistant", status="completed")]),
        "$.messages[2].run_id: must be set exactly on an assistant message",
    ),
    "nothing at all": (
        aggregate([], [], version=0),
        "$.state.runs: no run and no message: there is nothing to import",
    ),
    "another schema version": (
        aggregate(RUNS, WHOLE, schemaVersion=2),
        "`$.state.schemaVersion`",
    ),
    "a negative version": (
        aggregate(RUNS, WHOLE, version=2**63),
        "$.state.version: 9223372036854775808 is not in 0",
    ),
    "a moment of no zone": (
        aggregate(RUNS, [message("i1", createdAt="2026-03-01T12:00:00"), *WHOLE[1:]]),
        "$.messages[0].created_at: ",
    ),
}


@pytest.mark.parametrize(("document", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_can_not_be_kept_is_refused_with_its_place(
    document: dict[str, Any], told: str
) -> None:
    assert told in refusal(document)


CONTRADICTORY: dict[str, tuple[dict[str, Any], str]] = {
    "an admission of a run that is missing": (
        aggregate(RUNS, WHOLE, admissions=[admission("i1", "r9")]),
        "receipt 'k-i1': names run 'r9', which is missing (receipt-run)",
    ),
    "a queued run without an admission": (
        aggregate([run("r1", "i1")], [message("i1")], admissions=[]),
        "run 'r1': is active, but has no receipt of 'i1' (input-receipt)",
    ),
    "two acquired runs": (
        aggregate(
            [run(one, f"i{one}", state="running", ownerId="w") for one in ("r1", "r2")],
            [message("ir1"), message("ir2")],
        ),
        "run 'r1': is acquired, and so is run 'r2' (acquired)",
    ),
    "an input that is lost": (
        aggregate(RUNS, WHOLE[1:], admissions=[]),
        "run 'r1': has the inputs 'i1', which are neither there nor replaced by a summary",
    ),
    "a run of another conversation": (
        aggregate([run("r1", "i1", conversationId="d")], [message("i1")]),
        "run 'r1': names conversation 'd', not 'c' (conversation)",
    ),
}


@pytest.mark.parametrize(("document", "told"), CONTRADICTORY.values(), ids=CONTRADICTORY.keys())
def test_an_aggregate_that_contradicts_itself_is_refused(
    document: dict[str, Any], told: str
) -> None:
    driver = MemoryDriver()

    done = import_document(driver, line(document))

    assert done.result is ImportResult.REFUSED
    assert done.conversation_id == "c"
    assert done.reason is not None
    assert told in done.reason
    assert driver.rows("c") is None
