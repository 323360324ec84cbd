"""Every decision about a run or a history: facts and a request in, a write set or an outcome out.

Pure: no clock, no randomness, no I/O. A refusal is an outcome, a misuse is raised, and nothing is
both. The order of checks is part of the contract: duplicate, taken ids, version, not found,
revision, state, owner, fence, queue, lease, then misuse that depends on state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from msgspec.structs import astuple, replace

from stitchkit_django.core import wire
from stitchkit_django.core.driver import (
    LAST_SLOT,
    DeleteAll,
    Facts,
    HistoryMutation,
    InsertMessage,
    MoveMessages,
    Place,
    ReplaceRange,
    RunFacts,
    RunGuard,
    RunWrite,
    UpdateMessage,
    WriteSet,
)
from stitchkit_django.core.errors import (
    ConversationPurgedError,
    CorruptRecordError,
    IdentityTakenError,
    InvalidAbsorptionError,
    InvalidCompactionError,
    ReplayNotSafeError,
    shown,
)
from stitchkit_django.core.lifecycle import (
    ENDINGS,
    TRANSITIONS,
    MessageRole,
    MessageStatus,
    Operation,
    RecoveryAction,
    RunState,
    TerminalReason,
)
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
    RenewLease,
    RequestInterrupt,
)
from stitchkit_django.core.outcomes import (
    Applied,
    Conflict,
    ConflictReason,
    Duplicate,
    NotFound,
    Outcome,
)
from stitchkit_django.core.parts import Part, close_calls
from stitchkit_django.core.records import (
    AdmissionReceipt,
    Head,
    Message,
    Run,
    is_lapsed,
    pending_assistant,
)
from stitchkit_django.core.successors import (
    answer_message,
    committed_message,
    ended_run,
    extended_lease,
    new_lease,
    next_run,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stitchkit_django.core.values import JSONValue

# The lease is written when a write says so, changed or not: a renewal may have moved it.
_LEASE: Final = frozenset({"lease_seconds", "lease_expires_at"})


def decide(facts: Facts, request: Mutation) -> WriteSet | Outcome:
    """Decide an operation from the facts that `core.wanted` names for it.

    Args:
        facts: as read under the head's lock.
        request: the operation.

    Returns:
        What to write, or the outcome when nothing is to be written.

    Raises:
        ConversationPurgedError: the conversation was purged.
        IdentityTakenError: a new id is taken.
        ReplayNotSafeError: an acquired run is to be requeued without `replay_safe`.
        InvalidAbsorptionError: the run can't absorb, or not these.
        InvalidCompactionError: the messages named can't be replaced.
        CorruptRecordError: a receipt's run is missing.
    """
    check_not_purged(request.conversation_id, facts.head)
    match request:
        case AcceptInput():
            return _accept(facts, request)
        case AcquireRun():
            return _acquire(facts, request)
        case CheckpointRun():
            return _checkpoint(facts, request)
        case RequestInterrupt():
            return _interrupt(facts, request)
        case CancelRun():
            return _cancel(facts, request)
        case RecoverRun():
            return _recover(facts, request)
        case CommitTerminal():
            return _end(facts, request)
        case CompactHistory():
            return _compact(facts, request)
        case PurgeConversation():
            return _purge(facts, request)
        case _:
            assert_never(request)


def renew(facts: RunFacts, request: RenewLease) -> Run | Conflict | NotFound:
    """Decide a lease renewal, which is read and written beside the head.

    Returns:
        The run with its new lease and nothing else changed, or the outcome.

    Raises:
        ConversationPurgedError: the conversation was purged.
    """
    check_not_purged(request.conversation_id, facts.head)
    stored = None if facts.run is None else facts.run.run
    known = Facts(head=facts.head, moment=facts.moment, run=stored)
    run = _claim(
        known,
        Operation.RENEW,
        owner_id=request.owner_id,
        fencing_token=request.fencing_token,
    )
    if not isinstance(run, Run):
        return run
    return replace(run, **new_lease(request.lease, _moment(known)))


def applied(changes: WriteSet) -> Applied:
    """Tell the caller what a write set has written."""
    receipt = changes.receipt
    run = changes.runs[0].run if changes.runs else None
    summaries = [one.summary for one in changes.history if isinstance(one, ReplaceRange)]
    return Applied(
        version=changes.head.version,
        run=run,
        summary=summaries[0] if summaries else None,
        input=receipt.input if receipt else None,
        pending=pending_assistant(run) if receipt and run else None,
    )


def check_not_purged(conversation_id: str, head: Head | None) -> None:
    """Refuse every call on a purged conversation.

    Raises:
        ConversationPurgedError: it was purged.
    """
    if head is not None and head.purged_at is not None:
        raise ConversationPurgedError(conversation_id)


# ---------------------------------------------------------------- the operations


def _accept(facts: Facts, request: AcceptInput) -> WriteSet | Outcome:
    if facts.head is None:
        # Its row is a product's own, which a driver can't make.
        return NotFound()
    if facts.receipt is not None:
        return _duplicate(facts, facts.receipt, request)
    for identity in (request.input_message_id, request.assistant_message_id, request.run_id):
        if identity in facts.taken:
            raise IdentityTakenError(request.conversation_id, identity)
    conflict = _moved(facts, request.expected_version)
    if conflict is not None:
        return conflict
    if request.coalesce_into is None:
        return _admit(facts, request)
    run = _claim(facts, Operation.JOIN)
    return _join(facts, request, run) if isinstance(run, Run) else run


def _admit(facts: Facts, request: AcceptInput) -> WriteSet:
    moment = _moment(facts)
    head = _next_head(facts)
    run = Run(
        id=request.run_id,
        conversation_id=request.conversation_id,
        turn=head.version,
        input_message_ids=(request.input_message_id,),
        assistant_message_id=request.assistant_message_id,
        state=RunState.QUEUED,
        revision=0,
        created_at=moment,
        updated_at=moment,
    )
    return _admission(facts, request, RunWrite(run=run), Place(run.turn, 0))


def _join(facts: Facts, request: AcceptInput, run: Run) -> WriteSet:
    joined = next_run(
        run,
        Operation.JOIN,
        _moment(facts),
        input_message_ids=(*run.input_message_ids, request.input_message_id),
    )
    place = Place(run.turn, len(run.input_message_ids))
    return _admission(facts, request, _change(run, joined), place)


def _admission(facts: Facts, request: AcceptInput, write: RunWrite, place: Place) -> WriteSet:
    moment = _moment(facts)
    message = committed_message(
        MessageRole.USER,
        request.conversation_id,
        request.input_message_id,
        parts=request.parts,
        metadata=request.metadata,
        moment=moment,
    )
    receipt = AdmissionReceipt(
        conversation_id=request.conversation_id,
        idempotency_key=request.idempotency_key,
        input=message,
        run_id=write.run.id,
        assistant_message_id=write.run.assistant_message_id,
        created_at=moment,
    )
    return _write(facts, write, InsertMessage(message=message, place=place), receipt=receipt)


def _duplicate(facts: Facts, receipt: AdmissionReceipt, request: AcceptInput) -> Duplicate:
    stored = facts.receipt_run
    if stored is not None and stored.run.absorbed_into_run_id is not None:
        stored = facts.absorber
    if stored is None:
        key, where = shown(receipt.idempotency_key), shown(receipt.conversation_id)
        row = f"receipt {key} in conversation {where}"
        raise CorruptRecordError(
            row, f"its run {shown(receipt.run_id)} or that one's absorber is missing"
        )
    return Duplicate(
        version=_version(facts),
        input=receipt.input,
        run=stored.run,
        assistant=stored.terminal_assistant,
        pending=pending_assistant(stored.run) if stored.run.is_active else None,
        same_input=wire.same_input(request.parts, request.metadata, receipt.input),
    )


def _acquire(facts: Facts, request: AcquireRun) -> WriteSet | Outcome:
    run = _claim(facts, Operation.ACQUIRE, expected_revision=request.expected_revision)
    if not isinstance(run, Run):
        return run
    if facts.first_active_id != run.id:
        return _conflict(facts, ConflictReason.QUEUE)
    moment = _moment(facts)
    acquired = next_run(
        run,
        Operation.ACQUIRE,
        moment,
        owner_id=request.owner_id,
        fencing_token=(run.fencing_token or 0) + 1,
        acquired_at=moment,
        **new_lease(request.lease, moment),
    )
    return _write(facts, _change(run, acquired, lease=True))


def _checkpoint(facts: Facts, request: CheckpointRun) -> WriteSet | Outcome:
    run = _owned(facts, Operation.CHECKPOINT, request)
    if not isinstance(run, Run):
        return run
    moment = _moment(facts)
    kept = next_run(
        run,
        Operation.CHECKPOINT,
        moment,
        usage=request.usage or run.usage,
        **extended_lease(run, moment),
    )
    message = answer_message(
        run,
        facts.assistant,
        MessageStatus.STREAMING,
        parts=request.parts,
        metadata=request.metadata,
        moment=moment,
    )
    # A renewal after the read moves the lease alone: judged anew, this write can't shorten it.
    write = _change(run, kept, lease=True, guards_lease=True)
    return _write(facts, write, _put(facts, run, message))


def _interrupt(facts: Facts, request: RequestInterrupt) -> WriteSet | Outcome:
    run = _claim(facts, Operation.INTERRUPT, expected_revision=request.expected_revision)
    if not isinstance(run, Run):
        return run
    interrupted = next_run(run, Operation.INTERRUPT, _moment(facts))
    return _write(facts, _change(run, interrupted, guards_lease=True))


def _cancel(facts: Facts, request: CancelRun) -> WriteSet | Outcome:
    run = _claim(facts, Operation.CANCEL, expected_revision=request.expected_revision)
    if not isinstance(run, Run):
        return run
    message = _answer(facts, run, TerminalReason.CANCELLED, _partial(facts), None)
    ended = ended_run(run, TerminalReason.CANCELLED, _moment(facts))
    write = _change(run, ended, answer=message)
    return _write(facts, write, _put(facts, run, message))


def _recover(facts: Facts, request: RecoverRun) -> WriteSet | Outcome:
    requeues = request.action is RecoveryAction.REQUEUE
    operation = Operation.REQUEUE if requeues else Operation.ABANDON
    run = _claim(facts, operation, expected_revision=request.expected_revision)
    if not isinstance(run, Run):
        return run
    if request.require_expired_lease and not is_lapsed(run, _moment(facts)):
        return _conflict(facts, ConflictReason.LEASE)
    if requeues and run.is_acquired and not request.replay_safe:
        raise ReplayNotSafeError(run.id)
    moment = _moment(facts)
    # A renewal between the read and this write moves the lease alone: it must stop the write.
    if requeues:
        lease = new_lease(None, moment)
        queued = next_run(run, Operation.REQUEUE, moment, owner_id=None, **lease)
        return _write(facts, _change(run, queued, lease=True, guards_lease=True))
    message = _answer(facts, run, TerminalReason.ABANDONED, _partial(facts), None)
    abandoned = ended_run(
        run,
        TerminalReason.ABANDONED,
        moment,
        owner_id=None,
        terminal_detail=request.detail,
    )
    write = _change(run, abandoned, lease=True, guards_lease=True, answer=message)
    return _write(facts, write, _put(facts, run, message))


def _end(facts: Facts, request: CommitTerminal) -> WriteSet | Outcome:
    run = _owned(facts, Operation.END, request)
    if not isinstance(run, Run):
        return run
    absorbed = _absorbed(facts, run, request)
    moment = _moment(facts)
    inputs = [*run.input_message_ids]
    for other in absorbed:
        inputs.extend(other.input_message_ids)
    ended = ended_run(
        run,
        request.reason,
        moment,
        input_message_ids=tuple(inputs),
        terminal_policy_name=request.policy_name,
        terminal_detail=request.detail,
        usage=request.usage or run.usage,
    )
    message = _answer(facts, run, request.reason, request.parts, request.metadata)
    write = _change(run, ended, lease=True, answer=message)
    others = tuple(
        _change(
            other,
            ended_run(other, TerminalReason.ABSORBED, moment, absorbed_into_run_id=run.id),
        )
        for other in absorbed
    )
    first = len(run.input_message_ids)
    moves = tuple(
        (identity, Place(run.turn, slot)) for slot, identity in enumerate(inputs[first:], first)
    )
    history: list[HistoryMutation] = [_put(facts, run, message)]
    if moves:
        history.append(MoveMessages(moves=moves))
    return _write(facts, write, *history, others=others)


def _absorbed(facts: Facts, run: Run, request: CommitTerminal) -> Sequence[Run]:
    named = [one.run_id for one in request.absorb]
    if named and ENDINGS[request.reason].state is not RunState.COMPLETED:
        raise InvalidAbsorptionError(run.id, f"reason {request.reason} completes nothing")
    if run.id in named:
        raise InvalidAbsorptionError(run.id, "it names itself")
    if len(set(named)) != len(named):
        raise InvalidAbsorptionError(run.id, "it names a run twice")
    others = {other.id: other for other in facts.others}
    # One that has answered in part (requeued after a checkpoint) goes on: its message stays its.
    return [
        others[one.run_id]
        for one in request.absorb
        if one.run_id in others
        and (others[one.run_id].state, Operation.ABSORB) in TRANSITIONS
        and sorted(others[one.run_id].input_message_ids) == sorted(one.input_message_ids)
        and one.run_id not in facts.answered
    ]


def _compact(facts: Facts, request: CompactHistory) -> WriteSet | Outcome:
    conflict = _moved(facts, request.expected_version)
    if conflict is not None:
        return conflict
    members = facts.members
    if len(members) != len(request.message_ids):
        return NotFound()
    if facts.between != len(members):
        reason = "they are not a whole range: others stand between them"
        raise InvalidCompactionError(request.message_ids, reason)
    for member in members:
        if member.status is MessageStatus.STREAMING:
            reason = f"message {shown(member.id)} is the answer of an active run"
            raise InvalidCompactionError(request.message_ids, reason)
    if request.summary_id in facts.taken:
        raise IdentityTakenError(request.conversation_id, request.summary_id)
    moment = _moment(facts)
    summary = committed_message(
        MessageRole.SUMMARY,
        request.conversation_id,
        request.summary_id,
        parts=request.summary_parts,
        metadata=None,
        moment=moment,
    )
    mutation = ReplaceRange(
        first=members[0].place,
        last=members[-1].place,
        summary=summary,
        replaced_ids=tuple(member.id for member in members),
        archive=request.archive,
        moment=moment,
    )
    return _write(facts, None, mutation)


def _purge(facts: Facts, request: PurgeConversation) -> WriteSet | Outcome:
    conflict = _moved(facts, request.expected_version)
    if conflict is not None:
        return conflict
    if _version(facts) == 0:
        return NotFound()
    if facts.active:
        return replace(_conflict(facts, ConflictReason.STATE), runs=facts.active)
    changes = _write(facts, None, DeleteAll())
    return replace(changes, head=replace(changes.head, purged_at=_moment(facts)))


# ---------------------------------------------------------------- refusals


def _claim(
    facts: Facts,
    operation: Operation,
    *,
    expected_revision: int | None = None,
    owner_id: str | None = None,
    fencing_token: int | None = None,
) -> Run | Conflict | NotFound:
    # What is None is not checked.
    run = facts.run
    if run is None:
        return NotFound()
    if expected_revision is not None and run.revision != expected_revision:
        return _conflict(facts, ConflictReason.REVISION)
    if (run.state, operation) not in TRANSITIONS:
        return _conflict(facts, ConflictReason.STATE)
    if owner_id is not None and run.owner_id != owner_id:
        return _conflict(facts, ConflictReason.OWNER)
    if fencing_token is not None and run.fencing_token != fencing_token:
        return _conflict(facts, ConflictReason.FENCE)
    return run


def _owned(
    facts: Facts, operation: Operation, request: CheckpointRun | CommitTerminal
) -> Run | Conflict | NotFound:
    return _claim(
        facts,
        operation,
        expected_revision=request.expected_revision,
        owner_id=request.owner_id,
        fencing_token=request.fencing_token,
    )


def _moved(facts: Facts, expected_version: int | None) -> Conflict | None:
    if expected_version is None or expected_version == _version(facts):
        return None
    return _conflict(facts, ConflictReason.VERSION)


def _conflict(facts: Facts, reason: ConflictReason) -> Conflict:
    return Conflict(reason=reason, version=_version(facts), run=facts.run)


# ---------------------------------------------------------------- the next records


def _version(facts: Facts) -> int:
    return 0 if facts.head is None else facts.head.version


def _moment(facts: Facts) -> datetime:
    # A clock that was set back must not let a row be older than one written before it.
    return facts.moment if facts.head is None else max(facts.moment, facts.head.updated_at)


def _next_head(facts: Facts) -> Head:
    head = facts.head
    assert head is not None  # noqa: S101 - only what was found, or is admitted, is written
    return replace(head, version=head.version + 1, updated_at=_moment(facts))


def _answer(
    facts: Facts,
    run: Run,
    reason: TerminalReason,
    parts: tuple[Part, ...],
    metadata: dict[str, JSONValue] | None,
) -> Message:
    status = ENDINGS[reason].status
    assert status is not None  # noqa: S101 - only an absorbed run has no answer
    return answer_message(
        run,
        facts.assistant,
        status,
        parts=close_calls(parts),
        metadata=metadata,
        moment=_moment(facts),
    )


def _partial(facts: Facts) -> tuple[Part, ...]:
    # What the run had said when it stopped.
    return () if facts.assistant is None else facts.assistant.parts


def _put(facts: Facts, run: Run, message: Message) -> HistoryMutation:
    if facts.assistant is None:
        return InsertMessage(message=message, place=Place(run.turn, LAST_SLOT))
    return UpdateMessage(message=message)


def _change(
    read: Run,
    run: Run,
    *,
    lease: bool = False,
    guards_lease: bool = False,
    answer: Message | None = None,
) -> RunWrite:
    guard = RunGuard(
        revision=read.revision,
        owner_id=read.owner_id,
        fencing_token=read.fencing_token,
        lease=guards_lease,
        lease_expires_at=read.lease_expires_at if guards_lease else None,
    )
    fields = zip(Run.__struct_fields__, astuple(read), astuple(run), strict=True)
    changed = frozenset([field for field, before, after in fields if before != after])
    return RunWrite(run=run, guard=guard, changed=changed - _LEASE, lease=lease, answer=answer)


def _write(
    facts: Facts,
    run: RunWrite | None,
    *history: HistoryMutation,
    others: tuple[RunWrite, ...] = (),
    receipt: AdmissionReceipt | None = None,
) -> WriteSet:
    return WriteSet(
        head=_next_head(facts),
        expected_version=_version(facts),
        runs=(run, *others) if run else others,
        receipt=receipt,
        history=history,
    )
