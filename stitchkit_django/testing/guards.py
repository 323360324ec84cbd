"""Laws of the guards: a write set is written as it was decided, or not at all."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stitchkit_django.core import (
    Absorption,
    ConflictReason,
    RecoveryAction,
    TerminalReason,
    TextPart,
    WriteSet,
    reducer,
)
from stitchkit_django.core.operations import (
    AcquireRun,
    CommitTerminal,
    RecoverRun,
    RequestInterrupt,
)
from stitchkit_django.core.wanted import wanted
from stitchkit_django.testing.claims import expect, refused
from stitchkit_django.testing.conversation import opened, owned
from stitchkit_django.testing.ownership import SPENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stitchkit_django.core import Run, Transaction
    from stitchkit_django.core.driver import RunGuard, RunWrite
    from stitchkit_django.core.operations import Mutation
    from stitchkit_django.testing.conversation import Conversation, MakeStore

HOUR: Final = timedelta(hours=1)


def check_a_write_at_another_version_writes_nothing(make_store: MakeStore) -> None:
    """A write set whose head has moved is False, also when its run hasn't."""
    with opened(make_store) as conversation:
        request = _end(conversation, conversation.acquire(conversation.admit("1")))
        changes = _decided(conversation, request)
        conversation.admit("2")

        with conversation.unchanged("a write at an older version"):
            expect("write", _written(conversation, request, changes), expected=False)

        expect("write", _written(conversation, request), expected=True)


def check_a_write_with_a_stale_run_writes_nothing(make_store: MakeStore) -> None:
    """A write set whose run is not as it was read is False, also when the head hasn't moved."""
    with opened(make_store) as conversation:
        queued = conversation.admit()
        acquisition = _acquisition(conversation, queued)
        _check_guard(conversation, acquisition, {"revision": 1}, {"owner_id": "worker"})
        run = conversation.acquire(queued)
        stale: Sequence[dict[str, object]] = (
            {"revision": 0},
            {"revision": 2},
            {"owner_id": "Worker"},
            {"owner_id": None},
            {"fencing_token": 2},
            {"fencing_token": None},
        )
        _check_guard(conversation, _end(conversation, run), *stale)


def check_one_stale_run_of_several_stops_the_write(make_store: MakeStore) -> None:
    """A write set of several runs writes none of them when one has moved."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit("1"))
        others = [conversation.admit(key) for key in "234"]
        request = _end(conversation, run, absorb=others)
        changes = _decided(conversation, request)
        expect("runs of the write set", len(changes.runs), 4)

        for number in range(4):
            stale = _stale(changes, number, revision=7)
            with conversation.unchanged(f"a write whose run {number} has moved"):
                expect("write", _written(conversation, request, stale), expected=False)

        expect("write", _written(conversation, request), expected=True)


def check_a_renewal_stops_what_was_decided_by_a_lease(make_store: MakeStore) -> None:
    """A write set that is guarded by a lease is False once that lease has moved or is gone."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit(), lease=HOUR)
        unleased = replace(run, lease_seconds=None, lease_expires_at=None)
        for leased in (_longer(run), unleased):
            for request in (_abandonment(conversation, run), _interrupt(conversation, run)):
                conversation.driver.renew(run, run)
                changes = _decided(conversation, request)
                conversation.driver.renew(run, leased)

                with conversation.unchanged("a write that was decided by an older lease"):
                    expect("write", _written(conversation, request, changes), expected=False)

        abandonment = _abandonment(conversation, run)
        changes = _decided(conversation, abandonment)
        conversation.driver.renew(run, run)
        with conversation.unchanged("a write that was decided when there was no lease"):
            expect("write", _written(conversation, abandonment, changes), expected=False)
        expect("write", _written(conversation, abandonment), expected=True)


def check_a_renewal_does_not_stop_an_end(make_store: MakeStore) -> None:
    """A write set that isn't guarded by a lease is written, whatever the lease has become."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit(), lease=HOUR)
        request = _end(conversation, run)
        changes = _decided(conversation, request)
        conversation.driver.renew(run, _longer(run))

        expect("write", _written(conversation, request, changes), expected=True)

        ended = conversation.view().run
        expect("lease", (ended.lease_seconds, ended.lease_expires_at), (None, None))


def check_a_write_leaves_a_lease_that_it_does_not_name(make_store: MakeStore) -> None:
    """A write set that writes no lease leaves one that was renewed as it is."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit(), lease=HOUR)
        request = _interrupt(conversation, run)
        changes = _stale(_decided(conversation, request), 0, lease=False, lease_expires_at=None)
        conversation.driver.renew(run, _longer(run))

        expect("write", _written(conversation, request, changes), expected=True)

        found = conversation.view().run
        expect("revision", found.revision, run.revision + 1)
        expect("lease", found.lease_expires_at, _longer(run).lease_expires_at)


