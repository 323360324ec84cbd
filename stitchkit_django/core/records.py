"""What is kept: head, run, receipt, message and what reads give of them; each checks itself.

A record that contradicts itself can't be built. Records are never changed: a changed one is a new
one (`msgspec.structs.replace`). Moments are aware and in UTC. Fields in brackets in the contract
default to None here. What is not here: places (turn and slot) of messages, which are storage, and
the schema version, which the wire adds.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final, Literal

from stitchkit_django.core import values
from stitchkit_django.core.checked import (
    Record,
    check,
    check_is,
    check_member,
    check_tuple,
    check_type,
    set_field,
    unpaired,
)
from stitchkit_django.core.errors import InvalidValueError, shown
from stitchkit_django.core.lifecycle import (
    ACQUIRED_STATES,
    ENDINGS,
    TERMINAL_STATES,
    MessageRole,
    MessageStatus,
    RunState,
    TerminalReason,
)
from stitchkit_django.core.parts import Part, TextPart, message_parts
from stitchkit_django.core.usage import Usage

# Of every record on the wire, and of every row.
SCHEMA_VERSION: Final = 1
MAX_DETAIL_CHARACTERS: Final = 4_096
# Looked up once: of an enum's class it takes longer than the comparison.
_ASSISTANT: Final = MessageRole.ASSISTANT
_COMMITTED: Final = MessageStatus.COMMITTED
_POLICY_STOP: Final = TerminalReason.POLICY_STOP
_ABSORBED: Final = TerminalReason.ABSORBED
_OWNERLESS_STATES: Final = frozenset({RunState.QUEUED, RunState.ABANDONED})


class Document(Record, frozen=True, kw_only=True, tag_field="schemaVersion", tag=SCHEMA_VERSION):
    """A record that carries its schema version on the wire."""


class Head(Document, frozen=True, kw_only=True):
    """What a conversation is as a whole; of constant size, and its version orders all writes."""

    conversation_id: str
    version: int
    """How many writes there have been; 0: nobody has written."""
    updated_at: datetime
    """The latest moment that any row of the conversation carries."""
    purged_at: datetime | None = None
    """Set once the conversation is purged; its id stays reserved."""

    def __post_init__(self) -> None:
        """Check each field."""
        # As of a message, one look at what nearly every head is.
        if self.purged_at is None and (
            values.are_plain(self.conversation_id)
            and values.are_counts(self.version)
            and values.are_utc(self.updated_at)
        ):
            return
        check(self, values.identifier, "conversation_id")
        check(self, values.count, "version")
        check(self, values.moment, "updated_at")
        check(self, values.optional_moment, "purged_at")


class Message(Document, frozen=True, kw_only=True):
    """A message of a conversation's history."""

    id: str
    conversation_id: str
    run_id: str | None = None
    """Of the run whose answer it is; set exactly on assistant messages."""
    role: MessageRole
    status: MessageStatus
    parts: tuple[Part, ...]
    metadata: dict[str, values.JSONValue] | None = None
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        """Check each field, and that role, status, parts and run agree."""
        if not self._is_ordinary():
            self._check_fields()
        elif not _is_one_text(self.parts):
            set_field(self, "parts", message_parts(self.role, self.parts))

    def _is_ordinary(self) -> bool:
        # One look for what nearly every message is: a long conversation holds thousands.
        identity, role, status, run_id = self.id, self.role, self.status, self.run_id
        assistant = role is _ASSISTANT
        return (
            type(role) is MessageRole
            and type(status) is MessageStatus
            and assistant is (status is not _COMMITTED)
            and assistant is (run_id is not None)
            and self.metadata is None
            and values.are_plain(
                identity, self.conversation_id, identity if run_id is None else run_id
            )
            and values.are_utc(self.created_at, self.updated_at)
            and self.updated_at >= self.created_at
        )

    def _check_fields(self) -> None:
        check(self, values.identifier, "id", "conversation_id")
        check(self, values.optional_identifier, "run_id")
        check_member(self, MessageRole, "role")
        check_member(self, MessageStatus, "status")
        check(self, values.json_object, "metadata")
        check(self, values.moment, "created_at", "updated_at")
        set_field(self, "parts", message_parts(self.role, self.parts))
        assistant = self.role is _ASSISTANT
        if assistant is (self.status is _COMMITTED):
            reason = f"{self.status} is not a status of role {self.role}"
            raise InvalidValueError("$.status", reason)
        if assistant is (self.run_id is None):
            reason = "must be set exactly on an assistant message"
            raise InvalidValueError("$.run_id", reason)
        _not_before(self, "updated_at", self.created_at)


