"""The aggregate that kept a conversation's runs and admissions in one value, as rows of today.

It was a state with every run and every admission, beside the messages. Today's records know more;
what the aggregate does not say is made up here, and nowhere else:

- a run's turn and a message's place come from the order of the messages (`core.chronology`);
- a run that had an owner and names no fencing token gets 1, and `acquired_at` is its beginning;
- a run that must have an owner or a policy and names none gets `unknown`;
- `ended_at` is when the run was last updated;
- a receipt's input and an ended run's retained answer are the messages themselves;
- tool calls that an ended run left without a result are closed, as an end does today;
- the version is kept, but is not behind the last turn, nor a revision behind what its run has
  been through.
"""

from __future__ import annotations

from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from msgspec.structs import replace

from stitchkit_django.core import values
from stitchkit_django.core.checked import Record
from stitchkit_django.core.chronology import Asked, Chronology, arrange
from stitchkit_django.core.driver import ConversationRows, PlacedMessage
from stitchkit_django.core.errors import InvalidValueError, StitchkitError, shown
from stitchkit_django.core.integrity.runs import OWNERLESS_REASONS, least_revision
from stitchkit_django.core.lifecycle import ACQUIRED_STATES, RunState, TerminalReason
from stitchkit_django.core.parts import close_calls
from stitchkit_django.core.records import AdmissionReceipt, Head, Message, Run, StoredRun
from stitchkit_django.core.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

UNKNOWN: Final = "unknown"
"""The owner or policy of a run that must have had one and doesn't name it."""
RENAMED_REASONS: Final = MappingProxyType({"tool_failure": TerminalReason.PROVIDER_FAILURE})
"""Terminal reasons that there are no more, and what they became."""


class LegacyRun(Record, frozen=True, kw_only=True):
    """A run as the aggregate has it."""

    id: str
    conversation_id: str
    input_message_ids: tuple[str, ...]
    assistant_message_id: str
    state: RunState
    revision: int
    owner_id: str | None = None
    fencing_token: int | None = None
    terminal_reason: str | None = None
    terminal_policy_name: str | None = None
    absorbed_into_run_id: str | None = None
    usage: Usage | None = None
    created_at: datetime
    updated_at: datetime


class LegacyAdmission(Record, frozen=True, kw_only=True):
    """What the aggregate knows of an admitted input."""

    idempotency_key: str
    input_message_id: str
    run_id: str
    assistant_message_id: str


class LegacyState(Record, frozen=True, kw_only=True):
    """Every run and every admission that a conversation has ever had."""

    schema_version: Literal[1]
    conversation_id: str
    version: int
    runs: tuple[LegacyRun, ...]
    admissions: tuple[LegacyAdmission, ...]


def normalized(state: LegacyState, messages: tuple[Message, ...]) -> ConversationRows:
    """Give the rows that a conversation of the old form has today.

    Args:
        state: the aggregate.
        messages: of the conversation's history, in its order.

    Raises:
        InvalidValueError: something that a row needs is missing, or a value can't be; the path
            names the run, admission or message.
    """
    history = _history(messages)
    reasons = [_reason(run, index) for index, run in enumerate(state.runs)]
    chronology = _chronology(state, reasons, history)
    runs = [
        _within(f"$.state.runs[{index}]", _stored_run, run, reason, chronology, history)
        for index, (run, reason) in enumerate(zip(state.runs, reasons, strict=True))
    ]
    history |= {
        stored.terminal_assistant.id: stored.terminal_assistant
        for stored in runs
        if stored.terminal_assistant is not None
    }
    receipts = [
        _within(f"$.state.admissions[{index}]", _receipt, state, admission, history)
        for index, admission in enumerate(state.admissions)
    ]
    return ConversationRows(
        head=_within("$.state", _head, state, chronology, history, runs),
        runs=tuple(runs),
        receipts=tuple(receipts),
        messages=tuple(
            PlacedMessage(message=message, place=chronology.places[identity])
            for identity, message in history.items()
        ),
    )


def _history(messages: tuple[Message, ...]) -> dict[str, Message]:
    history: dict[str, Message] = {}
    for index, message in enumerate(messages):
        if message.id in history:
            reason = f"{shown(message.id)} is the id of an earlier message, too"
            raise InvalidValueError(f"$.messages[{index}].id", reason)
        history[message.id] = message
    return history


def _reason(run: LegacyRun, index: int) -> TerminalReason | None:
    given = run.terminal_reason
    if given is None:
        return None
    renamed = RENAMED_REASONS.get(given, given)
    return _within(f"$.state.runs[{index}]", _member, renamed)


def _member(reason: str) -> TerminalReason:
    return values.member("terminal_reason", TerminalReason, reason)


