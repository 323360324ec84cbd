"""Which rows each operation decides from; no decision."""

from __future__ import annotations

from typing import assert_never

from stitchkit_django.core.driver import ReadSet
from stitchkit_django.core.operations import (
    AcceptInput,
    AcquireRun,
    CancelRun,
    CheckpointRun,
    CommitTerminal,
    CompactHistory,
    Mutation,
    PurgeConversation,
    RecoverRun,
    RequestInterrupt,
)


def wanted(request: Mutation) -> ReadSet:
    """Name the rows that an operation decides from."""
    match request:
        case AcceptInput():
            return _admission_facts(request)
        case AcquireRun():
            return ReadSet(
                conversation_id=request.conversation_id, run_id=request.run_id, first_active=True
            )
        case CheckpointRun() | RequestInterrupt():
            return ReadSet(conversation_id=request.conversation_id, run_id=request.run_id)
        case CancelRun() | RecoverRun():
            return ReadSet(
                conversation_id=request.conversation_id, run_id=request.run_id, partial=True
            )
        case CommitTerminal():
            return ReadSet(
                conversation_id=request.conversation_id,
                run_id=request.run_id,
                other_run_ids=tuple(dict.fromkeys(one.run_id for one in request.absorb)),
            )
        case CompactHistory():
            return ReadSet(
                conversation_id=request.conversation_id,
                range_ids=request.message_ids,
                new_message_ids=(request.summary_id,),
            )
        case PurgeConversation():
            return ReadSet(conversation_id=request.conversation_id, all_active=True)
        case _:
            assert_never(request)


def _admission_facts(request: AcceptInput) -> ReadSet:
    joins = request.coalesce_into is not None
    message_ids = (request.input_message_id, request.assistant_message_id)
    return ReadSet(
        conversation_id=request.conversation_id,
        admits=True,
        idempotency_key=request.idempotency_key,
        run_id=request.coalesce_into,
        new_message_ids=message_ids[:1] if joins else message_ids,
        new_run_id=None if joins else request.run_id,
    )
