"""What is told after a commit, so that whoever wants to know need not read again."""

from __future__ import annotations

from typing import TypeAlias
from urllib.parse import quote

from stitchkit_django.core.checked import Record
from stitchkit_django.core.records import Message, PendingAssistant, Run


class _Event(Record, frozen=True, kw_only=True, tag_field="type"):
    id: str
    """The same however often the event is told: a consumer drops repeats by it."""
    conversation_id: str
    version: int
    """The head's, that the operation wrote; events of a conversation are ordered by it."""


class InputAdmitted(_Event, frozen=True, kw_only=True, tag="input-admitted"):
    """An input was accepted; its run is queued."""

    input: Message
    run: Run
    pending: PendingAssistant


class RunChanged(_Event, frozen=True, kw_only=True, tag="run-changed"):
    """A run was acquired, asked to stop, or queued again."""

    run: Run


class AssistantCheckpointed(_Event, frozen=True, kw_only=True, tag="assistant-checkpointed"):
    """What a run has answered so far was kept."""

    run: Run
    message: Message


class RunEnded(_Event, frozen=True, kw_only=True, tag="run-ended"):
    """A run has ended with its answer."""

    run: Run
    message: Message
    absorbed: tuple[Run, ...] = ()
    """The runs that ended with it, because its answer is theirs too."""


class HistoryCompacted(_Event, frozen=True, kw_only=True, tag="history-compacted"):
    """A summary stands for a range of messages."""

    summary: Message
    replaced_ids: tuple[str, ...]
    """Of the messages, in causal order."""


Event: TypeAlias = InputAdmitted | RunChanged | AssistantCheckpointed | RunEnded | HistoryCompacted


def event_id(kind: type[Event], conversation_id: str, version: int, run: Run | None = None) -> str:
    """Make the id of an event: conversation, run where there is one, type and version."""
    steps = [conversation_id, *([] if run is None else [run.id]), str(kind.__struct_config__.tag)]
    return "/".join([*(quote(step, safe="") for step in steps), str(version)])
