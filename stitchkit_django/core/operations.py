"""What can be asked of a store: one frozen request for each operation, checked before any SQL."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypeAlias

from stitchkit_django.core import values
from stitchkit_django.core.checked import Record, check, check_member, check_type, set_field
from stitchkit_django.core.errors import (
    IdentityTakenError,
    InvalidCompactionError,
    InvalidValueError,
    shown,
)
from stitchkit_django.core.lifecycle import (
    RESERVED_REASONS,
    MessageRole,
    RecoveryAction,
    TerminalReason,
)
from stitchkit_django.core.parts import Part, message_parts, owned_parts
from stitchkit_django.core.records import MAX_DETAIL_CHARACTERS
from stitchkit_django.core.usage import Usage
from stitchkit_django.core.values import JSONValue

MAX_LEASE: Final = timedelta(days=36_500)
"""A longer one would end after the last moment that a database can hold."""


class Absorption(Record, frozen=True, kw_only=True):
    """A queued run to take in: only if it still has exactly these inputs."""

    run_id: str
    input_message_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "run_id")
        check(self, values.identifiers, "input_message_ids")


class AcceptInput(Record, frozen=True, kw_only=True):
    """Admit an input under a key: once, however often it is sent."""

    conversation_id: str
    idempotency_key: str
    parts: tuple[Part, ...]
    metadata: dict[str, JSONValue] | None
    input_message_id: str
    run_id: str
    assistant_message_id: str
    coalesce_into: str | None
    """The queued run to join; then neither `run_id` nor `assistant_message_id` is used."""
    expected_version: int | None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id", "idempotency_key")
        check(self, values.identifier, "input_message_id", "run_id", "assistant_message_id")
        check(self, values.optional_identifier, "coalesce_into")
        check(self, values.optional_count, "expected_version")
        set_field(self, "parts", owned_parts(message_parts(MessageRole.USER, self.parts)))
        check(self, values.json_object, "metadata")
        if self.coalesce_into is None:
            self._check_distinct()

    def _check_distinct(self) -> None:
        given = (self.input_message_id, self.assistant_message_id, self.run_id)
        for index, one in enumerate(given):
            if one in given[:index]:
                raise IdentityTakenError(self.conversation_id, one)


class AcquireRun(Record, frozen=True, kw_only=True):
    """Take a queued run to work on it."""

    conversation_id: str
    run_id: str
    expected_revision: int
    owner_id: str
    lease: timedelta | None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id", "run_id", "owner_id")
        check(self, values.count, "expected_revision")
        check(self, _lease, "lease")


class CheckpointRun(Record, frozen=True, kw_only=True):
    """Keep what a run has answered so far."""

    conversation_id: str
    run_id: str
    expected_revision: int
    owner_id: str
    fencing_token: int | None
    parts: tuple[Part, ...]
    metadata: dict[str, JSONValue] | None
    usage: Usage | None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id", "run_id", "owner_id")
        check(self, values.count, "expected_revision")
        check(self, values.optional_ordinal, "fencing_token")
        _check_answer(self)


class RenewLease(Record, frozen=True, kw_only=True):
    """Say that the owner still lives."""

    conversation_id: str
    run_id: str
    owner_id: str
    fencing_token: int
    lease: timedelta | None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id", "run_id", "owner_id")
        check(self, values.ordinal, "fencing_token")
        check(self, _lease, "lease")


class RequestInterrupt(Record, frozen=True, kw_only=True):
    """Ask the owner of a run to stop."""

    conversation_id: str
    run_id: str
    expected_revision: int | None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id", "run_id")
        check(self, values.optional_count, "expected_revision")


class CancelRun(Record, frozen=True, kw_only=True):
    """End a run that nobody has taken yet."""

    conversation_id: str
    run_id: str
    expected_revision: int | None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id", "run_id")
        check(self, values.optional_count, "expected_revision")


class RecoverRun(Record, frozen=True, kw_only=True):
    """Settle a run whose owner is gone."""

    conversation_id: str
    run_id: str
    expected_revision: int
    action: RecoveryAction
    replay_safe: bool
    require_expired_lease: bool
    detail: str | None
    """Of an abandoned run."""

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id", "run_id")
        check(self, values.count, "expected_revision")
        check_member(self, RecoveryAction, "action")
        check(self, values.flag, "replay_safe", "require_expired_lease")
        check(self, _detail, "detail")


class CommitTerminal(Record, frozen=True, kw_only=True):
    """End a run with its answer."""

    conversation_id: str
    run_id: str
    expected_revision: int
    owner_id: str
    fencing_token: int | None
    parts: tuple[Part, ...]
    reason: TerminalReason
    metadata: dict[str, JSONValue] | None
    policy_name: str | None
    detail: str | None
    usage: Usage | None
    absorb: tuple[Absorption, ...]

    def __post_init__(self) -> None:
        """Check each field, and that reason and policy agree."""
        check(self, values.identifier, "conversation_id", "run_id", "owner_id")
        check(self, values.count, "expected_revision")
        check(self, values.optional_ordinal, "fencing_token")
        check_member(self, TerminalReason, "reason")
        check(self, values.optional_identifier, "policy_name")
        check(self, _detail, "detail")
        check(self, absorptions, "absorb")
        _check_answer(self)
        if self.reason in RESERVED_REASONS:
            raise InvalidValueError("$.reason", f"{self.reason} can't be asked for")
        if (self.policy_name is None) is (self.reason is TerminalReason.POLICY_STOP):
            reason = f"is {shown(self.policy_name)} with {self.reason}: give it with policy_stop"
            raise InvalidValueError("$.policy_name", f"{reason}, and only then")


class CompactHistory(Record, frozen=True, kw_only=True):
    """Let a summary stand for a range of messages."""

    conversation_id: str
    expected_version: int
    message_ids: tuple[str, ...]
    """Of the whole range, in any order."""
    summary_parts: tuple[Part, ...]
    summary_id: str
    archive: bool
    """Keep the replaced messages as archived ones; else they are deleted."""

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id", "summary_id")
        check(self, values.count, "expected_version")
        check(self, values.identifiers, "message_ids")
        parts = owned_parts(message_parts(MessageRole.SUMMARY, self.summary_parts))
        set_field(self, "summary_parts", parts)
        if not self.message_ids:
            raise InvalidCompactionError(self.message_ids, "name the messages to replace")
        if len(set(self.message_ids)) != len(self.message_ids):
            raise InvalidCompactionError(self.message_ids, "one is named twice")


class PurgeConversation(Record, frozen=True, kw_only=True):
    """Delete all that a conversation holds, and reserve its id for good."""

    conversation_id: str
    expected_version: int | None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "conversation_id")
        check(self, values.optional_count, "expected_version")


Mutation: TypeAlias = (
    AcceptInput
    | AcquireRun
    | CheckpointRun
    | RequestInterrupt
    | CancelRun
    | RecoverRun
    | CommitTerminal
    | CompactHistory
    | PurgeConversation
)
"""What is decided under the head's lock; a lease renewal is the one operation beside it."""


