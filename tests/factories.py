"""Builds the records that tests begin with; what a test is about it says itself."""

# factory_boy declares no types for what a field is declared with.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from factory.base import Factory
from factory.declarations import LazyAttribute, SubFactory, Trait

from stitchkit_django.core import (
    AdmissionReceipt,
    Head,
    Message,
    MessageRole,
    MessageStatus,
    PlacedMessage,
    Run,
    RunState,
    StoredRun,
    TerminalReason,
)
from stitchkit_django.core.driver import LAST_SLOT, ConversationRows, Place

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""When everything that a factory builds has happened."""


class HeadFactory(Factory[Head]):
    class Meta:
        model = Head

    conversation_id = "c"
    version = 1
    updated_at = MOMENT


class RunFactory(Factory[Run]):
    """A queued run; the traits take it on, and `state_traits` names those of a state."""

    class Meta:
        model = Run

    class Params:
        acquired = Trait(
            state=RunState.RUNNING, owner_id="worker", fencing_token=1, acquired_at=MOMENT
        )
        leased = Trait(lease_seconds=60.0, lease_expires_at=MOMENT)
        ended = Trait(
            state=RunState.COMPLETED,
            terminal_reason=TerminalReason.SUCCESS,
            owner_id="worker",
            fencing_token=1,
            acquired_at=MOMENT,
            ended_at=MOMENT,
        )
        absorbed = Trait(
            state=RunState.SUPERSEDED,
            terminal_reason=TerminalReason.ABSORBED,
            absorbed_into_run_id="other",
            ended_at=MOMENT,
        )

    id = "r1"
    conversation_id = "c"
    turn = 1
    input_message_ids = LazyAttribute(lambda run: (f"i-{run.id}",))
    assistant_message_id = LazyAttribute(lambda run: f"a-{run.id}")
    state = RunState.QUEUED
    revision = 0
    created_at = MOMENT
    updated_at = MOMENT


class MessageFactory(Factory[Message]):
    """A user message of one text part."""

    class Meta:
        model = Message

    class Params:
        answer = Trait(
            id="a-r1",
            run_id="r1",
            role=MessageRole.ASSISTANT,
            status=MessageStatus.COMPLETED,
        )

    id = "i-r1"
    conversation_id = "c"
    role = MessageRole.USER
    status = MessageStatus.COMMITTED
    parts = "Hello?"
    created_at = MOMENT
    updated_at = MOMENT


class ReceiptFactory(Factory[AdmissionReceipt]):
    class Meta:
        model = AdmissionReceipt

    conversation_id = "c"
    idempotency_key = "k1"
    input = SubFactory(MessageFactory)
    run_id = "r1"
    assistant_message_id = "a-r1"
    created_at = MOMENT


def state_fields(state: RunState) -> dict[str, Any]:
    """Give what `RunFactory` needs to build a run of a state."""
    match state:
        case RunState.QUEUED:
            return {}
        case RunState.RUNNING | RunState.INTERRUPT_REQUESTED:
            return {"acquired": True, "state": state}
        case RunState.COMPLETED:
            return {"ended": True}
        case RunState.ABANDONED:
            reason = TerminalReason.ABANDONED
            return {"ended": True, "state": state, "terminal_reason": reason, "owner_id": None}
        case RunState.FAILED:
            reason = TerminalReason.PROVIDER_FAILURE
            return {"ended": True, "state": state, "terminal_reason": reason}
        case _:
            return {"ended": True, "state": state, "terminal_reason": TerminalReason(state)}


def conversation_rows(*runs: Run, **answers: MessageStatus) -> ConversationRows:
    """Give the rows of a conversation in which these runs were admitted, one input each.

    Args:
        runs: by turn.
        answers: the status of each answer that is there, by the id of its run.
    """
    stored = []
    messages = []
    receipts = []
    for run in runs:
        message = MessageFactory.build(
            id=run.input_message_ids[0], conversation_id=run.conversation_id
        )
        messages.append(PlacedMessage(message=message, place=Place(run.turn, 0)))
        receipt = ReceiptFactory.build(
            conversation_id=run.conversation_id,
            idempotency_key=f"k-{run.id}",
            input=message,
            run_id=run.id,
            assistant_message_id=run.assistant_message_id,
        )
        receipts.append(receipt)
        answer = None
        if run.id in answers:
            answer = MessageFactory.build(
                answer=True,
                id=run.assistant_message_id,
                conversation_id=run.conversation_id,
                run_id=run.id,
                status=answers[run.id],
            )
            messages.append(PlacedMessage(message=answer, place=Place(run.turn, LAST_SLOT)))
        stored.append(StoredRun(run=run, terminal_assistant=None if run.is_active else answer))
    head = HeadFactory.build(conversation_id=runs[0].conversation_id, version=len(runs))
    return ConversationRows(
        head=head, runs=tuple(stored), receipts=tuple(receipts), messages=tuple(messages)
    )
