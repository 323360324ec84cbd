"""Conversations of any size, made at once; as the store would have left them, but quicker."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from stitchkit_django.core import MessageRole, MessageStatus, RunState, TerminalReason, TextPart
from stitchkit_django.core.driver import LAST_SLOT
from stitchkit_django.core.records import Message
from stitchkit_django.models import AdmissionReceipt, Conversation, Run
from stitchkit_django.models import Message as MessageRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Size(NamedTuple):
    """How much there is of a conversation."""

    messages: int
    """In its active history."""
    runs: int
    """All ended, each with a receipt."""


def conversation_id(name: str) -> str:
    """Give an id as uuid4 would, always the same for a name: rows lie in no order of their ids."""
    return str(uuid5(NAMESPACE_OID, name))


def populate(alias: str, sizes: dict[str, Size]) -> None:
    """Make conversations of these sizes, by their names."""
    for name, size in sizes.items():
        where = conversation_id(name)
        Conversation.objects.using(alias).create(
            conversation_id=where, version=size.runs, updated_at=MOMENT
        )
        turns = list(_turns(where, size))
        Run.objects.using(alias).bulk_create([turn.run for turn in turns], batch_size=500)
        AdmissionReceipt.objects.using(alias).bulk_create(
            [turn.receipt for turn in turns], batch_size=500
        )
        messages = [message for turn in turns for message in turn.messages]
        MessageRow.objects.using(alias).bulk_create(messages, batch_size=500)


class _Turn(NamedTuple):
    run: Run
    receipt: AdmissionReceipt
    messages: Sequence[MessageRow]


def _turns(where: str, size: Size) -> Iterator[_Turn]:
    # The history is that of the last turns; what came before has been compacted away.
    inputs = max(1, size.messages // size.runs - 1)
    first = size.runs - size.messages // (inputs + 1)
    for turn in range(1, size.runs + 1):
        run_id, answer_id = f"{where}-r{turn}", f"{where}-a{turn}"
        identities = [f"{where}-i{turn}-{number}" for number in range(inputs)]
        question = Message(
            id=identities[0],
            conversation_id=where,
            role=MessageRole.USER,
            status=MessageStatus.COMMITTED,
            parts=(TextPart(text="Hello?"),),
            created_at=MOMENT,
            updated_at=MOMENT,
        )
        answer = Message(
            id=answer_id,
            conversation_id=where,
            run_id=run_id,
            role=MessageRole.ASSISTANT,
            status=MessageStatus.COMPLETED,
            parts=(TextPart(text="Hello!"),),
            created_at=MOMENT,
            updated_at=MOMENT,
        )
        run: dict[str, Any] = {
            "conversation_id": where,
            "run_id": run_id,
            "turn": turn,
            "input_message_ids": tuple(identities),
            "assistant_message_id": answer_id,
            "state": RunState.COMPLETED,
            "revision": 2,
            "owner_id": "worker",
            "fencing_token": 1,
            "terminal_reason": TerminalReason.SUCCESS,
            "terminal_assistant": answer,
            "created_at": MOMENT,
            "updated_at": MOMENT,
            "acquired_at": MOMENT,
            "ended_at": MOMENT,
        }
        receipt: dict[str, Any] = {
            "conversation_id": where,
            "idempotency_key": f"{where}-k{turn}",
            "input": question,
            "input_message_id": question.id,
            "run_id": run_id,
            "assistant_message_id": answer_id,
            "created_at": MOMENT,
        }
        messages = [
            *(_row(turn, slot, question, identity) for slot, identity in enumerate(identities)),
            _row(turn, LAST_SLOT, answer, answer_id),
        ]
        yield _Turn(Run(**run), AdmissionReceipt(**receipt), messages if turn > first else ())


def _row(turn: int, slot: int, message: Message, identity: str) -> MessageRow:
    fields: dict[str, Any] = {
        "conversation_id": message.conversation_id,
        "message_id": identity,
        "turn": turn,
        "slot": slot,
        "run_id": message.run_id,
        "role": message.role,
        "status": message.status,
        "parts": message.parts,
        "created_at": message.created_at,
        "updated_at": message.updated_at,
    }
    return MessageRow(**fields)