class Run(Document, frozen=True, kw_only=True):
    """One answer in the making: from the input that asks for it to its one end."""

    id: str
    conversation_id: str
    turn: int
    """The head version that its admission wrote: its place in the queue."""
    input_message_ids: tuple[str, ...]
    """One or more, in the order they joined."""
    assistant_message_id: str
    """Reserved at admission; no message until the run's first checkpoint or its end."""
    state: RunState
    revision: int
    """How often the run was written under the head's lock; 0 as admitted."""
    owner_id: str | None = None
    """Set while acquired; stays on a run that its owner ended."""
    fencing_token: int | None = None
    """None until first acquired, then 1, 2 …: also the number of attempts."""
    lease_seconds: float | None = None
    """Set exactly while there is a lease; seconds."""
    lease_expires_at: datetime | None = None
    """When another worker may take the run; set exactly while there is a lease."""
    terminal_reason: TerminalReason | None = None
    """Set exactly on a run that has ended."""
    terminal_policy_name: str | None = None
    """Set exactly when the reason is `policy_stop`."""
    terminal_detail: str | None = None
    """For people; at most 4,096 characters."""
    absorbed_into_run_id: str | None = None
    """Set exactly when the reason is `absorbed`: the run that answered instead."""
    usage: Usage | None = None
    created_at: datetime
    updated_at: datetime
    acquired_at: datetime | None = None
    """The latest acquisition; set exactly when there is a fencing token."""
    ended_at: datetime | None = None
    """Set exactly on a run that has ended."""

    def __post_init__(self) -> None:
        """Check each field, and that state, owner, lease and end agree."""
        if not self._is_ordinary():
            self._check_fields()
        _check_ownership(self)
        _check_end(self)

    def _is_ordinary(self) -> bool:
        # As of a message: one look for what nearly every run is.
        identity, start, fence, inputs = (
            self.id,
            self.created_at,
            self.fencing_token,
            self.input_message_ids,
        )
        acquired, ended, lapses = self.acquired_at, self.ended_at, self.lease_expires_at
        return (
            type(inputs) is tuple
            and len(inputs) == 1
            and values.are_plain(
                identity,
                self.conversation_id,
                self.assistant_message_id,
                inputs[0],
                identity if self.owner_id is None else self.owner_id,
            )
            and self.terminal_policy_name is None
            and self.terminal_detail is None
            and self.absorbed_into_run_id is None
            and type(self.state) is RunState
            and values.are_counts(self.turn, self.revision, 1 if fence is None else fence)
            and self.turn != 0
            and fence != 0
            and (self.usage is None or type(self.usage) is Usage)
            and values.are_utc(
                start,
                self.updated_at,
                start if acquired is None else acquired,
                start if ended is None else ended,
                start if lapses is None else lapses,
            )
            and self.updated_at >= start
            and (ended is None or ended >= start)
        )

    def _check_fields(self) -> None:
        check(self, values.identifier, "id", "conversation_id", "assistant_message_id")
        optional = ("owner_id", "terminal_policy_name", "absorbed_into_run_id")
        check(self, values.optional_identifier, *optional)
        check(self, values.identifiers, "input_message_ids")
        check_member(self, RunState, "state")
        check(self, values.ordinal, "turn")
        check(self, values.count, "revision")
        check(self, values.optional_ordinal, "fencing_token")
        check(self, values.moment, "created_at", "updated_at")
        check(self, values.optional_moment, "acquired_at", "ended_at", "lease_expires_at")
        check(self, values.optional_text, "terminal_detail")
        check_type(self, Usage, "usage")
        _check_inputs(self)
        _not_before(self, "updated_at", self.created_at)
        _not_before(self, "ended_at", self.created_at)

    @property
    def is_active(self) -> bool:
        """Whether the run has not ended."""
        return self.state not in TERMINAL_STATES

    @property
    def is_acquired(self) -> bool:
        """Whether a worker owns the run now."""
        return self.state in ACQUIRED_STATES


class StoredRun(Document, frozen=True, kw_only=True):
    """A run with the answer that is retained with it."""

    run: Run
    terminal_assistant: Message | None = None
    """Set exactly on an ended run that was not absorbed."""

    def __post_init__(self) -> None:
        """Check that the answer is this run's, and there exactly when it must be."""
        check_is(self, Run, "run")
        check_type(self, Message, "terminal_assistant")
        _check_answer("terminal_assistant", self.run, self.terminal_assistant)


