"""MemoryDriver: conversations in a dict, the model that every other driver is compared with."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, assert_never

import msgspec
from msgspec.structs import replace

from stitchkit_django.core.checked import Record
from stitchkit_django.core.driver import (
    ActiveRuns,
    AssistantOutline,
    AssistantWanted,
    ConversationRows,
    ConversationView,
    DeleteAll,
    Facts,
    HistoryMutation,
    InsertMessage,
    KeyedRun,
    MessagePage,
    MoveMessages,
    Place,
    PlacedMessage,
    RangeMember,
    ReadSet,
    ReplaceRange,
    RunFacts,
    RunGuard,
    RunScan,
    RunWrite,
    UpdateMessage,
    WriteSet,
)
from stitchkit_django.core.parts import owned_parts
from stitchkit_django.core.records import AdmissionReceipt, Head, Run, StoredRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stitchkit_django.core.records import Message

T = TypeVar("T")


def utc_now() -> datetime:
    """Give the moment by this machine's clock."""
    return datetime.now(UTC)


class _Conversation(Record, frozen=True, kw_only=True):
    """All rows of one conversation; a write builds the next one."""

    head: Head
    runs: dict[str, StoredRun] = msgspec.field(default_factory=dict)
    keys: dict[str, int] = msgspec.field(default_factory=dict)
    """Surrogate keys of the runs."""
    receipts: dict[str, AdmissionReceipt] = msgspec.field(default_factory=dict)
    messages: dict[str, PlacedMessage] = msgspec.field(default_factory=dict)

    def active_runs(self) -> list[Run]:
        runs = [stored.run for stored in self.runs.values() if stored.run.is_active]
        return sorted(runs, key=lambda run: run.turn)

    def active_messages(self) -> list[PlacedMessage]:
        active = [placed for placed in self.messages.values() if placed.archived_at is None]
        return sorted(active, key=lambda placed: placed.place)


class MemoryDriver:
    """Keeps conversations in this process, for tests and for trying things out.

    Every transaction has the driver to itself, from any thread.
    """

    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        """Begin empty.

        Args:
            clock: gives the moment, aware and in UTC.
        """
        self._clock = clock
        self._lock = threading.RLock()
        self._conversations: dict[str, _Conversation] = {}
        self._last_key = 0

    def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
        """Run the work alone; what it wrote is kept only if it returns."""
        with self._lock:
            transaction = MemoryTransaction(self._conversations, self._clock, self._last_key)
            result = work(transaction)
            self._conversations = transaction.conversations
            self._last_key = transaction.last_key
        for callback in transaction.callbacks:
            callback()
        return result

    def snapshot(self, conversation_id: str) -> ConversationView:
        """Read a whole conversation."""
        found = self._conversations.get(conversation_id)
        if found is None:
            return ConversationView()
        messages = list(map(_own_placed, found.active_messages()))
        named = {placed.message.run_id for placed in messages}
        runs = [one.run for one in found.runs.values() if one.run.is_active or one.run.id in named]
        return ConversationView(
            head=found.head,
            messages=tuple(messages),
            runs=tuple(sorted(runs, key=lambda run: run.turn)),
        )

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        """Read one run and the head."""
        found = self._conversations.get(conversation_id)
        if found is None:
            return RunFacts(moment=self._clock())
        stored = found.runs.get(run_id)
        return RunFacts(
            head=found.head,
            moment=self._clock(),
            run=None if stored is None else _own_stored(stored),
        )

    def active_runs(self, conversation_id: str) -> ActiveRuns:
        """Read the active runs and the head."""
        found = self._conversations.get(conversation_id)
        if found is None:
            return ActiveRuns()
        return ActiveRuns(head=found.head, runs=tuple(found.active_runs()))

    def messages(self, conversation_id: str, before: Place | None, limit: int) -> MessagePage:
        """Read the last `limit` active messages before a place."""
        found = self._conversations.get(conversation_id)
        if found is None:
            return MessagePage()
        older = [one for one in found.active_messages() if before is None or one.place < before]
        return MessagePage(head=found.head, messages=tuple(map(_own_placed, older[-limit:])))

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        """Read `limit` active runs of all conversations whose key is over the cursor."""
        return self._scan(cursor, limit, lambda run: run.is_active)

    def scan_ended(self, before: datetime, cursor: int, limit: int) -> RunScan:
        """Read `limit` runs that ended before a moment and whose key is over the cursor."""
        return self._scan(
            cursor, limit, lambda run: run.ended_at is not None and run.ended_at < before
        )

    def renew(self, expected: Run, renewed: Run) -> bool:
        """Write the lease of the renewed run, if state, owner and fence are as expected."""
        with self._lock:
            found = self._conversations.get(expected.conversation_id)
            stored = found and found.runs.get(expected.id)
            if not found or not stored or not _is_as_expected(stored.run, expected):
                return False
            run = replace(
                stored.run,
                lease_seconds=renewed.lease_seconds,
                lease_expires_at=renewed.lease_expires_at,
            )
            runs = {**found.runs, run.id: StoredRun(run=run)}
            self._conversations = {
                **self._conversations,
                run.conversation_id: replace(found, runs=runs),
            }
        return True

    def rows(self, conversation_id: str) -> ConversationRows | None:
        """Read all rows of a conversation, archived ones too; None when it has no head."""
        found = self._conversations.get(conversation_id)
        if found is None:
            return None
        return ConversationRows(
            head=found.head,
            runs=tuple(map(_own_stored, found.runs.values())),
            receipts=tuple(map(_own_receipt, found.receipts.values())),
            messages=tuple(map(_own_placed, found.messages.values())),
        )

    def _scan(self, cursor: int, limit: int, keep: Callable[[Run], bool]) -> RunScan:
        keyed = [
            KeyedRun(found.keys[run_id], stored.run)
            for found in self._conversations.values()
            for run_id, stored in found.runs.items()
            if found.keys[run_id] > cursor and keep(stored.run)
        ]
        return RunScan(moment=self._clock(), runs=tuple(sorted(keyed)[:limit]))


