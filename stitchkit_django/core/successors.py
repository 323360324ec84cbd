"""How the next run and the next message follow from the ones before; no rule about when."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stitchkit_django.core.lifecycle import ENDINGS, TRANSITIONS, MessageRole, MessageStatus
from stitchkit_django.core.operations import lease_seconds
from stitchkit_django.core.records import Message

if TYPE_CHECKING:
    from datetime import datetime

    from stitchkit_django.core.driver import AssistantOutline
    from stitchkit_django.core.lifecycle import Operation, TerminalReason
    from stitchkit_django.core.parts import Part
    from stitchkit_django.core.records import Run
    from stitchkit_django.core.values import JSONValue


def next_run(run: Run, operation: Operation, moment: datetime, **fields: object) -> Run:
    """Give the run after an operation that doesn't end it, one revision further."""
    state = TRANSITIONS[run.state, operation] or run.state
    return replace(run, state=state, revision=run.revision + 1, updated_at=moment, **fields)


def ended_run(run: Run, reason: TerminalReason, moment: datetime, **fields: object) -> Run:
    """Give the run after its end: one revision further, in the reason's state, without a lease."""
    return replace(
        run,
        state=ENDINGS[reason].state,
        revision=run.revision + 1,
        terminal_reason=reason,
        lease_seconds=None,
        lease_expires_at=None,
        updated_at=moment,
        ended_at=moment,
        **fields,
    )


def new_lease(lease: timedelta | None, moment: datetime) -> dict[str, object]:
    """Give the fields of a run for a lease that begins now, or for none."""
    if lease is None:
        return {"lease_seconds": None, "lease_expires_at": None}
    return {"lease_seconds": lease_seconds(lease), "lease_expires_at": moment + lease}


def extended_lease(run: Run, moment: datetime) -> dict[str, object]:
    """Give the fields of a run for its lease begun anew, if it has one; never for a shorter one."""
    if run.lease_seconds is None or run.lease_expires_at is None:
        return {}
    extended = moment + timedelta(seconds=run.lease_seconds)
    return {"lease_expires_at": max(run.lease_expires_at, extended)}


def committed_message(  # noqa: PLR0913 - a message's fields
    role: MessageRole,
    conversation_id: str,
    identity: str,
    *,
    parts: tuple[Part, ...],
    metadata: dict[str, JSONValue] | None,
    moment: datetime,
) -> Message:
    """Build a message that is whole from the beginning: an input or a summary."""
    return Message(
        id=identity,
        conversation_id=conversation_id,
        role=role,
        status=MessageStatus.COMMITTED,
        parts=parts,
        metadata=metadata,
        created_at=moment,
        updated_at=moment,
    )


def answer_message(  # noqa: PLR0913 - a message's fields
    run: Run,
    stored: AssistantOutline | None,
    status: MessageStatus,
    *,
    parts: tuple[Part, ...],
    metadata: dict[str, JSONValue] | None,
    moment: datetime,
) -> Message:
    """Build a run's answer; it keeps the stored one's beginning, and its metadata if None."""
    return Message(
        id=run.assistant_message_id,
        conversation_id=run.conversation_id,
        run_id=run.id,
        role=MessageRole.ASSISTANT,
        status=status,
        parts=parts,
        metadata=stored.metadata if metadata is None and stored else metadata,
        created_at=stored.created_at if stored else moment,
        updated_at=moment,
    )
