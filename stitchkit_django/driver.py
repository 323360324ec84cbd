"""DjangoDriver: maps rows to records and back, in one transaction an operation; decides nothing."""

from __future__ import annotations

import logging
import random
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.db.utils import Error

from stitchkit_django.core.driver import (
    ActiveRuns,
    ConversationRows,
    ConversationView,
    MessagePage,
    RunFacts,
    RunScan,
    UnreadableRun,
)
from stitchkit_django.core.errors import (
    CorruptRecordError,
    StoreUnavailableError,
    UnsupportedSchemaVersionError,
)
from stitchkit_django.statements import Statements
from stitchkit_django.statements.rows import (
    RowReader,
    extras,
    first_text,
    scanned_run,
    surrogate_key,
)
from stitchkit_django.transaction import DjangoTransaction, Found, changed, fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from django.db.backends.utils import CursorWrapper

    from stitchkit_django.core import driver as ports
    from stitchkit_django.core import records
    from stitchkit_django.statements import Statement

    Row = Sequence[Any]

T = TypeVar("T")

logger = logging.getLogger("stitchkit_django.store")

RETRY_SECONDS: Final = 60.0
"""How long a transaction that the database refuses is run again."""
RETRY_LEAST: Final = 10
"""How often it is, at least."""
FIRST_PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.5


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
            ImproperlyConfigured: USE_TZ is off, or the database's AUTOCOMMIT is, or the database
                is of a kind that has no statements here.
        """
        self.using = using
        if not settings.USE_TZ:
            msg = "stitchkit_django keeps moments with their time zone: set USE_TZ = True"
            raise ImproperlyConfigured(msg)
        self._check_autocommit(on=connections[using].settings_dict["AUTOCOMMIT"])
        self._sql = Statements(using)

    def transaction(self, work: Callable[[DjangoTransaction], T]) -> T:
        """Run the work in one transaction, again while the database refuses it."""

        def attempt() -> T:
            # At the outermost level this makes no savepoint.
            with transaction.atomic(using=self.using), self._kept_cursor() as cursor:
                current = DjangoTransaction(self.using, self._sql, cursor)
                result = work(current)
                if current.made_head_in_vain:
                    transaction.set_rollback(True, using=self.using)
                return result

        return self._tried(attempt)

    def snapshot(self, conversation_id: str) -> ConversationView:
        """Read a whole conversation, in one statement."""
        found = self._read(conversation_id, self._sql.reads.snapshot(conversation_id))
        return ConversationView(
            head=found.head(), messages=found.messages(), runs=found.runs("active", "run")
        )

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        """Read one run and the head, in one statement."""
        rows = self._one_row(self._sql.reads.run(conversation_id, run_id))
        dialect = self._sql.dialect
        if not rows:
            return RunFacts(moment=dialect.now())
        reader = RowReader(dialect, conversation_id)
        moment, *head = extras(rows[0])
        return RunFacts(
            head=reader.head_of(head),
            moment=reader.clock(moment),
            run=None if first_text(rows[0]) is None else reader.stored_run(rows[0]),
        )

    def active_runs(self, conversation_id: str) -> ActiveRuns:
        """Read the active runs and the head, in one statement."""
        found = self._read(conversation_id, self._sql.reads.active_runs(conversation_id))
        return ActiveRuns(head=found.head(), runs=found.runs("active"))

    def messages(self, conversation_id: str, before: ports.Place | None, limit: int) -> MessagePage:
        """Read the last `limit` active messages before a place, in one statement."""
        statement = self._sql.reads.messages(conversation_id, before, limit)
        found = self._read(conversation_id, statement)
        return MessagePage(head=found.head(), messages=found.messages())

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        """Read `limit` active runs of all conversations whose key is over the cursor."""
        return self._scan(self._sql.reads.scan_active(cursor, limit))

    def scan_ended(self, before: datetime, cursor: int, limit: int) -> RunScan:
        """Read `limit` runs that ended before a moment and whose key is over the cursor."""
        return self._scan(self._sql.reads.scan_ended(before, cursor, limit))

    def renew(self, expected: records.Run, renewed: records.Run) -> bool:
        """Write the lease of the renewed run, if state, owner and fence are as expected."""
        statement = self._sql.writes.renew(expected, renewed)

        def attempt() -> int:
            # In a caller's transaction a failure takes the lease back, and nothing of the caller's.
            nested = connections[self.using].in_atomic_block
            savepoint = transaction.atomic(using=self.using) if nested else nullcontext()
            with savepoint, self._kept_cursor() as cursor:
                return changed(cursor, statement)

        return self._tried(attempt) == 1

    def rows(self, conversation_id: str) -> ConversationRows | None:
        """Read all rows of a conversation, archived ones too; None when it has no head."""
        found = self._read(conversation_id, self._sql.reads.rows(conversation_id))
        head, reader = found.head(), found.reader
        if head is None:
            return None
        return ConversationRows(
            head=head,
            runs=tuple(map(reader.stored_run, found.of("run"))),
            receipts=tuple(map(reader.receipt, found.of("receipt"))),
            messages=found.messages(),
        )

    def _read(self, conversation_id: str, statement: Statement) -> Found:
        rows = self._fetched(statement)
        return Found(RowReader(self._sql.dialect, conversation_id), rows, statement.widths)

    def _fetched(self, statement: Statement) -> list[Row]:
        def attempt() -> list[Row]:
            with self._sql.dialect.cursor(connections[self.using]) as cursor:
                return fetched(cursor, statement)

        return self._tried(attempt, undone=False)

    def _one_row(self, statement: Statement) -> list[Row]:
        def attempt() -> list[Row]:
            with self._kept_cursor() as cursor:
                return fetched(cursor, statement)

        return self._tried(attempt, undone=False)

    def _kept_cursor(self) -> AbstractContextManager[CursorWrapper]:
        return self._sql.dialect.kept_cursor(connections[self.using])

    def _scan(self, statement: Statement) -> RunScan:
        found = self._read("", statement)
        runs: list[ports.KeyedRun] = []
        unreadable: UnreadableRun | None = None
        for row in sorted(found.of("run"), key=surrogate_key):
            try:
                runs.append(scanned_run(self._sql.dialect, row))
            except (CorruptRecordError, UnsupportedSchemaVersionError) as error:
                unreadable = UnreadableRun(surrogate_key(row), error)
                break
        return RunScan(moment=found.moment(), runs=tuple(runs), unreadable=unreadable)

    def _tried(self, attempt: Callable[[], T], *, undone: bool = True) -> T:
        # `undone` says whether what fails inside a caller's transaction leaves it as it was.
        connection = connections[self.using]
        if connection.in_atomic_block:
            return self._tried_once(attempt, undone=undone)
        deadline = time.monotonic() + RETRY_SECONDS
        tries = 0
        while True:
            try:
                self._check_autocommit(on=connection.get_autocommit())
                return attempt()
            except Error as error:
                transient = self._sql.dialect.is_transient(error)
                if not transient and connection.errors_occurred and not connection.is_usable():
                    # A broken connection would refuse the caller's next try, too. A whole one
                    # stays, with what the caller has set or locked for its session.
                    connection.close()
                tries += 1
                given_up = tries >= RETRY_LEAST and time.monotonic() >= deadline
                if given_up or not transient:
                    msg = f"the database failed ({tries} tries): {error}"
                    raise StoreUnavailableError(msg) from error
                logger.warning(
                    "database %r refused a transaction, which is run again (try %d): %s",
                    self.using,
                    tries,
                    error,
                    extra={"using": self.using, "tries": tries},
                )
            longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**tries)
            time.sleep(random.uniform(0, longest))  # noqa: S311 - only spreads writers out

    def _tried_once(self, attempt: Callable[[], T], *, undone: bool) -> T:
        try:
            return attempt()
        except Error as error:
            dialect = self._sql.dialect
            hint = f": {dialect.refused_hint}" if dialect.is_transient(error) else ""
            rest = "" if undone else ", which may not go on: roll it back"
            msg = f"the database failed inside the caller's transaction{rest}{hint} ({error})"
            raise StoreUnavailableError(msg) from error

    def _check_autocommit(self, *, on: bool) -> None:
        if not on:
            msg = (
                f"database {self.using!r} is not in autocommit mode, so the store can't tell where "
                "a transaction ends: leave AUTOCOMMIT on and use transaction.atomic"
            )
            raise ImproperlyConfigured(msg)
