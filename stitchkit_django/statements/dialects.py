"""Where databases differ: clock, lock, typed nulls, equality with null, what is worth a retry."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.db import connections
from django.utils.dateparse import parse_datetime

from stitchkit_django.core.usage import MAX_COST_DIGITS, MAX_COST_PLACES
from stitchkit_django.statements.cursors import kept_cursor, quick_cursor

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from decimal import Decimal

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.utils import CursorWrapper


class Dialect:
    """What the statements ask of a database; this one is PostgreSQL's."""

    nulls: ClassVar[dict[str, str]] = {
        "text": "NULL::text",
        "integer": "NULL::bigint",
        "float": "NULL::double precision",
        "moment": "NULL::timestamptz",
    }
    """A null of each lane's type: a union takes its types from its first branch."""
    clock: ClassVar[str] = "clock_timestamp()"
    """The moment of the statement, not of the transaction; a null means this process's clock."""
    is_same: ClassVar[str] = "IS NOT DISTINCT FROM"
    """Equality under which null equals null."""
    locks_rows: ClassVar[bool] = True
    """Whether a SELECT can lock; else an UPDATE takes the writer's slot."""
    unseen: ClassVar[str] = "(SELECT %s)"
    """A parameter whose value the planner doesn't see, for conversations and limits.

    Of a conversation that has come or grown since the last ANALYZE its statistics say that it has
    no row: each index then seems as good as the key's, and it takes one that walks the whole
    conversation. Not seeing which one it is, it counts on one like the others. Not seeing a limit,
    it counts on a tenth of the rows and reads them in order; of a small one among short
    conversations it would sort all rows instead.
    """
    combines_writes: ClassVar[bool] = True
    """Whether one statement can write several tables, each part hanging on the one before."""
    refused_hint: ClassVar[str] = "run the whole transaction again"
    """What to do where a transaction was refused that the store hasn't opened."""

    def __init__(self, using: str) -> None:
        """Take the alias, not its connection: that is each thread's own."""
        self.using = using

    def cursor(self, connection: BaseDatabaseWrapper) -> CursorWrapper:
        """Give a cursor that statements run through."""
        return quick_cursor(connection)

    def kept_cursor(self, connection: BaseDatabaseWrapper) -> AbstractContextManager[CursorWrapper]:
        """Give a cursor for statements of few rows, which may be the one of the last block."""
        return kept_cursor(connection)

    def moment(self, value: datetime | str | None) -> datetime | None:
        """Give a moment as read, aware and in UTC."""
        return value  # type: ignore[return-value] # psycopg gives it so, in the connection's zone

    def adapted(self, moment: datetime | None) -> Any:  # noqa: ANN401 - as the database wants it
        """Give a moment as a parameter."""
        return moment  # as `connection.ops` does on PostgreSQL

    def amount(self, value: Decimal | None) -> Any:  # noqa: ANN401 - likewise
        """Give an amount of money as a parameter."""
        digits = MAX_COST_DIGITS + MAX_COST_PLACES
        return connections[self.using].ops.adapt_decimalfield_value(value, digits, MAX_COST_PLACES)

    def now(self) -> datetime:
        """Give the moment by this process's clock."""
        return datetime.now(UTC)

    def is_transient(self, error: BaseException) -> bool:
        """Tell whether the same transaction may succeed when it is run again."""
        # serialization_failure, deadlock_detected
        return getattr(error.__cause__, "sqlstate", None) in {"40001", "40P01"}


class SQLiteDialect(Dialect):
    """SQLite's: one writer at a time, moments as text, no types in a union."""

    nulls: ClassVar[dict[str, str]] = dict.fromkeys(Dialect.nulls, "NULL")
    clock: ClassVar[str] = "NULL"
    is_same: ClassVar[str] = "IS"
    locks_rows: ClassVar[bool] = False
    unseen: ClassVar[str] = "%s"
    combines_writes: ClassVar[bool] = False
    refused_hint: ClassVar[str] = (
        "give the database the option transaction_mode = IMMEDIATE, so that a transaction that "
        "begins with a read can write later"
    )

    def cursor(self, connection: BaseDatabaseWrapper) -> CursorWrapper:
        """Give a cursor that statements run through."""
        return connection.cursor()

    def kept_cursor(self, connection: BaseDatabaseWrapper) -> AbstractContextManager[CursorWrapper]:
        """Give a cursor for statements of few rows, each time a new one."""
        return connection.cursor()

    def moment(self, value: datetime | str | None) -> datetime | None:
        """Give a moment as read, aware and in UTC."""
        if isinstance(value, str):
            value = parse_datetime(value)
        if value is None:
            return None
        return value.replace(tzinfo=connections[self.using].timezone).astimezone(UTC)

    def adapted(self, moment: datetime | None) -> Any:  # noqa: ANN401 - as the database wants it
        """Give a moment as a parameter."""
        return connections[self.using].ops.adapt_datetimefield_value(moment)

    def is_transient(self, error: BaseException) -> bool:
        """Tell whether the same transaction may succeed when it is run again."""
        code = getattr(error.__cause__, "sqlite_errorcode", 0)
        return code & 0xFF in {5, 6}  # SQLITE_BUSY, SQLITE_LOCKED and their extended codes


DIALECTS: Final = {"postgresql": Dialect, "sqlite": SQLiteDialect}
