"""AgentStore: each operation is one transaction that reads, lets the reducer decide, and writes."""

from __future__ import annotations

import logging
import os
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from stitchkit_django.core import reducer, values
from stitchkit_django.core.announcement import event_of
from stitchkit_django.core.driver import WriteSet
from stitchkit_django.core.errors import StoreUnavailableError, shown
from stitchkit_django.core.lifecycle import MessageRole, RecoveryAction, TerminalReason
from stitchkit_django.core.operations import (
    Absorption,
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
    absorptions,
)
from stitchkit_django.core.outcomes import Applied, Conflict, Duplicate, NotFound, Outcome
from stitchkit_django.core.parts import message_parts
from stitchkit_django.core.reads import StoreReads
from stitchkit_django.core.records import Run
from stitchkit_django.core.wanted import wanted
from stitchkit_django.core.wire import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from stitchkit_django.core.driver import Driver, Transaction
    from stitchkit_django.core.events import Event
    from stitchkit_django.core.parts import Part
    from stitchkit_django.core.usage import Usage
    from stitchkit_django.core.values import JSONValue

logger = logging.getLogger("stitchkit_django.store")

Publisher: TypeAlias = "Callable[[Event], object]"
"""Whatever wants to know of events; what it returns is not looked at."""

T = TypeVar("T", bound=Outcome)

_LOW_BITS: Final = 2**62 - 1
WRITE_ATTEMPTS: Final = 3
"""How often an operation is decided anew, under one lock, when its write finds rows moved."""


def new_identifier() -> str:
    """Make an id that nothing else has: a UUID of version 7, so that later ones sort later.

    A conversation's new rows then stand together in each index, however long it is: with ids in no
    order each would touch pages of its own, which PostgreSQL writes to its log whole.
    Source: RFC 9562, section 5.7.
    """
    milliseconds = time.time_ns() // 1_000_000
    drawn = int.from_bytes(os.urandom(10))
    high, low = drawn >> 68, drawn & _LOW_BITS
    return str(uuid.UUID(int=milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low))


