"""What a caller gets for an operation; values, not exceptions: losing a race is no mistake."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from stitchkit_django.core import values
from stitchkit_django.core.checked import (
    Record,
    check,
    check_is,
    check_member,
    check_tuple,
    check_type,
)
from stitchkit_django.core.records import Message, PendingAssistant, Run


class ConflictReason(StrEnum):
    """What had changed; where several have, the first of this order is told."""

    VERSION = "version"
    REVISION = "revision"
    STATE = "state"
    OWNER = "owner"
    FENCE = "fence"
    QUEUE = "queue"
    LEASE = "lease"


class Applied(Record, frozen=True, kw_only=True, tag_field="outcome", tag="applied"):
    """The operation was written."""

    outcome: ClassVar[Literal["applied"]] = "applied"
    version: int
    """The head's, that the operation wrote."""
    run: Run | None = None
    """As written."""
    summary: Message | None = None
    """Of a compaction."""
    input: Message | None = None
    """Of an admission: the canonical message."""
    pending: PendingAssistant | None = None
    """Of an admission."""

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.count, "version")
        check_type(self, Run, "run")
        check_type(self, Message, "summary", "input")
        check_type(self, PendingAssistant, "pending")


class Duplicate(Record, frozen=True, kw_only=True, tag_field="outcome", tag="duplicate"):
    """The key was known: nothing was written, and this is what the first admission became."""

    outcome: ClassVar[Literal["duplicate"]] = "duplicate"
    version: int
    input: Message
    """The canonical message, as first admitted."""
    run: Run
    """The run that answers; of an absorbed one the run that absorbed it."""
    assistant: Message | None = None
    """The retained answer, once the run has ended."""
    pending: PendingAssistant | None = None
    """While the run is active."""
    same_input: bool
    """False when this request's parts or metadata differ from the canonical message's."""

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.count, "version")
        check_is(self, Message, "input")
        check_is(self, Run, "run")
        check_type(self, Message, "assistant")
        check_type(self, PendingAssistant, "pending")
        check(self, values.flag, "same_input")


class Conflict(Record, frozen=True, kw_only=True, tag_field="outcome", tag="conflict"):
    """Something had moved: nothing was written."""

    outcome: ClassVar[Literal["conflict"]] = "conflict"
    reason: ConflictReason
    version: int
    run: Run | None = None
    """As it is."""
    runs: tuple[Run, ...] = ()
    """Of a purge: the active runs that stand in its way."""

    def __post_init__(self) -> None:
        """Check each field."""
        check_member(self, ConflictReason, "reason")
        check(self, values.count, "version")
        check_type(self, Run, "run")
        check_tuple(self, Run, "runs")


class NotFound(Record, frozen=True, kw_only=True, tag_field="outcome", tag="not_found"):
    """What was named doesn't exist in the conversation: nothing was written."""

    outcome: ClassVar[Literal["not_found"]] = "not_found"


Outcome: TypeAlias = Applied | Duplicate | Conflict | NotFound
