"""A record that contradicts itself can't be built."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from stitchkit_django.core import (
    Head,
    HistoryPage,
    InvalidIdentifierError,
    InvalidValueError,
    MessageRole,
    MessageStatus,
    PendingAssistant,
    RecoverablePage,
    RunState,
    RunView,
    Snapshot,
    StoredRun,
    TerminalReason,
    TextPart,
)
from stitchkit_django.core.lifecycle import ENDINGS, TERMINAL_STATES
from stitchkit_django.core.records import MAX_DETAIL_CHARACTERS, pending_assistant
from tests.factories import (
    MOMENT,
    HeadFactory,
    MessageFactory,
    ReceiptFactory,
    RunFactory,
    state_fields,
)

EARLIER = MOMENT - timedelta(microseconds=1)
NAIVE = MOMENT.replace(tzinfo=None)
ACQUIRED = {"acquired": True}
LEASED = {"acquired": True, "leased": True}
ENDED = {"ended": True}
ABSORBED = {"absorbed": True}
ANSWER_STATUSES = [status for status in MessageStatus if status is not MessageStatus.COMMITTED]


def refused_path(build: Any, fields: dict[str, Any]) -> str:
    with pytest.raises(InvalidValueError) as refused:
        build(**fields)
    return refused.value.path


def test_a_record_is_never_changed() -> None:
    run = RunFactory.build()

    with pytest.raises(AttributeError):
        run.revision = 1  # type: ignore[misc] # on purpose


def test_a_record_takes_its_fields_by_keyword_alone() -> None:
    with pytest.raises(TypeError):
        Head("c", 1, MOMENT)  # type: ignore[call-arg] # on purpose


# ---------------------------------------------------------------- head


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"version": -1}, "$.version"),
        ({"version": True}, "$.version"),
        ({"updated_at": NAIVE}, "$.updated_at"),
        ({"updated_at": None}, "$.updated_at"),
        ({"purged_at": NAIVE}, "$.purged_at"),
    ],
    ids=repr,
)
def test_a_head_has_a_version_and_aware_moments(fields: dict[str, Any], path: str) -> None:
    assert refused_path(HeadFactory, fields) == path


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (HeadFactory, "conversation_id"),
        (RunFactory, "id"),
        (RunFactory, "conversation_id"),
        (RunFactory, "assistant_message_id"),
        (MessageFactory, "id"),
        (MessageFactory, "conversation_id"),
        (ReceiptFactory, "conversation_id"),
        (ReceiptFactory, "idempotency_key"),
        (ReceiptFactory, "run_id"),
        (ReceiptFactory, "assistant_message_id"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
@pytest.mark.parametrize("given", ["", " x", "a\x00", None], ids=repr)
def test_ids_in_records_follow_the_rule_for_identifiers(
    build: Any, field: str, given: object
) -> None:
    with pytest.raises(InvalidIdentifierError) as refused:
        build(**{field: given})

    assert refused.value.name == field


# ---------------------------------------------------------------- message


@pytest.mark.parametrize("role", MessageRole)
@pytest.mark.parametrize("status", MessageStatus)
def test_committed_is_the_status_of_every_message_but_an_answer(
    role: MessageRole, status: MessageStatus
) -> None:
    assistant = role is MessageRole.ASSISTANT
    fields = {"role": role, "status": status, "run_id": "r1" if assistant else None}

    if assistant is (status is not MessageStatus.COMMITTED):
        assert MessageFactory.build(**fields).status is status
    else:
        assert refused_path(MessageFactory, fields) == "$.status"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"run_id": "r1"}, "$.run_id", id="an input with a run"),
        pytest.param({"answer": True, "run_id": None}, "$.run_id", id="an answer without its run"),
        pytest.param({"role": "tool"}, "$.role", id="an unknown role"),
        pytest.param({"status": "draft"}, "$.status", id="an unknown status"),
        pytest.param({"parts": [1]}, "$.parts[0]", id="no parts"),
        pytest.param({"metadata": [1]}, "$.metadata", id="metadata that is no object"),
        pytest.param({"metadata": {"x": {1}}}, "$.metadata.x", id="metadata that is no JSON"),
        pytest.param({"created_at": NAIVE}, "$.created_at", id="a naive moment"),
        pytest.param({"updated_at": EARLIER}, "$.updated_at", id="changed before it was made"),
    ],
)
def test_a_message_that_contradicts_itself_is_never_built(
    fields: dict[str, Any], path: str
) -> None:
    assert refused_path(MessageFactory, fields) == path


def test_the_parts_of_a_message_are_a_tuple_whatever_they_were_given_as() -> None:
    parts = (TextPart(text="Hello?"),)

    for given in ("Hello?", parts, list(parts)):
        assert MessageFactory.build(parts=given).parts == parts


def test_the_metadata_of_a_message_is_its_own() -> None:
    given = {"tags": ["a"]}
    message = MessageFactory.build(metadata=given)

    given["tags"].append("b")

    assert message.metadata == {"tags": ["a"]}


def test_moments_are_kept_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))

    head = HeadFactory.build(updated_at=datetime(2026, 3, 1, 21, tzinfo=tokyo))

    assert head.updated_at == MOMENT
    assert head.updated_at.tzinfo is UTC


# ---------------------------------------------------------------- run


@pytest.mark.parametrize("state", RunState)
def test_there_is_a_run_of_every_state(state: RunState) -> None:
    run = RunFactory.build(**state_fields(state))

    assert run.state is state
    assert run.is_active is (state not in TERMINAL_STATES)
    assert run.is_acquired is (state in {RunState.RUNNING, RunState.INTERRUPT_REQUESTED})


@pytest.mark.parametrize("reason", TerminalReason)
@pytest.mark.parametrize("state", RunState)
def test_a_run_has_ended_exactly_in_the_state_of_its_reason(
    state: RunState, reason: TerminalReason
) -> None:
    fields: dict[str, Any] = {
        **state_fields(state),
        "terminal_reason": reason,
        "terminal_policy_name": "budget" if reason is TerminalReason.POLICY_STOP else None,
        "absorbed_into_run_id": "r2" if reason is TerminalReason.ABSORBED else None,
    }
    if reason is TerminalReason.ABSORBED:
        fields["owner_id"] = None

    if ENDINGS[reason].state is state:
        assert RunFactory.build(**fields).terminal_reason is reason
    else:
        with pytest.raises(InvalidValueError):
            RunFactory.build(**fields)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"turn": 0}, "$.turn", id="turn 0"),
        pytest.param({"revision": -1}, "$.revision", id="revision -1"),
        pytest.param({"state": "waiting"}, "$.state", id="unknown state"),
        pytest.param({"input_message_ids": ()}, "$.input_message_ids", id="no input"),
        pytest.param({"input_message_ids": "i"}, "$.input_message_ids", id="inputs that are a str"),
        pytest.param({"input_message_ids": ("i", "i")}, "$.input_message_ids", id="input twice"),
        pytest.param({"usage": {}}, "$.usage", id="usage that is none"),
        pytest.param({"created_at": NAIVE}, "$.created_at", id="naive moment"),
        pytest.param({"updated_at": EARLIER}, "$.updated_at", id="changed before it was made"),
        pytest.param({**ENDED, "ended_at": EARLIER}, "$.ended_at", id="ended before it was made"),
        # owner
        pytest.param({"owner_id": "worker"}, "$.owner_id", id="queued with an owner"),
        pytest.param(
            {**state_fields(RunState.ABANDONED), "owner_id": "worker"},
            "$.owner_id",
            id="abandoned with an owner",
        ),
        pytest.param({**ABSORBED, "owner_id": "worker"}, "$.owner_id", id="absorbed with an owner"),
        pytest.param({**ACQUIRED, "owner_id": None}, "$.owner_id", id="acquired without owner"),
        # fence
        pytest.param(
            {**ACQUIRED, "fencing_token": None}, "$.fencing_token", id="acquired without fence"
        ),
        pytest.param({**ACQUIRED, "fencing_token": 0}, "$.fencing_token", id="fence 0"),
        pytest.param({**ACQUIRED, "acquired_at": None}, "$.acquired_at", id="never acquired"),
        pytest.param({"acquired_at": MOMENT}, "$.acquired_at", id="acquired without a fence"),
        # lease
        pytest.param({"leased": True}, "$.lease_expires_at", id="queued with a lease"),
        pytest.param({**ENDED, "leased": True}, "$.lease_expires_at", id="ended with a lease"),
        pytest.param({**LEASED, "lease_seconds": None}, "$.lease_seconds", id="lease, no length"),
        pytest.param({**LEASED, "lease_expires_at": None}, "$.lease_seconds", id="lease, no end"),
        pytest.param({**LEASED, "lease_seconds": 0.0}, "$.lease_seconds", id="lease of nothing"),
        pytest.param({**LEASED, "lease_seconds": -1.0}, "$.lease_seconds", id="negative lease"),
        pytest.param({**LEASED, "lease_seconds": True}, "$.lease_seconds", id="lease of True"),
        pytest.param(
            {**LEASED, "lease_seconds": float("inf")}, "$.lease_seconds", id="endless lease"
        ),
        pytest.param(
            {**LEASED, "lease_seconds": float("nan")}, "$.lease_seconds", id="lease of NaN"
        ),
        # end
        pytest.param({"terminal_reason": "success"}, "$.terminal_reason", id="queued, a reason"),
        pytest.param({"ended_at": MOMENT}, "$.ended_at", id="queued, ended"),
        pytest.param(
            {**ENDED, "terminal_reason": None}, "$.terminal_reason", id="ended without a reason"
        ),
        pytest.param({**ENDED, "ended_at": None}, "$.ended_at", id="ended at no moment"),
        pytest.param(
            {**ENDED, "terminal_reason": "boredom"}, "$.terminal_reason", id="unknown reason"
        ),
        pytest.param({**ENDED, "terminal_reason": "timeout"}, "$.state", id="another state's"),
        pytest.param(
            {**ENDED, "terminal_reason": "policy_stop"},
            "$.terminal_policy_name",
            id="policy stop without its policy",
        ),
        pytest.param(
            {**ENDED, "terminal_policy_name": "budget"},
            "$.terminal_policy_name",
            id="success with a policy",
        ),
        pytest.param(
            {**ABSORBED, "absorbed_into_run_id": None},
            "$.absorbed_into_run_id",
            id="absorbed by nobody",
        ),
        pytest.param(
            {**ENDED, "absorbed_into_run_id": "r2"},
            "$.absorbed_into_run_id",
            id="success, absorbed",
        ),
        pytest.param(
            {**ABSORBED, "absorbed_into_run_id": "r1"},
            "$.absorbed_into_run_id",
            id="absorbed by itself",
        ),
        pytest.param({"terminal_detail": "x"}, "$.terminal_detail", id="queued with a detail"),
        pytest.param(
            {**ENDED, "terminal_detail": "x" * (MAX_DETAIL_CHARACTERS + 1)},
            "$.terminal_detail",
            id="a detail too long",
        ),
        pytest.param({**ENDED, "terminal_detail": b"x"}, "$.terminal_detail", id="bytes"),
    ],
)
def test_a_run_that_contradicts_itself_is_never_built(fields: dict[str, Any], path: str) -> None:
    assert refused_path(RunFactory, fields) == path


def test_a_run_keeps_what_may_stay_after_its_end() -> None:
    run = RunFactory.build(ended=True, terminal_detail="x" * MAX_DETAIL_CHARACTERS)

    assert (run.owner_id, run.fencing_token, run.acquired_at) == ("worker", 1, MOMENT)
    assert len(run.terminal_detail or "") == MAX_DETAIL_CHARACTERS


def test_a_requeued_run_keeps_its_fence_without_an_owner() -> None:
    run = RunFactory.build(fencing_token=2, acquired_at=MOMENT)

    assert (run.state, run.owner_id, run.fencing_token) == (RunState.QUEUED, None, 2)


# ---------------------------------------------------------------- a run and its answer


@pytest.mark.parametrize("status", [None, *ANSWER_STATUSES])
@pytest.mark.parametrize("reason", [None, *TerminalReason])
def test_an_answer_is_retained_exactly_with_an_end_and_in_its_status(
    reason: TerminalReason | None, status: MessageStatus | None
) -> None:
    fields: dict[str, Any] = {}
    if reason is not None:
        policy = "budget" if reason is TerminalReason.POLICY_STOP else None
        fields = {
            **state_fields(ENDINGS[reason].state),
            "terminal_reason": reason,
            "terminal_policy_name": policy,
        }
    if reason is TerminalReason.ABSORBED:
        fields |= {"absorbed_into_run_id": "r2", "owner_id": None}
    run = RunFactory.build(**fields)
    answer = None if status is None else MessageFactory.build(answer=True, status=status)
    expected = None if reason is None else ENDINGS[reason].status

    if status is expected:
        assert StoredRun(run=run, terminal_assistant=answer).terminal_assistant is answer
        assert RunView(snapshot_version=1, run=run, assistant=answer).assistant is answer
    else:
        fields = {"run": run, "terminal_assistant": answer}
        assert refused_path(StoredRun, fields) == "$.terminal_assistant"
        fields = {"snapshot_version": 1, "run": run, "assistant": answer}
        assert refused_path(RunView, fields) == "$.assistant"


@pytest.mark.parametrize("field", ["id", "run_id", "conversation_id"])
def test_the_answer_of_another_run_is_refused(field: str) -> None:
    answer = MessageFactory.build(answer=True, **{field: "other"})

    fields = {"run": RunFactory.build(ended=True), "terminal_assistant": answer}

    assert refused_path(StoredRun, fields) == "$.terminal_assistant"


@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        (StoredRun, {"run": None}, "$.run"),
        (StoredRun, {"run": RunFactory.build(), "terminal_assistant": "x"}, "$.terminal_assistant"),
        (RunView, {"run": "r1", "snapshot_version": 1}, "$.run"),
        (RunView, {"run": RunFactory.build(), "snapshot_version": -1}, "$.snapshot_version"),
        (
            RunView,
            {"run": RunFactory.build(), "snapshot_version": 1, "assistant": 1},
            "$.assistant",
        ),
    ],
)
def test_a_run_with_its_answer_is_made_of_records(
    kind: type[Any], fields: dict[str, Any], path: str
) -> None:
    assert refused_path(kind, fields) == path


# ---------------------------------------------------------------- receipts, pages, projections


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"input": None}, "$.input", id="none"),
        pytest.param({"input": "Hello?"}, "$.input", id="a text"),
        pytest.param({"input__conversation_id": "other"}, "$.input", id="another conversation's"),
        pytest.param({"input__answer": True}, "$.input", id="an answer"),
        pytest.param({"input__role": "summary"}, "$.input", id="a summary"),
        pytest.param({"created_at": NAIVE}, "$.created_at", id="a naive moment"),
    ],
)
def test_a_receipt_proves_a_user_message_of_its_conversation(
    fields: dict[str, Any], path: str
) -> None:
    assert refused_path(ReceiptFactory, fields) == path


def test_a_pending_answer_has_the_ids_of_its_run_and_says_that_it_is_pending() -> None:
    pending = pending_assistant(RunFactory.build())

    assert (pending.id, pending.conversation_id, pending.run_id) == ("a-r1", "c", "r1")
    assert (pending.status, pending.created_at) == ("pending", MOMENT)


@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        (
            PendingAssistant,
            {
                "id": "a",
                "conversation_id": "c",
                "run_id": "r",
                "created_at": MOMENT,
                "status": "completed",
            },
            "$.status",
        ),
        (
            PendingAssistant,
            {"id": "a", "conversation_id": "c", "run_id": "r", "created_at": NAIVE},
            "$.created_at",
        ),
        (Snapshot, {"conversation_id": "c", "version": -1}, "$.version"),
        (Snapshot, {"conversation_id": "c", "version": 1, "turns": (1,)}, "$.turns"),
        (HistoryPage, {"version": -1}, "$.version"),
        (HistoryPage, {"version": 1, "before": 3}, "$.before"),
        (RecoverablePage, {"moment": NAIVE}, "$.moment"),
        (RecoverablePage, {"moment": MOMENT, "next_cursor": 3}, "$.next_cursor"),
    ],
)
def test_what_a_read_gives_checks_itself_too(
    kind: type[Any], fields: dict[str, Any], path: str
) -> None:
    assert refused_path(kind, fields) == path


def test_ids_in_what_a_read_gives_follow_the_rule_too() -> None:
    with pytest.raises(InvalidIdentifierError):
        Snapshot(conversation_id=" c", version=0)
    with pytest.raises(InvalidIdentifierError):
        PendingAssistant(id="", conversation_id="c", run_id="r", created_at=MOMENT)