class AdmissionReceipt(Document, frozen=True, kw_only=True):
    """The proof that an input was accepted, one for each key; never changed."""

    conversation_id: str
    idempotency_key: str
    input: Message
    """The canonical message, as it was admitted."""
    run_id: str
    assistant_message_id: str
    created_at: datetime

    def __post_init__(self) -> None:
        """Check each field, and that the input is an admitted one."""
        check(self, values.identifier, "conversation_id", "idempotency_key")
        check(self, values.identifier, "run_id", "assistant_message_id")
        check(self, values.moment, "created_at")
        check_is(self, Message, "input")
        where = (self.input.role, self.input.conversation_id)
        if where != (MessageRole.USER, self.conversation_id):
            raise InvalidValueError("$.input", "is not a user message of the conversation")


class PendingAssistant(Document, frozen=True, kw_only=True, omit_defaults=False):
    """What a user interface shows until the answer comes; a projection, never in history."""

    id: str
    """That the answer will have."""
    conversation_id: str
    run_id: str
    created_at: datetime
    status: Literal["pending"] = "pending"

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.identifier, "id", "conversation_id", "run_id")
        check(self, values.moment, "created_at")
        if self.status != "pending":
            raise InvalidValueError("$.status", f"{shown(self.status)} is not pending")


class Snapshot(Document, frozen=True, kw_only=True):
    """A whole conversation as of one version."""

    conversation_id: str
    version: int
    messages: tuple[Message, ...] = ()
    """Active history in causal order: inputs, their answer, the next turn's inputs."""
    turns: tuple[int, ...] = ()
    """Of each message; the same length."""
    runs: tuple[Run, ...] = ()
    """By turn: active ones, and those that an active assistant message names."""

    def __post_init__(self) -> None:
        """Check each field, and that each message has its turn."""
        check(self, values.identifier, "conversation_id")
        check(self, values.count, "version")
        check_tuple(self, Message, "messages")
        check_tuple(self, int, "turns")
        check_tuple(self, Run, "runs")
        if len(self.turns) != len(self.messages):
            reason = f"{len(self.turns)} turns for {len(self.messages)} messages"
            raise InvalidValueError("$.turns", reason)
        if list(self.turns) != sorted(self.turns):
            raise InvalidValueError("$.turns", "a later message has an earlier turn")
        owners = {message.conversation_id for message in self.messages}
        owners.update(run.conversation_id for run in self.runs)
        if not owners <= {self.conversation_id}:
            reason = f"holds messages or runs of {shown(sorted(owners))}"
            raise InvalidValueError("$.conversation_id", reason)


class RunView(Document, frozen=True, kw_only=True):
    """A run, read without its conversation."""

    snapshot_version: int
    """The head's, as of the same moment."""
    run: Run
    assistant: Message | None = None
    """The answer, once the run has ended with one."""

    def __post_init__(self) -> None:
        """Check each field, and that the answer is the run's."""
        check(self, values.count, "snapshot_version")
        check_is(self, Run, "run")
        check_type(self, Message, "assistant")
        _check_answer("assistant", self.run, self.assistant)


class HistoryPage(Document, frozen=True, kw_only=True):
    """A page of a conversation's active history."""

    version: int
    messages: tuple[Message, ...] = ()
    """Oldest first."""
    before: str | None = None
    """Pass it for the older page; None at the beginning of the conversation."""

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.count, "version")
        check_tuple(self, Message, "messages")
        check(self, values.optional_text, "before")


class RecoverablePage(Document, frozen=True, kw_only=True):
    """A page of the active runs of all conversations."""

    moment: datetime
    """The database's, to judge leases and ages by."""
    items: tuple[Run, ...] = ()
    next_cursor: str | None = None
    """Pass it for the next page; None at the end."""

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.moment, "moment")
        check_tuple(self, Run, "items")
        check(self, values.optional_text, "next_cursor")


def pending_assistant(run: Run) -> PendingAssistant:
    """Project the answer that an active run will give."""
    return PendingAssistant(
        id=run.assistant_message_id,
        conversation_id=run.conversation_id,
        run_id=run.id,
        created_at=run.created_at,
    )


def is_lapsed(run: Run, moment: datetime) -> bool:
    """Tell whether a run has a lease, and it is over."""
    return run.lease_expires_at is not None and run.lease_expires_at <= moment


