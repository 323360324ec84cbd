"""DjangoDriver: maps rows to records and back, in one transaction an operation; decides nothing."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.db.utils import Error
from msgspec.structs import replace

from stitchkit_django.core.driver import (
    ActiveRuns,
    ConversationRows,
    ConversationView,
    DeleteAll,
    Facts,
    InsertMessage,
    MessagePage,
    MoveMessages,
    PlacedMessage,
    ReplaceRange,
    RunFacts,
    RunScan,
    UpdateMessage,
)
from stitchkit_django.core.errors import StoreUnavailableError
from stitchkit_django.models import AdmissionReceipt, Message, Run
from stitchkit_django.statements import Statements
from stitchkit_django.statements.rows import RowReader, first_moment, first_text, scanned_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from stitchkit_django.core import driver as ports
    from stitchkit_django.core import records
    from stitchkit_django.statements import Statement

    Row = Sequence[Any]

T = TypeVar("T")

RETRY_SECONDS: Final = 60.0
"""How long a transaction that the database refuses is run again."""
RETRY_LEAST: Final = 10
"""How often it is, at least."""
FIRST_PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.5
# Ids in one statement: fewer than SQLite's lowest limit of variables.
IDS_A_STATEMENT: Final = 900


class DjangoDriver:
    """Keeps conversations in the database behind one alias.

    A transaction that the database refuses (a serialization failure, a deadlock, a busy SQLite) is
    run again, with random pauses, when the store has opened it. Inside a caller's `atomic` that
    would repeat only the last part of the caller's work, so there the refusal is raised.
    """

    def __init__(self, using: str) -> None:
        """Take a database.

        Args:
            using: its alias.

        Raises:
            ImproperlyConfigured: USE_TZ is off, or the database's AUTOCOMMIT is.
        """
        self.using = using
        self._statements: Statements | None = None
        if not settings.USE_TZ:
            msg = "stitchkit_django keeps moments with their time zone: set USE_TZ = True"
            raise ImproperlyConfigured(msg)
        self._check_autocommit(on=connections[using].settings_dict["AUTOCOMMIT"])

    def transaction(self, work: Callable[[DjangoTransaction], T]) -> T:
        """Run the work in one transaction, again while the database refuses it."""

        def attempt() -> T:
            # At the outermost level this makes no savepoint.
            with transaction.atomic(using=self.using):
                current = DjangoTransaction(self.using, self._sql)
                result = work(current)
                if current.made_head_in_vain:
                    transaction.set_rollback(True, using=self.using)
                return result

        return self._tried(attempt)

    def snapshot(self, conversation_id: str) -> ConversationView:
        """Read a whole conversation, in one statement."""
        found = self._read(conversation_id, self._sql.reads.snapshot(conversation_id))
        messages = [found.reader.message(row) for row in found.of("message")]
        runs = [found.reader.run(row) for row in (*found.of("active"), *found.of("run"))]
        return ConversationView(
            head=found.head(),
            messages=tuple(sorted(messages, key=_place)),
            runs=tuple(sorted(runs, key=_turn)),
        )

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        """Read one run and the head, in one statement."""
        found = self._read(conversation_id, self._sql.reads.run(conversation_id, run_id))
        row = found.first("run")
        return RunFacts(
            head=found.head(),
            moment=found.moment(),
            run=None if row is None else found.reader.stored_run(row),
        )

    def active_runs(self, conversation_id: str) -> ActiveRuns:
        """Read the active runs and the head, in one statement."""
        found = self._read(conversation_id, self._sql.reads.active_runs(conversation_id))
        return ActiveRuns(head=found.head(), runs=found.runs("active"))

    def messages(self, conversation_id: str, before: ports.Place | None, limit: int) -> MessagePage:
        """Read the last `limit` active messages before a place, in one statement."""
        statement = self._sql.reads.messages(conversation_id, before, limit)
        found = self._read(conversation_id, statement)
        messages = [found.reader.message(row) for row in found.of("message")]
        return MessagePage(head=found.head(), messages=tuple(sorted(messages, key=_place)))

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        """Read `limit` active runs of all conversations whose key is over the cursor."""
        return self._scan(self._sql.reads.scan_active(cursor, limit))

    def scan_ended(self, before: datetime, cursor: int, limit: int) -> RunScan:
        """Read `limit` runs that ended before a moment and whose key is over the cursor."""
        return self._scan(self._sql.reads.scan_ended(before, cursor, limit))

    def renew(self, expected: records.Run, renewed: records.Run) -> bool:
        """Write the lease of the renewed run, if state, owner and fence are as expected."""
        statement = self._sql.writes.renew(expected, renewed)
        return self._tried(lambda: _changed(self.using, statement)) == 1

    def rows(self, conversation_id: str) -> ConversationRows | None:
        """Read all rows of a conversation, archived ones too; None when it has no head."""
        found = self._read(conversation_id, self._sql.reads.rows(conversation_id))
        head, reader = found.head(), found.reader
        if head is None:
            return None
        runs = [reader.stored_run(row) for row in found.of("run")]
        receipts = [reader.receipt(row) for row in found.of("receipt")]
        messages = [reader.message(row) for row in found.of("message")]
        return ConversationRows(
            head=head,
            runs=tuple(sorted(runs, key=lambda stored: (stored.run.turn, stored.run.id))),
            receipts=tuple(sorted(receipts, key=lambda receipt: receipt.idempotency_key)),
            messages=tuple(sorted(messages, key=lambda one: (one.place, one.message.id))),
        )

    @property
    def _sql(self) -> Statements:
        if self._statements is None:
            self._statements = Statements(self.using)
        return self._statements

    def _read(self, conversation_id: str, statement: Statement) -> _Found:
        rows = self._tried(lambda: _fetched(self.using, statement))
        return _Found(RowReader(self._sql.dialect, conversation_id), rows)

    def _scan(self, statement: Statement) -> RunScan:
        found = self._read("", statement)
        runs = [scanned_run(self._sql.dialect, row) for row in found.of("run")]
        return RunScan(moment=found.moment(), runs=tuple(sorted(runs, key=_key)))

    def _tried(self, attempt: Callable[[], T]) -> T:
        connection = connections[self.using]
        if connection.in_atomic_block:
            return self._tried_once(attempt)
        deadline = time.monotonic() + RETRY_SECONDS
        tries = 0
        while True:
            try:
                self._check_autocommit(on=connection.get_autocommit())
                return attempt()
            except Error as error:
                # A broken connection would refuse the caller's own next try, too.
                connection.close_if_unusable_or_obsolete()
                tries += 1
                given_up = tries >= RETRY_LEAST and time.monotonic() >= deadline
                if given_up or not self._sql.dialect.is_transient(error):
                    msg = f"the database failed ({tries} tries): {error}"
                    raise StoreUnavailableError(msg) from error
            longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**tries)
            time.sleep(random.uniform(0, longest))  # noqa: S311 - only spreads writers out

    def _tried_once(self, attempt: Callable[[], T]) -> T:
        try:
            return attempt()
        except Error as error:
            dialect = self._sql.dialect
            hint = f": {dialect.refused_hint}" if dialect.is_transient(error) else ""
            msg = f"the database failed inside the caller's transaction{hint} ({error})"
            raise StoreUnavailableError(msg) from error

    def _check_autocommit(self, *, on: bool) -> None:
        if not on:
            msg = (
                f"database {self.using!r} is not in autocommit mode, so the store can't tell where "
                "a transaction ends: leave AUTOCOMMIT on and use transaction.atomic"
            )
            raise ImproperlyConfigured(msg)


class DjangoTransaction:
    """One transaction: the head is locked by the first read, and held to the end."""

    def __init__(self, using: str, sql: Statements) -> None:
        """Begin; nothing is sent yet."""
        self._using = using
        self._sql = sql
        self.made_head_in_vain = False
        """Whether a head was inserted for an admission that has written nothing."""

    def read(self, wanted: ports.ReadSet) -> Facts:
        """Lock the head, then read what is wanted, in statements of their own."""
        head = self._lock(wanted.conversation_id, admits=wanted.admits)
        if head is None:
            return Facts(moment=self._sql.dialect.now())
        reader = RowReader(self._sql.dialect, wanted.conversation_id)
        found = _Found(reader, self._fetched(self._sql.reads.facts(wanted)))
        receipt, stored, absorber = (
            found.first("receipt"),
            found.first("receipt_run"),
            found.first("absorber"),
        )
        facts = Facts(
            head=head,
            moment=found.moment(),
            receipt=None if receipt is None else reader.receipt(receipt),
            receipt_run=None if stored is None else reader.stored_run(stored),
            absorber=None if absorber is None else reader.stored_run(absorber),
            run=found.run("run"),
            assistant=found.assistant(),
            others=found.runs("other"),
            answered=found.texts("answered"),
            first_active=found.run("first_active"),
            active=found.runs("active"),
            taken=found.texts("taken"),
        )
        return self._with_range(facts, wanted) if wanted.range_ids else facts

    def write(self, changes: ports.WriteSet) -> bool:
        """Write all, the guarded runs first, or nothing when one or the head has moved."""
        sql, head, version = self._sql.writes, changes.head, changes.expected_version
        guarded = [(one, one.guard) for one in changes.runs if one.guard is not None]
        if len(guarded) > 1:
            # The first could be written before the second is found to have moved.
            count = sql.count_guarded([(one.run, guard) for one, guard in guarded])
            if self._fetched(count)[0][0] != len(guarded):
                return False
        wrote = False
        for one, guard in guarded:
            if not self._changed(sql.update_run(one, guard, version)):
                return self._refused(wrote=wrote)
            wrote = True
        if not self._changed(sql.update_head(head, version)):
            return self._refused(wrote=wrote)
        self.made_head_in_vain = False
        for one in changes.runs:
            if one.guard is None:
                self._changed(sql.insert_run(one.run, one.answer))
        if changes.receipt is not None:
            self._changed(sql.insert_receipt(changes.receipt))
        for mutation in changes.history:
            self._mutate(head.conversation_id, mutation)
        return True

    def forget(self, conversation_id: str, run_id: str, *, limit: int) -> int:
        """Delete at most `limit` receipts of a run, and with the last of them the run itself."""
        if self._lock(conversation_id) is None:
            return 0
        run = Run.objects.using(self._using).filter(conversation_id=conversation_id, run_id=run_id)
        receipts = AdmissionReceipt.objects.using(self._using).filter(
            conversation_id=conversation_id, run_id=run_id
        )
        if not run.exists():
            return 0
        keys = list(receipts.order_by("id").values_list("id", flat=True)[: limit + 1])
        gone = keys[:limit]
        if gone:
            receipts.filter(id__lte=gone[-1]).delete()
        if len(keys) > limit:
            return len(gone)
        run.delete()
        return len(gone) + 1

    def forget_archived(self, conversation_id: str, before: datetime, *, limit: int) -> int:
        """Delete at most `limit` messages that were archived before a moment."""
        if self._lock(conversation_id) is None:
            return 0
        archived = Message.objects.using(self._using).filter(
            conversation_id=conversation_id, active=None, archived_at__lt=before
        )
        keys = list(archived.order_by("id").values_list("id", flat=True)[:limit])
        if keys:
            archived.filter(id__lte=keys[-1]).delete()
        return len(keys)

    def restore(self, rows: ConversationRows) -> bool:
        """Write a whole conversation; False, and nothing written, when its head exists."""
        sql, conversation_id = self._sql.writes, rows.head.conversation_id
        self._lock(conversation_id, admits=True)
        if not self.made_head_in_vain:
            return False
        self.made_head_in_vain = False
        self._changed(sql.update_head(rows.head, 0))
        for stored in rows.runs:
            self._changed(sql.insert_run(stored.run, stored.terminal_assistant))
        for receipt in rows.receipts:
            self._changed(sql.insert_receipt(receipt))
        for placed in rows.messages:
            self._changed(sql.insert_message(placed))
        return True

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Call back once the outermost transaction has committed, and never if it hasn't."""
        transaction.on_commit(callback, using=self._using)

    def _lock(self, conversation_id: str, *, admits: bool = False) -> records.Head | None:
        reader = RowReader(self._sql.dialect, conversation_id)
        rows = self._fetched(self._sql.reads.lock(conversation_id))
        if not rows and admits:
            rows = self._fetched(self._sql.reads.make_head(conversation_id))
        if not rows:
            return None
        head = reader.locked_head(rows[0])
        # A head is committed with the version that its first admission writes, never with 0.
        self.made_head_in_vain = head.version == 0
        return head

    def _with_range(self, facts: Facts, wanted: ports.ReadSet) -> Facts:
        where, named = wanted.conversation_id, wanted.range_ids
        reader = RowReader(self._sql.dialect, where)
        rows: list[Row] = []
        for start in range(0, len(named), IDS_A_STATEMENT):
            some = named[start : start + IDS_A_STATEMENT]
            rows += self._fetched(self._sql.reads.members(where, some))
        members = sorted(map(reader.member, rows), key=lambda member: member.place)
        between = 0
        if members:
            first, last = members[0].place, members[-1].place
            count = self._sql.reads.count_between(where, first, last, len(named) + 1)
            between = self._fetched(count)[0][0]
        return replace(facts, members=tuple(members), between=between)

    def _mutate(self, conversation_id: str, mutation: ports.HistoryMutation) -> None:
        sql = self._sql.writes
        match mutation:
            case InsertMessage():
                placed = PlacedMessage(message=mutation.message, place=mutation.place)
                self._changed(sql.insert_message(placed))
            case UpdateMessage():
                self._changed(sql.update_message(mutation.message))
            case MoveMessages():
                for identity, place in mutation.moves:
                    self._changed(sql.move_message(conversation_id, identity, place))
            case ReplaceRange():
                self._changed(sql.clear_range(conversation_id, mutation))
                summary = PlacedMessage(message=mutation.summary, place=mutation.first)
                self._changed(sql.insert_message(summary))
            case DeleteAll():
                for statement in sql.delete_all(conversation_id):
                    self._changed(statement)
            case _:
                assert_never(mutation)

    def _refused(self, *, wrote: bool) -> bool:
        # Under the head's lock, and after the guards were counted, only a write past the store can
        # bring this about; what was written so far must not stay.
        if wrote:
            msg = "a row was changed past the store, in the middle of a write: nothing was written"
            raise StoreUnavailableError(msg)
        return False

    def _fetched(self, statement: Statement) -> list[Row]:
        return _fetched(self._using, statement)

    def _changed(self, statement: Statement) -> int:
        return _changed(self._using, statement)


