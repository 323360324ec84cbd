"""DjangoTransaction: locks, reads and writes the rows that the store names; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from django.db import transaction
from msgspec.structs import replace

from stitchkit_django.core.driver import (
    DeleteAll,
    Facts,
    InsertMessage,
    MoveMessages,
    PlacedMessage,
    ReplaceRange,
    UpdateMessage,
)
from stitchkit_django.core.errors import StoreUnavailableError, shown
from stitchkit_django.models import AdmissionReceipt, Run
from stitchkit_django.statements.rows import (
    FULL,
    RowReader,
    extras,
    first_moment,
    first_text,
    place_of_message,
    turn_of_run,
    widened,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from django.db.backends.utils import CursorWrapper

    from stitchkit_django.core import driver as ports
    from stitchkit_django.core import records
    from stitchkit_django.hosts import Host
    from stitchkit_django.statements import Statement, Statements
    from stitchkit_django.statements.rows import Widths
    from stitchkit_django.statements.writes import Following

    Row = Sequence[Any]

T = TypeVar("T")

IDS_A_STATEMENT: Final = 300
"""Fewer than SQLite's lowest limits of variables and of terms."""
MOST_COMBINED: Final = 8
"""Guarded runs in one statement; each is a part of it, and many parts take long to plan."""


class DjangoTransaction:
    """One transaction: the head is locked by the first read, and held to the end."""

    def __init__(self, using: str, sql: Statements, cursor: CursorWrapper) -> None:
        """Take what the statements run through; nothing is sent yet."""
        self._using = using
        self._sql = sql
        self._cursor = cursor
        self.made_head_in_vain = False
        """Whether a head was inserted for an admission that has written nothing."""

    def read(self, wanted: ports.ReadSet) -> Facts:
        """Lock the head, then read what is wanted, in statements of their own."""
        head = self._lock(wanted.conversation_id, admits=wanted.admits)
        if head is None:
            return Facts(moment=self._sql.dialect.now())
        if wanted.all_active:
            facts = self._queue_facts(head, wanted)
        elif wanted.run_id is not None and wanted.idempotency_key is None:
            facts = self._run_facts(head, wanted)
        else:
            facts = self._admission_facts(head, wanted)
        return self._with_range(facts, wanted) if wanted.range_ids else facts

    def write(self, changes: ports.WriteSet) -> bool:
        """Write all, or nothing when the head or a guarded run has moved."""
        guarded = [(one, one.guard) for one in changes.runs if one.guard is not None]
        if len(guarded) > 1 and not self._are_as_read(guarded):
            # The first could be written before the second is found to have moved.
            return False
        combines = self._sql.dialect.combines_writes and len(guarded) <= MOST_COMBINED
        if not (self._write_at_once(changes) if combines else self._write_in_turn(changes)):
            return False
        self.made_head_in_vain = False
        for mutation in changes.history:
            self._rearrange(changes.head.conversation_id, mutation)
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
            receipts.filter(id__lte=gone[-1]).only("id").delete()
        if len(keys) > limit:
            return len(gone)
        run.only("id").delete()
        return len(gone) + 1

    def forget_archived(self, conversation_id: str, before: datetime, *, limit: int) -> int:
        """Delete at most `limit` messages that were archived before a moment."""
        if self._lock(conversation_id) is None:
            return 0
        host = self._sql.hosts["message"]
        where, archived_at, *place = host.own(
            "conversation_id", "archived_at", "active", "turn", "slot"
        )
        rows = host.rows(self._using)
        archived = rows.filter(
            **{where: conversation_id, place[0]: None, f"{archived_at}__lt": before}
        )
        # In the order of the index of places: for the lowest keys of a conversation PostgreSQL may
        # rather walk the keys of all.
        keys = list(archived.order_by(*place).values_list("pk", flat=True)[:limit])
        for start in range(0, len(keys), IDS_A_STATEMENT):
            rows.filter(pk__in=keys[start : start + IDS_A_STATEMENT]).only("pk").delete()
        return len(keys)

    def restore(self, rows: ports.ConversationRows) -> bool:
        """Write a whole conversation; False, and nothing written, when its head exists."""
        sql, conversation_id = self._sql.writes, rows.head.conversation_id
        if self._lock(conversation_id, admits=True) is None:
            raise _not_ours_to_make(conversation_id, self._sql.hosts["head"])
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
        if not rows and admits and self._sql.makes_heads:
            rows = self._fetched(self._sql.reads.make_head(conversation_id))
        if not rows:
            return None
        head = reader.head_of(rows[0])
        # A head is committed with the version that its first admission writes, never with 0.
        self.made_head_in_vain = head.version == 0
        return head

    def _run_facts(self, head: records.Head, wanted: ports.ReadSet) -> Facts:
        reader = RowReader(self._sql.dialect, wanted.conversation_id)
        rows = self._fetched(self._sql.reads.run_facts(wanted))
        if not rows:
            return Facts(head=head, moment=self._sql.dialect.now())
        moment, first_active_id, *_ = extras(rows[0])
        others, answered = self._others(reader, wanted) if wanted.other_run_ids else ((), ())
        return Facts(
            head=head,
            moment=reader.clock(moment),
            run=reader.run(rows[0]),
            assistant=reader.outline(rows[0]),
            first_active_id=first_active_id,
            others=tuple(others),
            answered=frozenset(answered),
        )

    def _others(
        self, reader: RowReader, wanted: ports.ReadSet
    ) -> tuple[Sequence[records.Run], Iterable[str]]:
        others: list[records.Run] = []
        answered: set[str] = set()
        for start in range(0, len(wanted.other_run_ids), IDS_A_STATEMENT):
            some = wanted.other_run_ids[start : start + IDS_A_STATEMENT]
            statement = self._sql.reads.others(wanted.conversation_id, some)
            found = Found(reader, self._fetched(statement), statement.widths)
            others += found.runs("other")
            answered |= found.texts("answered")
        return others, answered

    def _queue_facts(self, head: records.Head, wanted: ports.ReadSet) -> Facts:
        reader = RowReader(self._sql.dialect, wanted.conversation_id)
        statement = self._sql.reads.queue(wanted.conversation_id)
        found = Found(reader, self._fetched(statement), statement.widths)
        return Facts(head=head, moment=found.moment(), active=found.runs("active"))

    def _admission_facts(self, head: records.Head, wanted: ports.ReadSet) -> Facts:
        reader = RowReader(self._sql.dialect, wanted.conversation_id)
        row = self._fetched(self._sql.reads.admission(wanted))[0]
        joins = wanted.run_id is not None
        moment, is_known, *taken = extras(row) if joins else row
        new_ids = (*wanted.new_message_ids, wanted.new_run_id)
        facts = Facts(
            head=head,
            moment=reader.clock(moment),
            run=reader.run(row) if joins and first_text(row) is not None else None,
            taken=frozenset(
                identity
                for identity, is_taken in zip(new_ids, taken, strict=True)
                if identity and is_taken
            ),
        )
        # Only a retry asks for more: the receipt, and the run that answers it.
        key = wanted.idempotency_key
        return self._with_receipt(reader, facts, key) if key is not None and is_known else facts

    def _with_receipt(self, reader: RowReader, facts: Facts, key: str) -> Facts:
        row = self._fetched(self._sql.reads.receipt(reader.conversation_id, key))[0]
        run = None if first_text(row) is None else reader.stored_run(row)
        absorber_id = None if run is None else run.run.absorbed_into_run_id
        absorber = absorber_id and self._stored_run(reader, reader.conversation_id, absorber_id)
        return replace(
            facts,
            receipt=reader.receipt_of(extras(row)),
            receipt_run=run,
            absorber=absorber or None,
        )

    def _stored_run(
        self, reader: RowReader, conversation_id: str, run_id: str
    ) -> records.StoredRun | None:
        rows = self._fetched(self._sql.reads.stored_run(conversation_id, run_id))
        return reader.stored_run(rows[0]) if rows else None

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

    def _are_as_read(self, guarded: Sequence[tuple[ports.RunWrite, ports.RunGuard]]) -> bool:
        for start in range(0, len(guarded), IDS_A_STATEMENT):
            some = [(one.run, guard) for one, guard in guarded[start : start + IDS_A_STATEMENT]]
            if self._fetched(self._sql.writes.count_guarded(some))[0][0] != len(some):
                return False
        return True

    def _write_at_once(self, changes: ports.WriteSet) -> bool:
        count: int = self._fetched(self._sql.writes.combined(changes))[0][0]
        if count == 0 and sum(one.guard is not None for one in changes.runs) > 1:
            raise _moved_past_the_store()
        return count == 1

    def _write_in_turn(self, changes: ports.WriteSet) -> bool:
        sql = self._sql.writes
        for number, statement in enumerate(sql.guarded(changes)):
            if self._changed(statement) == 0:
                if number > 0:
                    raise _moved_past_the_store()
                return False
        for following in sql.following(changes):
            self._changed(following)
        return True

    def _rearrange(self, conversation_id: str, mutation: ports.HistoryMutation) -> None:
        sql = self._sql.writes
        match mutation:
            case InsertMessage() | UpdateMessage():
                pass  # written with the head
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

    def _fetched(self, statement: Statement) -> list[Row]:
        return fetched(self._cursor, statement)

    def _changed(self, statement: Statement | Following) -> int:
        return changed(self._cursor, statement)


