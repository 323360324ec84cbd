"""SQLiteTransaction: reads the rows that the store names, and writes its write sets, guarded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, assert_never

from msgspec.structs import replace

from stitchkit_django.core import Facts, Head, PlacedMessage
from stitchkit_django.core.driver import (
    AssistantOutline,
    AssistantWanted,
    DeleteAll,
    InsertMessage,
    MoveMessages,
    RangeMember,
    ReplaceRange,
    RunWrite,
    UpdateMessage,
)
from stitchkit_django.core.wire import encode_record
from tests.sqlite3_driver import tables
from tests.sqlite3_driver.tables import moment_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from stitchkit_django.core import AdmissionReceipt, Message, ReadSet, Run, StoredRun, WriteSet
    from stitchkit_django.core.driver import ConversationRows, HistoryMutation

ACTIVE: Final = "WHERE conversation_id = ? AND archived_at IS NULL"
RANGE: Final = f"{ACTIVE} AND (turn, slot) >= (?, ?) AND (turn, slot) <= (?, ?)"


class SQLiteTransaction:
    """One transaction; it has begun with BEGIN IMMEDIATE, which locks every head at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.callbacks: list[Callable[[], object]] = []

    def read(self, wanted: ReadSet) -> Facts:
        """Read what is wanted; the moment is taken after the lock was granted."""
        moment, where = datetime.now(UTC), wanted.conversation_id
        row = self._one("SELECT * FROM head WHERE conversation_id = ?", where)
        if row is None:
            new = Head(conversation_id=where, version=0, updated_at=moment)
            return Facts(head=new if wanted.admits else None, moment=moment)
        facts = Facts(head=tables.head(row), moment=moment)
        if wanted.idempotency_key is not None:
            facts = self._with_receipt(facts, where, wanted.idempotency_key)
        if wanted.run_id is not None:
            facts = self._with_run(facts, where, wanted.run_id, wanted.assistant)
        if wanted.range_ids:
            facts = self._with_range(facts, where, wanted.range_ids)
        others = [self._run(where, one) for one in wanted.other_run_ids]
        found = tuple(one.run for one in others if one is not None)
        answers = {one.id: self._message(where, one.assistant_message_id) for one in found}
        active = self.active_runs(where) if wanted.first_active or wanted.all_active else []
        return replace(
            facts,
            others=found,
            answered=frozenset(one for one, answer in answers.items() if answer is not None),
            first_active_id=active[0].id if wanted.first_active and active else None,
            active=tuple(active) if wanted.all_active else (),
            taken=self._taken(wanted),
        )

    def write(self, changes: WriteSet) -> bool:
        """Write all, or nothing when the head or a guarded run has moved."""
        self._connection.execute("SAVEPOINT write_set")
        written = self._write_head(changes) and all(map(self._write_run, changes.runs))
        if written:
            if changes.receipt is not None:
                self._insert_receipt(changes.receipt)
            for mutation in changes.history:
                self._change_history(changes.head.conversation_id, mutation)
        else:
            self._connection.execute("ROLLBACK TO write_set")
        self._connection.execute("RELEASE write_set")
        return written

    def _write_head(self, changes: WriteSet) -> bool:
        head = changes.head
        if changes.expected_version == 0:
            sql = "INSERT INTO head VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            return self._changed(sql, head.conversation_id, head.version, encode_record(head)) == 1
        changed = self._changed(
            "UPDATE head SET version = ?, record = ? WHERE conversation_id = ? AND version = ?",
            head.version,
            encode_record(head),
            head.conversation_id,
            changes.expected_version,
        )
        return changed == 1

    def _write_run(self, write: RunWrite) -> bool:
        run, guard = write.run, write.guard
        if guard is None:
            self._insert_run(run, write.answer)
            return True
        columns = _run_columns(run, write.answer)
        if write.lease:
            columns |= _lease_columns(run)
        assigned = ", ".join(f"{column} = ?" for column in columns)
        guarded = "revision = ? AND owner_id IS ? AND fencing_token IS ?"
        as_read = [guard.revision, guard.owner_id, guard.fencing_token]
        if guard.lease:
            guarded += " AND lease_expires_at IS ?"
            as_read.append(moment_text(guard.lease_expires_at))
        changed = self._changed(
            f"UPDATE run SET {assigned} WHERE conversation_id = ? AND run_id = ? AND {guarded}",
            *columns.values(),
            run.conversation_id,
            run.id,
            *as_read,
        )
        return changed == 1

    def _change_history(self, where: str, mutation: HistoryMutation) -> None:
        match mutation:
            case InsertMessage():
                placed = PlacedMessage(message=mutation.message, place=mutation.place)
                self._insert_message(placed)
            case UpdateMessage():
                sql = "UPDATE message SET record = ? WHERE conversation_id = ? AND message_id = ?"
                self._changed(sql, encode_record(mutation.message), where, mutation.message.id)
            case MoveMessages():
                sql = f"UPDATE message SET turn = ?, slot = ? {ACTIVE} AND message_id = ?"
                for identity, place in mutation.moves:
                    self._changed(sql, *place, where, identity)
            case ReplaceRange():
                self._replace_range(where, mutation)
            case DeleteAll():
                for table in ("message", "receipt", "run"):
                    self._changed(f"DELETE FROM {table} WHERE conversation_id = ?", where)
            case _:
                assert_never(mutation)

    def _replace_range(self, where: str, mutation: ReplaceRange) -> None:
        between = (where, *mutation.first, *mutation.last)
        if mutation.archive:
            archived = (moment_text(mutation.moment), mutation.summary.id)
            sql = f"UPDATE message SET archived_at = ?, replaced_by = ? {RANGE}"
            self._changed(sql, *archived, *between)
        else:
            self._changed(f"DELETE FROM message {RANGE}", *between)
        self._insert_message(PlacedMessage(message=mutation.summary, place=mutation.first))

    def forget(self, conversation_id: str, run_id: str, *, limit: int) -> int:
        """Delete at most `limit` receipts of a run, and with the last of them the run itself."""
        of_run, key = "WHERE conversation_id = ? AND run_id = ?", (conversation_id, run_id)
        some = f"SELECT rowid FROM receipt {of_run} ORDER BY rowid LIMIT ?"
        gone = self._changed(f"DELETE FROM receipt WHERE rowid IN ({some})", *key, limit)
        if self._one(f"SELECT 1 FROM receipt {of_run}", *key) is not None:
            return gone
        return gone + self._changed(f"DELETE FROM run {of_run}", *key)

    def forget_archived(self, conversation_id: str, before: datetime, *, limit: int) -> int:
        """Delete at most `limit` messages that were archived before a moment."""
        some = "SELECT rowid FROM message WHERE conversation_id = ? AND archived_at < ? LIMIT ?"
        values = (conversation_id, moment_text(before), limit)
        return self._changed(f"DELETE FROM message WHERE rowid IN ({some})", *values)

    def restore(self, rows: ConversationRows) -> bool:
        """Write a whole conversation; False, and nothing written, when its head exists."""
        head = rows.head
        sql = "INSERT INTO head VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        if self._changed(sql, head.conversation_id, head.version, encode_record(head)) == 0:
            return False
        for stored in rows.runs:
            self._insert_run(stored.run, stored.terminal_assistant)
        for receipt in rows.receipts:
            self._insert_receipt(receipt)
        for placed in rows.messages:
            self._insert_message(placed)
        return True

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Keep the callback; the driver calls it once it has committed."""
        self.callbacks.append(callback)

    def active_runs(self, where: str) -> list[Run]:
        """Read the active runs of a conversation, by turn."""
        sql = "SELECT * FROM run WHERE conversation_id = ? AND ended_at IS NULL ORDER BY turn"
        return list(map(tables.run, self._connection.execute(sql, (where,))))

    def _with_receipt(self, facts: Facts, where: str, key: str) -> Facts:
        sql = "SELECT * FROM receipt WHERE conversation_id = ? AND idempotency_key = ?"
        row = self._one(sql, where, key)
        if row is None:
            return facts
        receipt = tables.receipt(row)
        stored = self._run(where, receipt.run_id)
        absorber_id = None if stored is None else stored.run.absorbed_into_run_id
        absorber = None if absorber_id is None else self._run(where, absorber_id)
        return replace(facts, receipt=receipt, receipt_run=stored, absorber=absorber)

    def _with_run(
        self, facts: Facts, where: str, run_id: str, wanted: AssistantWanted | None
    ) -> Facts:
        stored = self._run(where, run_id)
        if stored is None:
            return facts
        placed = self._message(where, stored.run.assistant_message_id)
        if wanted is None or placed is None:
            return replace(facts, run=stored.run)
        message = placed.message
        outline = AssistantOutline(
            created_at=message.created_at,
            metadata=message.metadata,
            parts=message.parts if wanted is AssistantWanted.WHOLE else (),
        )
        return replace(facts, run=stored.run, assistant=outline)

    def _with_range(self, facts: Facts, where: str, identities: tuple[str, ...]) -> Facts:
        found = [self._message(where, identity) for identity in identities]
        active = [one for one in found if one is not None and one.archived_at is None]
        if not active:
            return facts
        members = sorted(
            [
                RangeMember(id=one.message.id, place=one.place, status=one.message.status)
                for one in active
            ],
            key=lambda member: member.place,
        )
        sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM message {RANGE} LIMIT ?)"
        between = (where, *members[0].place, *members[-1].place, len(identities) + 1)
        row = self._one(sql, *between)
        return replace(facts, members=tuple(members), between=0 if row is None else row[0])

    def _taken(self, wanted: ReadSet) -> frozenset[str]:
        where = wanted.conversation_id
        taken = {one for one in wanted.new_message_ids if self._is_taken(where, one)}
        if wanted.new_run_id is not None and self._run(where, wanted.new_run_id) is not None:
            taken.add(wanted.new_run_id)
        return frozenset(taken)

    def _is_taken(self, where: str, identity: str) -> bool:
        row = self._one(
            "SELECT 1 FROM message WHERE conversation_id = ? AND message_id = ? UNION ALL "
            "SELECT 1 FROM receipt WHERE conversation_id = ? AND input_id = ? UNION ALL "
            "SELECT 1 FROM run WHERE conversation_id = ? AND assistant_message_id = ?",
            *(where, identity) * 3,
        )
        return row is not None

    def _run(self, where: str, run_id: str) -> StoredRun | None:
        row = self._one("SELECT * FROM run WHERE conversation_id = ? AND run_id = ?", where, run_id)
        return None if row is None else tables.stored_run(row)

    def _message(self, where: str, identity: str) -> PlacedMessage | None:
        sql = "SELECT * FROM message WHERE conversation_id = ? AND message_id = ?"
        row = self._one(sql, where, identity)
        return None if row is None else tables.placed(row)

    def _insert_run(self, run: Run, answer: Message | None) -> None:
        key = {
            "conversation_id": run.conversation_id,
            "run_id": run.id,
            "assistant_message_id": run.assistant_message_id,
            "turn": run.turn,
        }
        self._insert("run", key | _run_columns(run, answer) | _lease_columns(run))

    def _insert_receipt(self, receipt: AdmissionReceipt) -> None:
        columns = {
            "conversation_id": receipt.conversation_id,
            "idempotency_key": receipt.idempotency_key,
            "input_id": receipt.input.id,
            "run_id": receipt.run_id,
            "record": encode_record(receipt),
        }
        self._insert("receipt", columns)

    def _insert_message(self, placed: PlacedMessage) -> None:
        message = placed.message
        columns = {
            "conversation_id": message.conversation_id,
            "message_id": message.id,
            "turn": placed.place.turn,
            "slot": placed.place.slot,
            "archived_at": moment_text(placed.archived_at),
            "replaced_by": placed.replaced_by,
            "record": encode_record(message),
        }
        self._insert("message", columns)

    def _insert(self, table: str, columns: dict[str, Any]) -> None:
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        self._changed(sql, *columns.values())

    def _one(self, sql: str, *values: Any) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(sql, values).fetchone()
        return row

    def _changed(self, sql: str, *values: Any) -> int:
        return self._connection.execute(sql, values).rowcount


def _run_columns(run: Run, answer: Message | None) -> dict[str, Any]:
    # Without its lease, which stands in columns alone.
    unleased = replace(run, lease_seconds=None, lease_expires_at=None)
    return {
        "state": str(run.state),
        "revision": run.revision,
        "owner_id": run.owner_id,
        "fencing_token": run.fencing_token,
        "ended_at": moment_text(run.ended_at),
        "record": encode_record(unleased),
        "answer": None if answer is None else encode_record(answer),
    }


def _lease_columns(run: Run) -> dict[str, Any]:
    return {
        "lease_seconds": run.lease_seconds,
        "lease_expires_at": moment_text(run.lease_expires_at),
    }