def lease_seconds(lease: timedelta) -> float:
    """Give a lease as the number of seconds that a run carries."""
    return lease / timedelta(seconds=1)


def absorptions(name: str, value: object) -> tuple[Absorption, ...]:
    """Check a sequence of absorptions and give it as a tuple.

    Raises:
        InvalidValueError: not a tuple or list of `Absorption`.
    """
    if not isinstance(value, tuple | list) or not all(isinstance(one, Absorption) for one in value):
        raise InvalidValueError(f"$.{name}", f"{shown(value)} is not a sequence of Absorption")
    return tuple(value)


def _check_answer(request: CheckpointRun | CommitTerminal) -> None:
    parts = owned_parts(message_parts(MessageRole.ASSISTANT, request.parts))
    set_field(request, "parts", parts)
    check(request, values.json_object, "metadata")
    check_type(request, Usage, "usage")


def _lease(name: str, value: object) -> timedelta | None:
    if value is None:
        return None
    if not isinstance(value, timedelta) or value <= timedelta():
        reason = f"{shown(value)} is not a positive timedelta (or None: no lease)"
        raise InvalidValueError(f"$.{name}", reason)
    if value > MAX_LEASE:
        raise InvalidValueError(f"$.{name}", f"{value} is over {MAX_LEASE}")
    return value


def _detail(name: str, value: object) -> str | None:
    checked = values.optional_text(name, value)
    return None if checked is None else checked[:MAX_DETAIL_CHARACTERS]
