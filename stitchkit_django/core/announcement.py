"""Which event a write set is told as; no publishing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core.driver import InsertMessage, ReplaceRange, UpdateMessage
from stitchkit_django.core.events import (
    AssistantCheckpointed,
    Event,
    HistoryCompacted,
    InputAdmitted,
    RunChanged,
    RunEnded,
    event_id,
)
from stitchkit_django.core.records import pending_assistant

if TYPE_CHECKING:
    from stitchkit_django.core.driver import WriteSet
    from stitchkit_django.core.records import Run


def event_of(changes: WriteSet) -> Event | None:
    """Give the event that a write set is told as; None for a purge, of which none is told."""
    conversation_id, version = changes.head.conversation_id, changes.head.version
    for mutation in changes.history:
        if isinstance(mutation, ReplaceRange):
            return HistoryCompacted(
                id=event_id(HistoryCompacted, conversation_id, version),
                conversation_id=conversation_id,
                version=version,
                summary=mutation.summary,
                replaced_ids=mutation.replaced_ids,
            )
    return _run_event(changes, changes.runs[0].run) if changes.runs else None


def _run_event(changes: WriteSet, run: Run) -> Event:
    where, version = run.conversation_id, changes.head.version
    if changes.receipt is not None:
        return InputAdmitted(
            id=event_id(InputAdmitted, where, version, run),
            conversation_id=where,
            version=version,
            input=changes.receipt.input,
            run=run,
            pending=pending_assistant(run),
        )
    if changes.runs[0].answer is not None:
        return RunEnded(
            id=event_id(RunEnded, where, version, run),
            conversation_id=where,
            version=version,
            run=run,
            message=changes.runs[0].answer,
            absorbed=tuple(write.run for write in changes.runs[1:]),
        )
    written = [one for one in changes.history if isinstance(one, InsertMessage | UpdateMessage)]
    if written:
        return AssistantCheckpointed(
            id=event_id(AssistantCheckpointed, where, version, run),
            conversation_id=where,
            version=version,
            run=run,
            message=written[0].message,
        )
    return RunChanged(
        id=event_id(RunChanged, where, version, run),
        conversation_id=where,
        version=version,
        run=run,
    )
