"""Which rows each operation decides from; no decision."""

from __future__ import annotations

from typing import assert_never

from stitchkit_django.core.driver import AssistantWanted, ReadSet
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
            return _run_facts(request, None, first_active=True)
        case CheckpointRun():
            return _run_facts(request, AssistantWanted.OUTLINE)
        case RequestInterrupt():
            return _run_facts(request, None)
        case CancelRun() | RecoverRun():
            return _run_facts(request, AssistantWanted.WHOLE)
        case CommitTerminal():
            others = tuple(dict.fromkeys(one.run_id for one in request.absorb))
            return _run_facts(request, AssistantWanted.OUTLINE, other_run_ids=others)
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


def _run_facts(
    request: AcquireRun
    | CheckpointRun
    | RequestInterrupt
    | CancelRun
    | RecoverRun
    | CommitTerminal,
    assistant: AssistantWanted | None,
    *,
    first_active: bool = False,
    other_run_ids: tuple[str, ...] = (),
) -> ReadSet:
    return ReadSet(
        conversation_id=request.conversation_id,
        run_id=request.run_id,
        assistant=assistant,
        first_active=first_active,
        other_run_ids=other_run_ids,
    )