class MemoryTransaction:
    """One transaction of a `MemoryDriver`: reads and writes its own version of everything."""

    def __init__(
        self,
        conversations: dict[str, _Conversation],
        clock: Callable[[], datetime],
        last_key: int,
    ) -> None:
        """Begin with what is committed."""
        self.conversations = dict(conversations)
        self.last_key = last_key
        self.callbacks: list[Callable[[], object]] = []
        self._clock = clock

    def read(self, wanted: ReadSet) -> Facts:
        """Read what is wanted."""
        moment = self._clock()
        found = self.conversations.get(wanted.conversation_id)
        if found is None:
            head = Head(conversation_id=wanted.conversation_id, version=0, updated_at=moment)
            return Facts(head=head if wanted.admits else None, moment=moment)
        receipt = found.receipts.get(wanted.idempotency_key or "")
        receipt_run = found.runs.get(receipt.run_id) if receipt else None
        absorber = receipt_run and found.runs.get(receipt_run.run.absorbed_into_run_id or "")
        stored = found.runs.get(wanted.run_id or "")
        others = [found.runs[one].run for one in wanted.other_run_ids if one in found.runs]
        active = found.active_runs()
        members = _members(found, wanted.range_ids)
        return Facts(
            head=found.head,
            moment=moment,
            receipt=receipt and _own_receipt(receipt),
            receipt_run=receipt_run and _own_stored(receipt_run),
            absorber=absorber and _own_stored(absorber),
            run=stored.run if stored else None,
            assistant=_outline(found, stored.run, wanted.assistant) if stored else None,
            others=tuple(others),
            answered=frozenset(
                run.id for run in others if run.assistant_message_id in found.messages
            ),
            first_active_id=active[0].id if wanted.first_active and active else None,
            active=tuple(active) if wanted.all_active else (),
            taken=_taken(found, wanted),
            members=members,
            between=_between(found, members, len(wanted.range_ids)),
        )

    def write(self, changes: WriteSet) -> bool:
        """Write all, or nothing when the head or a guarded run has moved."""
        conversation_id = changes.head.conversation_id
        found = self.conversations.get(conversation_id, _Conversation(head=changes.head))
        known = conversation_id in self.conversations
        if (found.head.version if known else 0) != changes.expected_version:
            return False
        if not all(_guarded(found, write) for write in changes.runs):
            return False
        written = replace(found, head=changes.head)
        for write in changes.runs:
            written = self._write_run(written, write)
        receipt = changes.receipt
        if receipt is not None:
            receipts = {**written.receipts, receipt.idempotency_key: _own_receipt(receipt)}
            written = replace(written, receipts=receipts)
        for mutation in changes.history:
            written = _changed(written, mutation)
        self.conversations[conversation_id] = written
        return True

    def forget(self, conversation_id: str, run_id: str, *, limit: int) -> int:
        """Delete at most `limit` receipts of a run, and with the last of them the run itself."""
        found = self.conversations.get(conversation_id)
        if found is None or run_id not in found.runs:
            return 0
        keys = sorted(key for key, one in found.receipts.items() if one.run_id == run_id)
        gone = keys[:limit]
        receipts = _without(found.receipts, gone)
        if gone != keys:
            self.conversations[conversation_id] = replace(found, receipts=receipts)
            return len(gone)
        self.conversations[conversation_id] = replace(
            found,
            receipts=receipts,
            runs=_without(found.runs, [run_id]),
            keys=_without(found.keys, [run_id]),
        )
        return len(gone) + 1

    def forget_archived(self, conversation_id: str, before: datetime, *, limit: int) -> int:
        """Delete at most `limit` messages that were archived before a moment."""
        found = self.conversations.get(conversation_id)
        if found is None:
            return 0
        old = (
            identity
            for identity, placed in found.messages.items()
            if placed.archived_at is not None and placed.archived_at < before
        )
        gone = list(islice(old, limit))
        messages = _without(found.messages, gone)
        self.conversations[conversation_id] = replace(found, messages=messages)
        return len(gone)

    def restore(self, rows: ConversationRows) -> bool:
        """Write a whole conversation; False, and nothing written, when its head exists."""
        conversation_id = rows.head.conversation_id
        if conversation_id in self.conversations:
            return False
        self.conversations[conversation_id] = _Conversation(
            head=rows.head,
            runs={stored.run.id: _own_stored(stored) for stored in rows.runs},
            keys={stored.run.id: self._next_key() for stored in rows.runs},
            receipts={one.idempotency_key: _own_receipt(one) for one in rows.receipts},
            messages={placed.message.id: _own_placed(placed) for placed in rows.messages},
        )
        return True

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Call back once the transaction has been kept."""
        self.callbacks.append(callback)

    def _write_run(self, found: _Conversation, write: RunWrite) -> _Conversation:
        run, keys = write.run, found.keys
        if write.guard is None:
            keys = {**keys, run.id: self._next_key()}
        elif not write.lease:
            stored = found.runs[run.id].run
            run = replace(
                run,
                lease_seconds=stored.lease_seconds,
                lease_expires_at=stored.lease_expires_at,
            )
        answer = None if write.answer is None else _own_message(write.answer)
        runs = {**found.runs, run.id: StoredRun(run=run, terminal_assistant=answer)}
        return replace(found, runs=runs, keys=keys)

    def _next_key(self) -> int:
        self.last_key += 1
        return self.last_key


def _outline(
    found: _Conversation, run: Run, wanted: AssistantWanted | None
) -> AssistantOutline | None:
    placed = found.messages.get(run.assistant_message_id)
    if placed is None or wanted is None:
        return None
    message = placed.message
    return AssistantOutline(
        created_at=message.created_at,
        metadata=message.metadata,
        parts=message.parts if wanted is AssistantWanted.WHOLE else (),
    )


def _taken(found: _Conversation, wanted: ReadSet) -> frozenset[str]:
    known = set(found.messages)
    known.update(receipt.input.id for receipt in found.receipts.values())
    known.update(stored.run.assistant_message_id for stored in found.runs.values())
    taken = known.intersection(wanted.new_message_ids)
    if wanted.new_run_id in found.runs:
        taken.add(wanted.new_run_id)
    return frozenset(taken)


def _members(found: _Conversation, identities: Iterable[str]) -> tuple[RangeMember, ...]:
    active = {placed.message.id: placed for placed in found.active_messages()}
    return tuple(
        RangeMember(id=one, place=placed.place, status=placed.message.status)
        for one, placed in active.items()
        if one in set(identities)
    )


def _between(found: _Conversation, members: tuple[RangeMember, ...], named: int) -> int:
    if not members:
        return 0
    first, last = members[0].place, members[-1].place
    count = sum(1 for placed in found.active_messages() if first <= placed.place <= last)
    return min(count, named + 1)


def _guarded(found: _Conversation, write: RunWrite) -> bool:
    guard = write.guard
    if guard is None:
        return True
    stored = found.runs.get(write.run.id)
    if stored is None:
        return False
    run = stored.run
    is_as_read = RunGuard(
        revision=run.revision,
        owner_id=run.owner_id,
        fencing_token=run.fencing_token,
        lease=guard.lease,
        lease_expires_at=run.lease_expires_at if guard.lease else None,
    )
    return guard == is_as_read


def _is_as_expected(run: Run, expected: Run) -> bool:
    return (run.state, run.owner_id, run.fencing_token) == (
        expected.state,
        expected.owner_id,
        expected.fencing_token,
    )


def _changed(found: _Conversation, mutation: HistoryMutation) -> _Conversation:
    match mutation:
        case InsertMessage():
            placed = PlacedMessage(message=mutation.message, place=mutation.place)
            return _with_messages(found, placed)
        case UpdateMessage():
            old = found.messages[mutation.message.id]
            return _with_messages(found, replace(old, message=mutation.message))
        case MoveMessages():
            moved = [
                replace(found.messages[identity], place=place)
                for identity, place in mutation.moves
                if identity in found.messages and found.messages[identity].archived_at is None
            ]
            return _with_messages(found, *moved)
        case ReplaceRange():
            return _replaced(found, mutation)
        case DeleteAll():
            return _Conversation(head=found.head)
        case _:
            assert_never(mutation)


def _replaced(found: _Conversation, mutation: ReplaceRange) -> _Conversation:
    gone = [
        placed
        for placed in found.active_messages()
        if mutation.first <= placed.place <= mutation.last
    ]
    if mutation.archive:
        archived = [
            replace(placed, archived_at=mutation.moment, replaced_by=mutation.summary.id)
            for placed in gone
        ]
        found = _with_messages(found, *archived)
    else:
        messages = _without(found.messages, [placed.message.id for placed in gone])
        found = replace(found, messages=messages)
    return _with_messages(found, PlacedMessage(message=mutation.summary, place=mutation.first))


def _with_messages(found: _Conversation, *placed: PlacedMessage) -> _Conversation:
    owned = {one.message.id: _own_placed(one) for one in placed}
    return replace(found, messages={**found.messages, **owned})


def _without(rows: dict[str, T], gone: Iterable[str]) -> dict[str, T]:
    absent = set(gone)
    return {key: row for key, row in rows.items() if key not in absent}


# A record is frozen, the JSON inside it is not: what comes in and what goes out is copied, so that
# nobody outside can change what is kept.


def _own_message(message: Message) -> Message:
    return replace(message, parts=owned_parts(message.parts))


def _own_placed(placed: PlacedMessage) -> PlacedMessage:
    return replace(placed, message=_own_message(placed.message))


def _own_receipt(receipt: AdmissionReceipt) -> AdmissionReceipt:
    return replace(receipt, input=_own_message(receipt.input))


def _own_stored(stored: StoredRun) -> StoredRun:
    answer = stored.terminal_assistant
    return stored if answer is None else replace(stored, terminal_assistant=_own_message(answer))