class AgentStore(StoreReads):
    """Conversations and their runs, kept by a driver; the only thing that writes them.

    An operation returns an outcome: `Applied`, `Duplicate`, `Conflict` or `NotFound`. Misuse and
    failure are raised, all as `StitchkitError`, and write nothing. Every call on a purged
    conversation raises `ConversationPurgedError`, and every call may raise
    `StoreUnavailableError`.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        limits: Limits | None = None,
        archive_compacted: bool = True,
        publishers: Sequence[Publisher] = (),
        new_id: Callable[[], str] = new_identifier,
    ) -> None:
        """Build a store over a driver.

        Args:
            driver: where conversations are kept.
            limits: of one message; by default 1 MiB and 100 levels.
            archive_compacted: keep the messages that a summary replaces as archived rows; False
                deletes them.
            publishers: called with each event once its transaction has committed, at most once
                and in this order; one that raises is logged and keeps nothing from the others.
            new_id: makes the ids that a caller doesn't give.
        """
        self._driver = driver
        self._limits = Limits() if limits is None else limits
        self._archive_compacted = archive_compacted
        self._publishers = tuple(publishers)
        self._new_id = new_id

    def accept_input(  # noqa: PLR0913 - the contract's arguments
        self,
        conversation_id: str,
        idempotency_key: str,
        parts: str | Sequence[Part],
        *,
        metadata: dict[str, JSONValue] | None = None,
        input_message_id: str | None = None,
        run_id: str | None = None,
        assistant_message_id: str | None = None,
        coalesce_into: str | None = None,
        expected_version: int | None = None,
    ) -> Applied | Duplicate | Conflict | NotFound:
        """Admit an input: however often it is sent under its key, it is accepted once.

        Args:
            conversation_id: a new one begins a conversation.
            idempotency_key: of this input; a retry sends it again.
            parts: of the user message; a str is one text part.
            metadata: a JSON object to keep with the message.
            input_message_id: of the user message; made if None, as are the next two.
            run_id: of the run that will answer.
            assistant_message_id: of its answer.
            coalesce_into: the queued run to join instead of queueing a new one; then neither
                `run_id` nor `assistant_message_id` is used.
            expected_version: the head version that the caller has seen; None: any.

        Returns:
            `Applied` with version, run, input and pending; `Duplicate` when the key is known;
            `Conflict` (version; state: the run to join is not queued); `NotFound` when there is
            no run to join.

        Raises:
            InvalidValueError: parts, metadata or version can't be stored.
            InvalidIdentifierError: an id or the key breaks the rule.
            IdentityTakenError: a new id is taken in the conversation, or given twice.
        """
        request = AcceptInput(
            conversation_id=conversation_id,
            idempotency_key=idempotency_key,
            parts=message_parts(MessageRole.USER, parts),
            metadata=metadata,
            input_message_id=self._given_or_new(input_message_id),
            run_id=self._given_or_new(run_id),
            assistant_message_id=self._given_or_new(assistant_message_id),
            coalesce_into=coalesce_into,
            expected_version=expected_version,
        )
        self._limits.check(request.parts, request.metadata)
        return self._mutate(request)

    def acquire_run(
        self,
        conversation_id: str,
        run_id: str,
        *,
        expected_revision: int,
        owner_id: str,
        lease: timedelta | None = None,
    ) -> Applied | Conflict | NotFound:
        """Take a queued run: one owner gets it, whoever else asks is told.

        Args:
            conversation_id: of the run.
            run_id: of the run; it must be the first active one of its conversation.
            expected_revision: of the run, as the caller has seen it.
            owner_id: of the worker.
            lease: how long the run is the owner's without a checkpoint or a renewal; None: no
                lease, so that only the age of the run's last write tells that the owner is gone.

        Returns:
            `Applied` with the run, whose fencing token proves the acquisition; `Conflict`
            (revision, state, queue); `NotFound`.

        Raises:
            InvalidValueError: revision or lease is out of range.
            InvalidIdentifierError: an id breaks the rule.
        """
        request = AcquireRun(
            conversation_id=conversation_id,
            run_id=run_id,
            expected_revision=expected_revision,
            owner_id=owner_id,
            lease=lease,
        )
        return _run_outcome(self._mutate(request))

    def checkpoint_run(  # noqa: PLR0913 - the contract's arguments
        self,
        conversation_id: str,
        run_id: str,
        *,
        expected_revision: int,
        owner_id: str,
        parts: str | Sequence[Part],
        fencing_token: int | None = None,
        metadata: dict[str, JSONValue] | None = None,
        usage: Usage | None = None,
    ) -> Applied | Conflict | NotFound:
        """Keep what a running run has answered so far, and extend its lease.

        Args:
            conversation_id: of the run.
            run_id: of the run.
            expected_revision: of the run, as its owner has seen it.
            owner_id: of the worker that acquired it.
            parts: the whole answer so far, in place of the one kept before.
            fencing_token: of the acquisition; None is not checked.
            metadata: of the answer; None keeps what is stored.
            usage: of the run so far; None keeps what is stored.

        Returns:
            `Applied` with the run; `Conflict` (revision; state: an interrupt was requested or
            the run has ended; owner; fence); `NotFound`.

        Raises:
            InvalidValueError: parts, metadata, usage or a number can't be stored.
            InvalidIdentifierError: an id breaks the rule.
        """
        request = CheckpointRun(
            conversation_id=conversation_id,
            run_id=run_id,
            expected_revision=expected_revision,
            owner_id=owner_id,
            fencing_token=fencing_token,
            parts=message_parts(MessageRole.ASSISTANT, parts),
            metadata=metadata,
            usage=usage,
        )
        self._limits.check(request.parts, request.metadata)
        return _run_outcome(self._mutate(request))

    def renew_lease(
        self,
        conversation_id: str,
        run_id: str,
        *,
        owner_id: str,
        fencing_token: int,
        lease: timedelta | None = None,
    ) -> Applied | Conflict | NotFound:
        """Say that the owner still lives: the lease alone is written, beside the head's lock.

        Args:
            conversation_id: of the run.
            run_id: of the run.
            owner_id: of the worker that acquired it.
            fencing_token: of the acquisition.
            lease: how long from now; None takes the lease away.

        Returns:
            `Applied` with the run, whose state tells of a requested interrupt, at the version
            and revision that it had; `Conflict` (state, owner, fence); `NotFound`.

        Raises:
            InvalidValueError: fence or lease is out of range.
            InvalidIdentifierError: an id breaks the rule.
        """
        request = RenewLease(
            conversation_id=conversation_id,
            run_id=run_id,
            owner_id=owner_id,
            fencing_token=fencing_token,
            lease=lease,
        )
        return _logged(request, self._renew(request))

    def request_interrupt(
        self, conversation_id: str, run_id: str, *, expected_revision: int | None = None
    ) -> Applied | Conflict | NotFound:
        """Ask the owner of a running run to stop; it learns so at its next write or renewal.

        Args:
            conversation_id: of the run.
            run_id: of the run.
            expected_revision: of the run; None: whatever it is, so that a stop button never
                loses to a checkpoint.

        Returns:
            `Applied` with the run; `Conflict` (revision; state: it is not running); `NotFound`.

        Raises:
            InvalidValueError: the revision is no count.
            InvalidIdentifierError: an id breaks the rule.
        """
        request = RequestInterrupt(
            conversation_id=conversation_id, run_id=run_id, expected_revision=expected_revision
        )
        return _run_outcome(self._mutate(request))

    def cancel_run(
        self, conversation_id: str, run_id: str, *, expected_revision: int | None = None
    ) -> Applied | Conflict | NotFound:
        """End a queued run; its answer is kept as interrupted, with what it had.

        Args:
            conversation_id: of the run.
            run_id: of the run.
            expected_revision: of the run; None: whatever it is.

        Returns:
            `Applied` with the run; `Conflict` (revision; state: it is not queued); `NotFound`.

        Raises:
            InvalidValueError: the revision is no count.
            InvalidIdentifierError: an id breaks the rule.
        """
        request = CancelRun(
            conversation_id=conversation_id, run_id=run_id, expected_revision=expected_revision
        )
        return _run_outcome(self._mutate(request))

    def recover_run(  # noqa: PLR0913 - the contract's arguments
        self,
        conversation_id: str,
        run_id: str,
        *,
        expected_revision: int,
        action: RecoveryAction | str,
        replay_safe: bool = False,
        require_expired_lease: bool = False,
        detail: str | None = None,
    ) -> Applied | Conflict | NotFound:
        """Settle a run whose owner is gone: queue it again, or end it as abandoned.

        Args:
            conversation_id: of the run.
            run_id: of the run.
            expected_revision: of the run, as the caller has judged it.
            action: `requeue` or `abandon`.
            replay_safe: the caller's word that the work of an acquired run may be repeated.
            require_expired_lease: refuse unless the run has a lease that has lapsed, judged by
                the database's clock under the lock.
            detail: why it was abandoned; cut to 4,096 characters.

        Returns:
            `Applied` with the run; `Conflict` (revision; state: it has ended; lease); `NotFound`.

        Raises:
            ReplayNotSafeError: an acquired run is to be requeued without `replay_safe`.
            InvalidValueError: revision, action or detail can't be used.
            InvalidIdentifierError: an id breaks the rule.
        """
        request = RecoverRun(
            conversation_id=conversation_id,
            run_id=run_id,
            expected_revision=expected_revision,
            action=values.member("action", RecoveryAction, action),
            replay_safe=replay_safe,
            require_expired_lease=require_expired_lease,
            detail=detail,
        )
        return _run_outcome(self._mutate(request))

    def commit_terminal(  # noqa: PLR0913 - the contract's arguments
        self,
        conversation_id: str,
        run_id: str,
        *,
        expected_revision: int,
        owner_id: str,
        parts: str | Sequence[Part],
        reason: TerminalReason | str,
        fencing_token: int | None = None,
        metadata: dict[str, JSONValue] | None = None,
        policy_name: str | None = None,
        detail: str | None = None,
        usage: Usage | None = None,
        absorb: Sequence[Absorption] = (),
    ) -> Applied | Conflict | NotFound:
        """End a run with its answer, once; tool calls without a result are closed with it.

        Args:
            conversation_id: of the run.
            run_id: of the run.
            expected_revision: of the run, as its owner has seen it.
            owner_id: of the worker that acquired it.
            parts: the whole answer.
            reason: why it ended; decides the run's state and the answer's status.
            fencing_token: of the acquisition; None is not checked.
            metadata: of the answer; None keeps what is stored.
            policy_name: which policy stopped the run; exactly with the reason `policy_stop`.
            detail: for people; cut to 4,096 characters.
            usage: of the whole run; None keeps what is stored.
            absorb: queued runs that this answer answers too. Each that is still queued with
                exactly the inputs named ends as absorbed; the others are left to run, and so is
                one that was requeued with a part of an answer, for that stays its own.

        Returns:
            `Applied` with the run; `Conflict` (revision; state: it has ended or was requeued;
            owner; fence); `NotFound`.

        Raises:
            InvalidAbsorptionError: the reason completes nothing, or a run is named twice or
                absorbs itself.
            InvalidValueError: an argument can't be stored, or policy and reason don't agree.
            InvalidIdentifierError: an id breaks the rule.
        """
        request = CommitTerminal(
            conversation_id=conversation_id,
            run_id=run_id,
            expected_revision=expected_revision,
            owner_id=owner_id,
            fencing_token=fencing_token,
            parts=message_parts(MessageRole.ASSISTANT, parts),
            reason=values.member("reason", TerminalReason, reason),
            metadata=metadata,
            policy_name=policy_name,
            detail=detail,
            usage=usage,
            absorb=absorptions("absorb", absorb),
        )
        self._limits.check(request.parts, request.metadata)
        return _run_outcome(self._mutate(request))

    def compact_history(
        self,
        conversation_id: str,
        *,
        expected_version: int,
        message_ids: Sequence[str],
        summary_parts: str | Sequence[Part],
        summary_id: str | None = None,
    ) -> Applied | Conflict | NotFound:
        """Let a summary stand for a range of messages.

        Args:
            conversation_id: whose history it is.
            expected_version: the head version that the summary was made of.
            message_ids: all active messages from the first to the last of the range, in any
                order.
            summary_parts: a str is one text part.
            summary_id: of the summary; made if None.

        Returns:
            `Applied` with the summary; `Conflict` (version); `NotFound` when one of the messages
            is not in the active history.

        Raises:
            InvalidCompactionError: none named, one named twice, a gap, or an active run's answer
                among them.
            IdentityTakenError: the summary's id is taken.
            InvalidValueError: the parts or the version can't be stored.
            InvalidIdentifierError: an id breaks the rule.
        """
        request = CompactHistory(
            conversation_id=conversation_id,
            expected_version=expected_version,
            message_ids=values.identifiers("message_ids", message_ids),
            summary_parts=message_parts(MessageRole.SUMMARY, summary_parts),
            summary_id=self._given_or_new(summary_id),
            archive=self._archive_compacted,
        )
        self._limits.check(request.summary_parts, None)
        return _run_outcome(self._mutate(request))

    def purge_conversation(
        self, conversation_id: str, *, expected_version: int | None = None
    ) -> Applied | Conflict | NotFound:
        """Delete all that a conversation holds, for good; its id stays reserved.

        Args:
            conversation_id: of the conversation.
            expected_version: the head version that the caller has seen; None: any.

        Returns:
            `Applied`; `Conflict` (version; state: `runs` are the active ones); `NotFound`.

        Raises:
            InvalidValueError: the version is no count.
            InvalidIdentifierError: the id breaks the rule.
        """
        request = PurgeConversation(
            conversation_id=conversation_id, expected_version=expected_version
        )
        return _run_outcome(self._mutate(request))

    def _mutate(self, request: Mutation) -> Outcome:
        rows = wanted(request)

        def work(transaction: Transaction) -> Outcome:
            for _ in range(WRITE_ATTEMPTS):
                decision = reducer.decide(transaction.read(rows), request)
                if not isinstance(decision, WriteSet):
                    return decision
                if transaction.write(decision):
                    self._announce(transaction, decision)
                    return reducer.applied(decision)
            raise _never_won(request)

        return _logged(request, self._driver.transaction(work))

    def _renew(self, request: RenewLease) -> Applied | Conflict | NotFound:
        for _ in range(WRITE_ATTEMPTS):
            facts = self._driver.run(request.conversation_id, request.run_id)
            renewed = reducer.renew(facts, request)
            if not isinstance(renewed, Run):
                return renewed
            assert facts.run is not None  # noqa: S101 - only a run that was read is renewed
            assert facts.head is not None  # noqa: S101 - it was read with its head
            if self._driver.renew(facts.run.run, renewed):
                return Applied(version=facts.head.version, run=renewed)
        raise _never_won(request)

    def _announce(self, transaction: Transaction, changes: WriteSet) -> None:
        event = event_of(changes) if self._publishers else None
        if event is not None:
            for publisher in self._publishers:
                # One callback each, so that a driver can't let one keep the next from its event.
                transaction.after_commit(partial(_publish, publisher, event))

    def _given_or_new(self, identifier: str | None) -> str:
        return self._new_id() if identifier is None else identifier


def _publish(publisher: Publisher, event: Event) -> None:
    try:
        publisher(event)
    except Exception:
        # The commit stands, whatever a publisher makes of it.
        logger.exception(
            "publisher %r failed on event %s",
            publisher,
            event.id,
            extra={
                "conversation_id": event.conversation_id,
                "run_id": _run_id(event),
                "event_id": event.id,
            },
        )


def _logged(request: Mutation | RenewLease, outcome: T) -> T:
    if logger.isEnabledFor(logging.DEBUG):
        # The run that an admission names is not there unless it was made.
        named = None if isinstance(request, AcceptInput) else getattr(request, "run_id", None)
        logger.debug(
            "%s in conversation %s: %s",
            type(request).__name__,
            shown(request.conversation_id),
            outcome.outcome,
            extra={
                "conversation_id": request.conversation_id,
                "run_id": _run_id(outcome) or named,
                "outcome": outcome.outcome,
                "reason": getattr(outcome, "reason", None),
            },
        )
    return outcome


def _run_id(holder: Event | Outcome) -> str | None:
    run: Run | None = getattr(holder, "run", None)
    return None if run is None else run.id


def _run_outcome(outcome: Outcome) -> Applied | Conflict | NotFound:
    assert not isinstance(outcome, Duplicate)  # noqa: S101 - only an admission has a key
    return outcome


def _never_won(request: Mutation | RenewLease) -> StoreUnavailableError:
    where = shown(request.conversation_id)
    return StoreUnavailableError(
        f"{type(request).__name__} in conversation {where} found its rows moved "
        f"{WRITE_ATTEMPTS} times, under its own lock: does something else write the tables?"
    )