class _Found:
    """The rows of one read, by kind."""

    def __init__(self, reader: RowReader, rows: list[Row]) -> None:
        self.reader = reader
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            self._rows.setdefault(row[0], []).append(row)

    def of(self, kind: str) -> list[Row]:
        return self._rows.get(kind, [])

    def first(self, kind: str) -> Row | None:
        rows = self.of(kind)
        return rows[0] if rows else None

    def head(self) -> records.Head | None:
        row = self.first("head")
        return None if row is None else self.reader.head(row)

    def run(self, kind: str) -> records.Run | None:
        row = self.first(kind)
        return None if row is None else self.reader.run(row)

    def runs(self, kind: str) -> tuple[records.Run, ...]:
        return tuple(sorted((self.reader.run(row) for row in self.of(kind)), key=_turn))

    def texts(self, kind: str) -> frozenset[str]:
        return frozenset(map(first_text, self.of(kind)))

    def assistant(self) -> records.Message | ports.AssistantOutline | None:
        outline, whole = self.first("outline"), self.first("assistant")
        if whole is not None:
            return self.reader.message(whole).message
        return None if outline is None else self.reader.outline(outline)

    def moment(self) -> datetime:
        return self.reader.clock(first_moment(self.of("clock")[0]))


def _fetched(using: str, statement: Statement) -> list[Row]:
    with connections[using].cursor() as cursor:
        cursor.execute(*statement)
        rows: list[Row] = cursor.fetchall()
        return rows


def _changed(using: str, statement: Statement) -> int:
    with connections[using].cursor() as cursor:
        cursor.execute(*statement)
        count: int = cursor.rowcount
        return count


def _turn(run: records.Run) -> int:
    return run.turn


def _place(placed: PlacedMessage) -> ports.Place:
    return placed.place


def _key(keyed: ports.KeyedRun) -> int:
    return keyed.key
