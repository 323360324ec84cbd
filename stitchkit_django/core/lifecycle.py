"""States, reasons and statuses, and which operation is legal in which state, as data alone."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class RunState(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    INTERRUPT_REQUESTED = "interrupt_requested"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    FAILED = "failed"
    ABANDONED = "abandoned"


class TerminalReason(StrEnum):
    """Why a run ended."""

    SUCCESS = "success"
    POLICY_STOP = "policy_stop"
    PROVIDER_STOP = "provider_stop"
    INTERRUPTED = "interrupted"
    SUPERSEDED = "superseded"
    ABSORBED = "absorbed"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    TIMEOUT = "timeout"
    PROVIDER_FAILURE = "provider_failure"
    CONTEXT_OVERFLOW = "context_overflow"
    ABANDONED = "abandoned"


class MessageRole(StrEnum):
    """Who speaks in a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    SUMMARY = "summary"


class MessageStatus(StrEnum):
    """How far a message has come; all but `committed` belong to assistant messages."""

    COMMITTED = "committed"
    STREAMING = "streaming"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    SUPERSEDED = "superseded"
    FAILED = "failed"


class RecoveryAction(StrEnum):
    """What recovery does with a run whose owner is gone."""

    REQUEUE = "requeue"
    ABANDON = "abandon"


class Operation(StrEnum):
    """What can be asked of a run that exists."""

    JOIN = "join"
    ACQUIRE = "acquire"
    CHECKPOINT = "checkpoint"
    RENEW = "renew"
    INTERRUPT = "interrupt"
    CANCEL = "cancel"
    REQUEUE = "requeue"
    ABANDON = "abandon"
    END = "end"
    ABSORB = "absorb"


class Ending(NamedTuple):
    """What a terminal reason makes of a run and of its assistant message."""

    state: RunState
    status: MessageStatus | None
    """Of the assistant message; None where the run has none of its own."""


ACQUIRED_STATES: Final = frozenset({RunState.RUNNING, RunState.INTERRUPT_REQUESTED})
ACTIVE_STATES: Final = ACQUIRED_STATES | {RunState.QUEUED}
TERMINAL_STATES: Final = frozenset(RunState) - ACTIVE_STATES

ENDINGS: Final[Mapping[TerminalReason, Ending]] = MappingProxyType(
    {
        TerminalReason.SUCCESS: Ending(RunState.COMPLETED, MessageStatus.COMPLETED),
        TerminalReason.POLICY_STOP: Ending(RunState.COMPLETED, MessageStatus.COMPLETED),
        TerminalReason.PROVIDER_STOP: Ending(RunState.COMPLETED, MessageStatus.COMPLETED),
        TerminalReason.INTERRUPTED: Ending(RunState.INTERRUPTED, MessageStatus.INTERRUPTED),
        TerminalReason.SUPERSEDED: Ending(RunState.SUPERSEDED, MessageStatus.SUPERSEDED),
        TerminalReason.ABSORBED: Ending(RunState.SUPERSEDED, None),
        TerminalReason.CANCELLED: Ending(RunState.CANCELLED, MessageStatus.INTERRUPTED),
        TerminalReason.SHUTDOWN: Ending(RunState.CANCELLED, MessageStatus.INTERRUPTED),
        TerminalReason.TIMEOUT: Ending(RunState.CANCELLED, MessageStatus.FAILED),
        TerminalReason.PROVIDER_FAILURE: Ending(RunState.FAILED, MessageStatus.FAILED),
        TerminalReason.CONTEXT_OVERFLOW: Ending(RunState.FAILED, MessageStatus.FAILED),
        TerminalReason.ABANDONED: Ending(RunState.ABANDONED, MessageStatus.FAILED),
    }
)

# Written as a side effect or by recovery, never asked for by a run's owner.
RESERVED_REASONS: Final = frozenset({TerminalReason.ABSORBED, TerminalReason.ABANDONED})

# (state, operation) -> state after it; None: the one that the reason of the end says (`ENDINGS`).
# A pair that is absent is a conflict.
TRANSITIONS: Final[Mapping[tuple[RunState, Operation], RunState | None]] = MappingProxyType(
    {
        (RunState.QUEUED, Operation.JOIN): RunState.QUEUED,
        (RunState.QUEUED, Operation.ACQUIRE): RunState.RUNNING,
        (RunState.QUEUED, Operation.CANCEL): RunState.CANCELLED,
        (RunState.QUEUED, Operation.ABSORB): RunState.SUPERSEDED,
        (RunState.QUEUED, Operation.REQUEUE): RunState.QUEUED,
        (RunState.QUEUED, Operation.ABANDON): RunState.ABANDONED,
        (RunState.RUNNING, Operation.CHECKPOINT): RunState.RUNNING,
        (RunState.RUNNING, Operation.RENEW): RunState.RUNNING,
        (RunState.RUNNING, Operation.INTERRUPT): RunState.INTERRUPT_REQUESTED,
        (RunState.RUNNING, Operation.END): None,
        (RunState.RUNNING, Operation.REQUEUE): RunState.QUEUED,
        (RunState.RUNNING, Operation.ABANDON): RunState.ABANDONED,
        (RunState.INTERRUPT_REQUESTED, Operation.RENEW): RunState.INTERRUPT_REQUESTED,
        (RunState.INTERRUPT_REQUESTED, Operation.END): None,
        (RunState.INTERRUPT_REQUESTED, Operation.REQUEUE): RunState.QUEUED,
        (RunState.INTERRUPT_REQUESTED, Operation.ABANDON): RunState.ABANDONED,
    }
)