def _is_one_text(parts: object) -> bool:
    # As the parts of most messages; a text is allowed in each.
    return type(parts) is tuple and len(parts) == 1 and type(parts[0]) is TextPart


def _not_before(record: Record, field: str, earliest: datetime) -> None:
    value = getattr(record, field)
    if value is not None and value < earliest:
        raise InvalidValueError(f"$.{field}", f"{value} is before created_at {earliest}")


def _check_answer(field: str, run: Run, answer: Message | None) -> None:
    expected = None if run.terminal_reason is None else ENDINGS[run.terminal_reason].status
    status = None if answer is None else answer.status
    if status is not expected:
        reason = f"status {status}, where a run of state {run.state} has {expected}"
        raise InvalidValueError(f"$.{field}", reason)
    if answer is not None and (answer.run_id, answer.id, answer.conversation_id) != (
        run.id,
        run.assistant_message_id,
        run.conversation_id,
    ):
        reason = f"message {shown(answer.id)} is not the answer of run {shown(run.id)}"
        raise InvalidValueError(f"$.{field}", reason)


def _check_inputs(run: Run) -> None:
    if not run.input_message_ids:
        raise InvalidValueError("$.input_message_ids", "is empty: a run answers some input")
    if len(run.input_message_ids) > 1 and len({*run.input_message_ids}) < len(
        run.input_message_ids
    ):
        raise InvalidValueError("$.input_message_ids", "names an input twice")


def _check_ownership(run: Run) -> None:
    state, owned, fenced = run.state, run.owner_id is not None, run.fencing_token is not None
    acquired = state in ACQUIRED_STATES
    if owned and (state in _OWNERLESS_STATES or run.terminal_reason is _ABSORBED):
        raise InvalidValueError("$.owner_id", f"a run of state {state} has no owner")
    if acquired and not owned:
        raise InvalidValueError("$.owner_id", f"a run of state {state} needs its owner")
    if acquired and not fenced:
        raise InvalidValueError("$.fencing_token", f"a run of state {state} needs its fence")
    if (run.acquired_at is not None) is not fenced:
        raise unpaired(run, "acquired_at", "when there is a fencing token")
    leased = run.lease_expires_at is not None
    if (run.lease_seconds is not None) is not leased:
        raise unpaired(run, "lease_seconds", "when the lease has an end")
    if leased and not acquired:
        raise InvalidValueError("$.lease_expires_at", f"a run of state {state} has no lease")
    if leased and not _is_duration(run.lease_seconds):
        reason = f"{shown(run.lease_seconds)} is not a positive number of seconds"
        raise InvalidValueError("$.lease_seconds", reason)


def _is_duration(seconds: object) -> bool:
    return type(seconds) in (int, float) and 0 < seconds < math.inf  # type: ignore[operator]


def _check_end(run: Run) -> None:
    ended = run.state in TERMINAL_STATES
    if (run.terminal_reason is not None) is not ended:
        raise unpaired(run, "terminal_reason", "on a run that has ended")
    if (run.ended_at is not None) is not ended:
        raise unpaired(run, "ended_at", "on a run that has ended")
    if run.terminal_reason is not None:
        check_member(run, TerminalReason, "terminal_reason")
        state = ENDINGS[run.terminal_reason].state
        if state is not run.state:
            told = f"reason {run.terminal_reason} ends a run in state {state}, not {run.state}"
            raise InvalidValueError("$.state", told)
    reason = run.terminal_reason
    if (run.terminal_policy_name is not None) is not (reason is _POLICY_STOP):
        raise unpaired(run, "terminal_policy_name", "with the reason policy_stop")
    if (run.absorbed_into_run_id is not None) is not (reason is _ABSORBED):
        raise unpaired(run, "absorbed_into_run_id", "with the reason absorbed")
    if run.absorbed_into_run_id == run.id:
        raise InvalidValueError("$.absorbed_into_run_id", "names the run itself")
    if run.terminal_detail is not None:
        _check_detail(run, run.terminal_detail)


def _check_detail(run: Run, detail: str) -> None:
    if run.is_active:
        raise InvalidValueError("$.terminal_detail", "is set on a run that has not ended")
    if len(detail) > MAX_DETAIL_CHARACTERS:
        told = f"has {len(detail)} characters: at most {MAX_DETAIL_CHARACTERS}"
        raise InvalidValueError("$.terminal_detail", told)