def _not_ours_to_make(conversation_id: str, host: Host) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"conversation {shown(conversation_id)} has no row in {host.model._meta.label}, and the "
        f"store can't make one, which would need {', '.join(host.wants())}: make it first"
    )


def _moved_past_the_store() -> StoreUnavailableError:
    # Under the head's lock, and after the guards were counted, nothing else can bring this about.
    msg = "a row was changed past the store, in the middle of a write: nothing was written"
    return StoreUnavailableError(msg)


class Found:
    """The rows of one read, by kind."""

    def __init__(self, reader: RowReader, rows: list[Row], widths: Widths) -> None:
        """Take the rows, and how wide the statement's union made them."""
        self.reader = reader
        self._rows: dict[str, list[Row]] = {}
        for row in rows if widths == FULL else [widened(row, widths) for row in rows]:
            self._rows.setdefault(row[0], []).append(row)

    def of(self, kind: str) -> list[Row]:
        """Give the rows of a kind."""
        return self._rows.get(kind, [])

    def built(self, kind: str, build: Callable[[Row], T]) -> T | None:
        """Build what the one row of a kind holds; None where there is none."""
        rows = self.of(kind)
        return build(rows[0]) if rows else None

    def head(self) -> records.Head | None:
        """Build the head; None where there is none."""
        return self.built("head", self.reader.head)

    def runs(self, *kinds: str) -> tuple[records.Run, ...]:
        """Build the runs of some kinds, by turn."""
        rows = [row for kind in kinds for row in self.of(kind)]
        return self.reader.runs(sorted(rows, key=turn_of_run))

    def messages(self) -> tuple[PlacedMessage, ...]:
        """Build the messages, by place."""
        return self.reader.messages(sorted(self.of("message"), key=place_of_message))

    def texts(self, kind: str) -> frozenset[str]:
        """Give the ids that the rows of a kind hold."""
        return frozenset(map(first_text, self.of(kind)))

    def moment(self) -> datetime:
        """Give the moment of the read."""
        return self.reader.clock(first_moment(self.of("clock")[0]))


def fetched(cursor: CursorWrapper, statement: Statement) -> list[Row]:
    """Run a statement and give its rows."""
    cursor.execute(statement.sql, statement.parameters)
    rows: list[Row] = cursor.fetchall()
    return rows


def changed(cursor: CursorWrapper, statement: Statement | Following) -> int:
    """Run a statement and give how many rows it changed."""
    cursor.execute(statement.sql, statement.parameters)
    count: int = cursor.rowcount
    return count
