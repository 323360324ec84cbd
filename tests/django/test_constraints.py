"""The database itself refuses rows that contradict each other, whoever writes them."""

# factory_boy declares no types for what a factory is called with.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError, transaction

from stitchkit_django.core import MessageRole, MessageStatus, RunState, TerminalReason, TextPart
from stitchkit_django.core.lifecycle import ENDINGS
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.factories import MessageFactory

if TYPE_CHECKING:
    from django.db.models import Model

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUEUED: dict[str, Any] = {"state": RunState.QUEUED}
RUNNING: dict[str, Any] = {
    "state": RunState.RUNNING,
    "owner_id": "w",
    "fencing_token": 1,
    "acquired_at": MOMENT,
}
COMPLETED: dict[str, Any] = {
    **RUNNING,
    "state": RunState.COMPLETED,
    "terminal_reason": TerminalReason.SUCCESS,
    "ended_at": MOMENT,
    "terminal_assistant": MessageFactory(answer=True),
}
ABSORBED: dict[str, Any] = {
    "state": RunState.SUPERSEDED,
    "terminal_reason": TerminalReason.ABSORBED,
    "absorbed_into_run_id": "r9",
    "ended_at": MOMENT,
}
ABANDONED: dict[str, Any] = {
    **COMPLETED,
    "state": RunState.ABANDONED,
    "terminal_reason": TerminalReason.ABANDONED,
    "owner_id": None,
}


def run(number: int = 1, **fields: object) -> Run:
    values: dict[str, Any] = {
        "conversation_id": "c",
        "run_id": f"r{number}",
        "turn": number,
        "input_message_ids": (f"i{number}",),
        "assistant_message_id": f"a{number}",
        "revision": 0,
        "created_at": MOMENT,
        "updated_at": MOMENT,
    }
    return Run(**(values | QUEUED | fields))


def message(number: int = 1, **fields: object) -> Message:
    values: dict[str, Any] = {
        "conversation_id": "c",
        "message_id": f"m{number}",
        "turn": number,
        "slot": 0,
        "role": MessageRole.USER,
        "status": MessageStatus.COMMITTED,
        "parts": (TextPart(text="Hello?"),),
        "created_at": MOMENT,
        "updated_at": MOMENT,
    }
    return Message(**(values | fields))


def receipt(number: int = 1, **fields: object) -> AdmissionReceipt:
    values: dict[str, Any] = {
        "conversation_id": "c",
        "idempotency_key": f"k{number}",
        "input": MessageFactory(id=f"i{number}"),
        "input_message_id": f"i{number}",
        "run_id": f"r{number}",
        "assistant_message_id": f"a{number}",
        "created_at": MOMENT,
    }
    return AdmissionReceipt(**(values | fields))


def save(alias: str, *rows: Model) -> None:
    with transaction.atomic(using=alias):
        for row in rows:
            row.save(using=alias, force_insert=True)


def refused(alias: str, *rows: Model) -> str:
    with pytest.raises(IntegrityError) as error:
        save(alias, *rows)
    return str(error.value)


@pytest.mark.parametrize(
    "fields", [QUEUED, RUNNING, COMPLETED, ABSORBED, ABANDONED], ids=lambda one: one["state"]
)
def test_a_run_that_agrees_with_itself_is_kept(alias: str, fields: dict[str, Any]) -> None:
    save(alias, run(**fields))

    assert Run.objects.using(alias).get().state == fields["state"]


def test_a_second_acquired_run_is_refused(alias: str) -> None:
    save(alias, run(1, **RUNNING))

    refused(alias, run(2, **RUNNING))
    refused(alias, run(2, **(RUNNING | {"state": RunState.INTERRUPT_REQUESTED})))

    save(alias, run(2), run(3, conversation_id="d", **RUNNING))


def test_an_update_to_a_second_acquired_run_is_refused(alias: str) -> None:
    save(alias, run(1, **RUNNING), run(2))

    with pytest.raises(IntegrityError):
        Run.objects.using(alias).filter(run_id="r2").update(**RUNNING)


def test_two_active_runs_have_different_turns(alias: str) -> None:
    save(alias, run(1), run(2, turn=1, **COMPLETED))

    refused(alias, run(3, turn=1))


TERMINAL = sorted({ending.state for ending in ENDINGS.values()})


@pytest.mark.parametrize("state", TERMINAL)
def test_a_terminal_state_needs_its_reason_and_its_end(alias: str, state: RunState) -> None:
    ended = COMPLETED | {"state": state}

    refused(alias, run(**(ended | {"terminal_reason": None, "terminal_assistant": None})))
    refused(alias, run(**(ended | {"ended_at": None})))


@pytest.mark.parametrize("state", TERMINAL)
@pytest.mark.parametrize("reason", list(TerminalReason))
def test_a_reason_goes_with_its_state_alone(
    sqlite_alias: str, state: RunState, reason: TerminalReason
) -> None:
    fields = COMPLETED | {"state": state, "terminal_reason": reason}
    if state is RunState.ABANDONED:
        fields |= {"owner_id": None}
    if reason is TerminalReason.POLICY_STOP:
        fields |= {"terminal_policy_name": "steps"}
    if reason is TerminalReason.ABSORBED:
        fields |= {"absorbed_into_run_id": "r9", "terminal_assistant": None, "owner_id": None}

    if ENDINGS[reason].state is state:
        save(sqlite_alias, run(**fields))
    else:
        refused(sqlite_alias, run(**fields))