def check_a_refused_write_can_be_decided_anew(make_store: MakeStore) -> None:
    """After a write that was False the same transaction can read and write again."""
    with opened(make_store) as conversation:
        request = _acquisition(conversation, conversation.admit())

        def work(transaction: Transaction) -> list[bool]:
            stale = _stale(_decision(transaction, request), 0, revision=7)
            first = transaction.write(stale)
            return [first, transaction.write(_decision(transaction, request))]

        found = conversation.driver.transaction(work)

        expect("writes", found, [False, True])
        expect("owner", conversation.view().run.owner_id, "worker")
        expect("version", conversation.version, 2)


def check_of_two_ends_one_is_applied(make_store: MakeStore) -> None:
    """Of two ends that were decided from the same rows one is written, whole."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit())
        success = replace(_end(conversation, run), usage=SPENT)
        timeout = replace(_end(conversation, run, "Lost"), reason=TerminalReason.TIMEOUT)
        first, second = _decided(conversation, success), _decided(conversation, timeout)

        won = _written(conversation, success, first)
        lost = _written(conversation, timeout, second)

        expect("writes", (won, lost), (True, False))
        view = conversation.view()
        assert view.assistant is not None, "the run has no answer"
        kept = (view.run.terminal_reason, view.run.usage, view.assistant.parts)
        expect("end", kept, (TerminalReason.SUCCESS, SPENT, (TextPart(text="Won"),)))
        expect("message in the history", conversation.message("a-r1"), view.assistant)
        late = conversation.store.commit_terminal(
            conversation.id, "r1", **owned(run), parts="Lost", reason="timeout"
        )
        conflict = refused(late, ConflictReason.REVISION)
        expect("run that the loser is told", conflict.run, view.run)


def _check_guard(conversation: Conversation, request: Mutation, *stale: dict[str, object]) -> None:
    changes = _decided(conversation, request)
    for fields in stale:
        with conversation.unchanged(f"a write whose guard says {fields}"):
            found = _written(conversation, request, _stale(changes, 0, **fields))
            expect(f"write whose guard says {fields}", found, expected=False)


def _decided(conversation: Conversation, request: Mutation) -> WriteSet:
    # What is to be written, from the rows as they are now; it is not written yet.
    return conversation.driver.transaction(lambda transaction: _decision(transaction, request))


def _decision(transaction: Transaction, request: Mutation) -> WriteSet:
    decision = reducer.decide(transaction.read(wanted(request)), request)
    assert isinstance(decision, WriteSet), f"refused: {decision!r}"
    return decision


def _written(
    conversation: Conversation, request: Mutation, changes: WriteSet | None = None
) -> bool:
    # What was decided earlier; None: what is decided now.
    def work(transaction: Transaction) -> bool:
        if changes is None:
            return transaction.write(_decision(transaction, request))
        # A write follows a read, which takes the head's lock.
        transaction.read(wanted(request))
        return transaction.write(changes)

    return conversation.driver.transaction(work)


def _stale(changes: WriteSet, number: int, **fields: object) -> WriteSet:
    # The guard of one run says something else; the head is expected as it is.
    writes = list(changes.runs)
    writes[number] = replace(writes[number], guard=replace(_guard(writes[number]), **fields))
    return replace(changes, runs=tuple(writes))


def _guard(write: RunWrite) -> RunGuard:
    assert write.guard is not None, "the write of a run that is there has no guard"
    return write.guard


def _longer(run: Run) -> Run:
    assert run.lease_expires_at is not None, "the run has no lease"
    return replace(run, lease_seconds=7200.0, lease_expires_at=run.lease_expires_at + HOUR)


def _acquisition(conversation: Conversation, run: Run) -> AcquireRun:
    return AcquireRun(
        conversation_id=conversation.id,
        run_id=run.id,
        expected_revision=run.revision,
        owner_id="worker",
        lease=None,
    )


def _interrupt(conversation: Conversation, run: Run) -> RequestInterrupt:
    return RequestInterrupt(conversation_id=conversation.id, run_id=run.id, expected_revision=None)


def _abandonment(conversation: Conversation, run: Run) -> RecoverRun:
    return RecoverRun(
        conversation_id=conversation.id,
        run_id=run.id,
        expected_revision=run.revision,
        action=RecoveryAction.ABANDON,
        replay_safe=False,
        require_expired_lease=False,
        detail=None,
    )


def _end(
    conversation: Conversation, run: Run, text: str = "Won", absorb: Sequence[Run] = ()
) -> CommitTerminal:
    return CommitTerminal(
        conversation_id=conversation.id,
        run_id=run.id,
        **owned(run),
        parts=(TextPart(text=text),),
        reason=TerminalReason.SUCCESS,
        metadata=None,
        policy_name=None,
        detail=None,
        usage=None,
        absorb=tuple(
            Absorption(run_id=one.id, input_message_ids=one.input_message_ids) for one in absorb
        ),
    )