def _chronology(
    state: LegacyState, reasons: list[TerminalReason | None], history: Mapping[str, Message]
) -> Chronology:
    positions = {identity: number for number, identity in enumerate(history)}

    def queued_at(pair: tuple[LegacyRun, object]) -> tuple[int, datetime, str]:
        # One whose inputs were all compacted is older than any that has one.
        run = pair[0]
        first = min(
            (positions[one] for one in run.input_message_ids if one in positions), default=-1
        )
        return first, run.created_at, run.id

    in_order = sorted(zip(state.runs, reasons, strict=True), key=queued_at)
    asked = [
        Asked(
            run_id=run.id,
            input_message_ids=run.input_message_ids,
            assistant_message_id=run.assistant_message_id,
            is_active=reason is None,
        )
        for run, reason in in_order
    ]
    return arrange(tuple(history), asked)


def _stored_run(
    legacy: LegacyRun,
    reason: TerminalReason | None,
    chronology: Chronology,
    history: Mapping[str, Message],
) -> StoredRun:
    answer = history.get(legacy.assistant_message_id)
    run = _run(legacy, reason, chronology.turns[legacy.id], has_answered=answer is not None)
    if run.is_active or reason is TerminalReason.ABSORBED:
        return StoredRun(run=run)
    if answer is None:
        told = f"the answer {shown(run.assistant_message_id)} of run {shown(run.id)}, which has "
        raise InvalidValueError("$.assistant_message_id", f"{told}ended, is not among the messages")
    closed = replace(answer, parts=close_calls(answer.parts))
    return StoredRun(run=run, terminal_assistant=closed)


def _run(legacy: LegacyRun, reason: TerminalReason | None, turn: int, *, has_answered: bool) -> Run:
    owner_id = _owner(legacy, reason)
    fenced = owner_id is not None or (reason is None and has_answered)
    fence = legacy.fencing_token or (1 if fenced else None)
    stopped = reason is TerminalReason.POLICY_STOP
    run = Run(
        id=legacy.id,
        conversation_id=legacy.conversation_id,
        turn=turn,
        input_message_ids=legacy.input_message_ids,
        assistant_message_id=legacy.assistant_message_id,
        state=legacy.state,
        revision=legacy.revision,
        owner_id=owner_id,
        fencing_token=fence,
        terminal_reason=reason,
        terminal_policy_name=(legacy.terminal_policy_name or UNKNOWN) if stopped else None,
        absorbed_into_run_id=legacy.absorbed_into_run_id,
        usage=legacy.usage,
        created_at=legacy.created_at,
        updated_at=legacy.updated_at,
        acquired_at=legacy.created_at if fence else None,
        ended_at=None if reason is None else legacy.updated_at,
    )
    return replace(run, revision=max(run.revision, least_revision(run)))


def _owner(legacy: LegacyRun, reason: TerminalReason | None) -> str | None:
    if legacy.state in ACQUIRED_STATES or (reason and reason not in OWNERLESS_REASONS):
        return legacy.owner_id or UNKNOWN
    # A run that was cancelled names the owner that ended it so; the others have none today.
    return legacy.owner_id if reason is TerminalReason.CANCELLED else None


def _receipt(
    state: LegacyState, admission: LegacyAdmission, history: Mapping[str, Message]
) -> AdmissionReceipt:
    given = history.get(admission.input_message_id)
    if given is None:
        told = f"the input {shown(admission.input_message_id)} of key "
        told += f"{shown(admission.idempotency_key)} is not among the messages"
        raise InvalidValueError("$.input_message_id", told)
    return AdmissionReceipt(
        conversation_id=state.conversation_id,
        idempotency_key=admission.idempotency_key,
        input=given,
        run_id=admission.run_id,
        assistant_message_id=admission.assistant_message_id,
        created_at=given.created_at,
    )


def _head(
    state: LegacyState,
    chronology: Chronology,
    history: Mapping[str, Message],
    runs: list[StoredRun],
) -> Head:
    moments = [message.updated_at for message in history.values()]
    moments += [stored.run.updated_at for stored in runs]
    if not moments:
        raise InvalidValueError("$.runs", "no run and no message: there is nothing to import")
    return Head(
        conversation_id=state.conversation_id,
        version=max(state.version, chronology.last_turn),
        updated_at=max(moments),
    )


def _within(path: str, build: Callable[..., T], *arguments: object) -> T:
    # What a record or a rule says is wrong, told with the place in the document.
    try:
        return build(*arguments)
    except InvalidValueError as error:
        raise InvalidValueError(f"{path}{error.path[1:]}", error.reason) from error
    except StitchkitError as error:
        raise InvalidValueError(path, str(error)) from error