@pytest.mark.parametrize("fields", [QUEUED, RUNNING], ids=lambda one: one["state"])
def test_an_active_run_has_neither_reason_nor_end(alias: str, fields: dict[str, Any]) -> None:
    refused(alias, run(**fields, terminal_reason=TerminalReason.SUCCESS, ended_at=MOMENT))
    refused(alias, run(**fields, terminal_reason=TerminalReason.SUCCESS))
    refused(alias, run(**fields, ended_at=MOMENT))


def test_an_unknown_state_is_refused(alias: str) -> None:
    refused(alias, run(state="paused"))
    refused(alias, run(state=""))


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.INTERRUPT_REQUESTED])
def test_an_acquired_run_needs_owner_and_fence(alias: str, state: RunState) -> None:
    refused(alias, run(**(RUNNING | {"state": state, "owner_id": None})))
    refused(alias, run(**(RUNNING | {"state": state, "fencing_token": None, "acquired_at": None})))


def test_a_queued_abandoned_or_absorbed_run_has_no_owner(alias: str) -> None:
    refused(alias, run(owner_id="w"))
    refused(alias, run(**(ABANDONED | {"owner_id": "w"})))
    refused(alias, run(**ABSORBED, owner_id="w"))


def test_a_fence_counts_from_one_and_has_its_acquisition(alias: str) -> None:
    refused(alias, run(**(RUNNING | {"fencing_token": 0})))
    refused(alias, run(fencing_token=1))
    refused(alias, run(acquired_at=MOMENT))


def test_a_lease_is_whole_positive_and_of_an_acquired_run(alias: str) -> None:
    lease: dict[str, Any] = {"lease_seconds": 60.0, "lease_expires_at": MOMENT}

    refused(alias, run(**RUNNING, lease_seconds=60.0))
    refused(alias, run(**RUNNING, lease_expires_at=MOMENT))
    refused(alias, run(**RUNNING, **(lease | {"lease_seconds": 0})))
    refused(alias, run(**lease))
    refused(alias, run(**COMPLETED, **lease))

    save(alias, run(**RUNNING, **lease))


def test_a_policy_is_named_exactly_by_a_policy_stop(alias: str) -> None:
    stopped = COMPLETED | {"terminal_reason": TerminalReason.POLICY_STOP}

    refused(alias, run(**stopped))
    refused(alias, run(**COMPLETED, terminal_policy_name="steps"))
    refused(alias, run(terminal_policy_name="steps"))

    save(alias, run(**stopped, terminal_policy_name="steps"))


def test_an_absorber_is_named_exactly_by_an_absorbed_run(alias: str) -> None:
    refused(alias, run(**(ABSORBED | {"absorbed_into_run_id": None})))
    refused(alias, run(**COMPLETED, absorbed_into_run_id="r9"))
    refused(alias, run(absorbed_into_run_id="r9"))


def test_an_answer_is_retained_exactly_with_a_run_that_gave_one(alias: str) -> None:
    answer = MessageFactory(answer=True)

    refused(alias, run(**(COMPLETED | {"terminal_assistant": None})))
    refused(alias, run(**ABSORBED, terminal_assistant=answer))
    refused(alias, run(terminal_assistant=answer))


def test_turn_and_revision_are_counts(alias: str) -> None:
    refused(alias, run(turn=0))
    refused(alias, run(revision=-1))


@pytest.mark.parametrize(
    "repeated", [{"run_id": "r1"}, {"assistant_message_id": "a1"}], ids=lambda one: next(iter(one))
)
def test_a_run_id_and_a_reserved_answer_are_taken_once(
    alias: str, repeated: dict[str, str]
) -> None:
    save(alias, run(1, **COMPLETED))

    refused(alias, run(2, **repeated))

    save(alias, run(2, conversation_id="d", **repeated))


@pytest.mark.parametrize(
    "repeated",
    [{"idempotency_key": "k1"}, {"input_message_id": "i1"}],
    ids=lambda one: next(iter(one)),
)
def test_a_key_and_an_input_are_received_once(alias: str, repeated: dict[str, str]) -> None:
    save(alias, receipt(1))

    refused(alias, receipt(2, **repeated))

    save(alias, receipt(2, conversation_id="d", **repeated))


def test_a_message_id_is_taken_once_archived_ones_too(alias: str) -> None:
    save(alias, message(1, archived_at=MOMENT, replaced_by="s"))

    refused(alias, message(2, message_id="m1"))


def test_an_active_place_is_taken_once(alias: str) -> None:
    save(alias, message(1), message(2, turn=1, archived_at=MOMENT, replaced_by="s"))

    refused(alias, message(3, turn=1))

    save(alias, message(3, turn=1, archived_at=MOMENT, replaced_by="s"))


ANSWER = {"role": MessageRole.ASSISTANT, "status": MessageStatus.COMPLETED, "run_id": "r1"}


@pytest.mark.parametrize(
    "fields",
    [
        ANSWER | {"run_id": None},
        ANSWER | {"status": MessageStatus.COMMITTED},
        ANSWER | {"status": "thinking"},
        {"run_id": "r1"},
        {"status": MessageStatus.STREAMING},
        {"role": "tool"},
        {"archived_at": MOMENT},
        {"replaced_by": "s"},
        {"turn": 0},
        {"slot": -1},
    ],
    ids=repr,
)
def test_a_message_that_contradicts_itself_is_refused(alias: str, fields: dict[str, Any]) -> None:
    refused(alias, message(**fields))


def test_a_conversation_has_one_head_of_a_version_that_counts(alias: str) -> None:
    save(alias, Conversation(conversation_id="c", version=1, updated_at=MOMENT))

    refused(alias, Conversation(conversation_id="c", version=2, updated_at=MOMENT))
    refused(alias, Conversation(conversation_id="d", version=-1, updated_at=MOMENT))
