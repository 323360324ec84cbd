"""SQLiteDriver: the reads, the one write beside the head, and transactions; it decides nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stitchkit_django.core import (
    CorruptRecordError,
    StoreUnavailableError,
    UnsupportedSchemaVersionError,
)
from stitchkit_django.core.driver import (
    ActiveRuns,
    ConversationRows,
    ConversationView,
    KeyedRun,
    MessagePage,
    RunFacts,
    RunScan,
    UnreadableRun,
)
from tests.sqlite3_driver import tables
from tests.sqlite3_driver.tables import moment_text
from tests.sqlite3_driver.transaction import ACTIVE, SQLiteTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stitchkit_django.core import Head, Place, Run

T = TypeVar("T")

BUSY_SECONDS: Final = 60
"""How long a writer waits for the one before it."""


class SQLiteDriver:
    """Keeps conversations in a file; every call opens the file, so that any thread may call."""

    def __init__(self, path: Path) -> None:
        """Make the tables where there are none."""
        self._path = path
        with self._connected() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(tables.SCHEMA)

    def transaction(self, work: Callable[[SQLiteTransaction], T]) -> T:
        """Run the work in one transaction, which has the file to itself."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            transaction = SQLiteTransaction(connection)
            # What the work raises leaves the connection, whose close rolls back.
            result = work(transaction)
            connection.execute("COMMIT")
        for callback in transaction.callbacks:
            callback()
        return result

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=BUSY_SECONDS)) as connection:
                connection.isolation_level = None  # no BEGIN but ours
                connection.row_factory = sqlite3.Row
                yield connection
        except sqlite3.Error as error:
            msg = f"the database {self._path} failed: {error}"
            raise StoreUnavailableError(msg) from error

    def snapshot(self, conversation_id: str) -> ConversationView:
        """Read a whole conversation, as of the first statement."""
        with self._reading() as connection:
            head = _head(connection, conversation_id)
            messages = connection.execute(
                f"SELECT * FROM message {ACTIVE} ORDER BY turn, slot", (conversation_id,)
            )
            placed = tuple(map(tables.placed, messages))
            named = {one.message.run_id for one in placed}
            rows = connection.execute(
                "SELECT * FROM run WHERE conversation_id = ? ORDER BY turn", (conversation_id,)
            )
            runs = [
                tables.run(row) for row in rows if row["ended_at"] is None or row["run_id"] in named
            ]
        return ConversationView(head=head, messages=placed, runs=tuple(runs))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        # In WAL mode the statements of a transaction see the file as of the first of them.
        with self._connected() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        """Read one run and the head."""
        sql = "SELECT * FROM run WHERE conversation_id = ? AND run_id = ?"
        with self._reading() as connection:
            head = _head(connection, conversation_id)
            row = connection.execute(sql, (conversation_id, run_id)).fetchone()
            stored = None if row is None else tables.stored_run(row)
        return RunFacts(head=head, moment=datetime.now(UTC), run=stored)

    def active_runs(self, conversation_id: str) -> ActiveRuns:
        """Read the active runs and the head."""
        with self._reading() as connection:
            head = _head(connection, conversation_id)
            runs = SQLiteTransaction(connection).active_runs(conversation_id)
        return ActiveRuns(head=head, runs=tuple(runs))

    def messages(self, conversation_id: str, before: Place | None, limit: int) -> MessagePage:
        """Read the last `limit` active messages before a place."""
        older = "" if before is None else "AND (turn, slot) < (?, ?)"
        sql = f"SELECT * FROM message {ACTIVE} {older} ORDER BY turn DESC, slot DESC LIMIT ?"
        with self._reading() as connection:
            head = _head(connection, conversation_id)
            rows = connection.execute(sql, (conversation_id, *(before or ()), limit)).fetchall()
        return MessagePage(head=head, messages=tuple(map(tables.placed, reversed(rows))))

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        """Read `limit` active runs of all conversations whose key is over the cursor."""
        return self._scan("ended_at IS NULL", (), cursor, limit)

    def scan_ended(self, before: datetime, cursor: int, limit: int) -> RunScan:
        """Read `limit` runs that ended before a moment and whose key is over the cursor."""
        return self._scan("ended_at < ?", (moment_text(before),), cursor, limit)

    def _scan(self, which: str, values: tuple[Any, ...], cursor: int, limit: int) -> RunScan:
        sql = f"SELECT * FROM run WHERE {which} AND key > ? ORDER BY key LIMIT ?"
        with self._reading() as connection:
            rows = connection.execute(sql, (*values, cursor, limit)).fetchall()
        runs: list[KeyedRun] = []
        unreadable: UnreadableRun | None = None
        for row in rows:
            try:
                runs.append(KeyedRun(row["key"], tables.run(row)))
            except (CorruptRecordError, UnsupportedSchemaVersionError) as error:
                unreadable = UnreadableRun(row["key"], error)
                break
        return RunScan(moment=datetime.now(UTC), runs=tuple(runs), unreadable=unreadable)

    def renew(self, expected: Run, renewed: Run) -> bool:
        """Write the lease of the renewed run, if state, owner and fence are as expected."""
        sql = (
            "UPDATE run SET lease_seconds = ?, lease_expires_at = ? "
            "WHERE conversation_id = ? AND run_id = ? "
            "AND state = ? AND owner_id = ? AND fencing_token = ?"
        )
        lease = (renewed.lease_seconds, moment_text(renewed.lease_expires_at))
        key = (expected.conversation_id, expected.id)
        owner = (str(expected.state), expected.owner_id, expected.fencing_token)
        with self._connected() as connection:
            return connection.execute(sql, (*lease, *key, *owner)).rowcount == 1

    def rows(self, conversation_id: str) -> ConversationRows | None:
        """Read all rows of a conversation, archived ones too; None when it has no head."""

        def every(table: str) -> list[sqlite3.Row]:
            sql = f"SELECT * FROM {table} WHERE conversation_id = ?"
            return connection.execute(sql, (conversation_id,)).fetchall()

        with self._reading() as connection:
            head = _head(connection, conversation_id)
            runs, receipts, messages = every("run"), every("receipt"), every("message")
        if head is None:
            return None
        return ConversationRows(
            head=head,
            runs=tuple(map(tables.stored_run, runs)),
            receipts=tuple(map(tables.receipt, receipts)),
            messages=tuple(map(tables.placed, messages)),
        )


def _head(connection: sqlite3.Connection, conversation_id: str) -> Head | None:
    sql = "SELECT * FROM head WHERE conversation_id = ?"
    row = connection.execute(sql, (conversation_id,)).fetchone()
    return None if row is None else tables.head(row)
