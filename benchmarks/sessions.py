"""Connections without Django: prepared statements, explicit transactions, and nothing else."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = Sequence[Any]
    Parameters = Sequence[Any]


class Session(Protocol):
    """One connection to the database, for one thread."""

    def begin(self) -> None:
        """Begin a transaction that will write."""

    def commit(self) -> None:
        """Commit it."""

    def rows(self, sql: str, parameters: Parameters) -> Sequence[Row]:
        """Run a statement of a transaction and give its rows."""

    def write(self, sql: str, parameters: Parameters) -> None:
        """Run a statement of a transaction that changes one row."""

    def write_alone(self, sql: str, parameters: Parameters) -> None:
        """Run a statement that changes one row, in a transaction of its own."""

    def read(self, sql: str, parameters: Parameters) -> Sequence[Row]:
        """Run one SELECT without a transaction."""

    def moment(self, row: Row) -> datetime:
        """Give the moment that stands first in a row of facts."""

    def adapted(self, moment: datetime) -> Any:  # noqa: ANN401 - as the database wants it
        """Give a moment as a parameter."""

    def close(self) -> None:
        """Close it."""


class PostgresSession:
    """psycopg, each statement prepared when it is first run.

    What needs no transaction goes through a connection of its own: psycopg would begin one.
    """

    def __init__(self, url: str) -> None:
        """Connect."""
        self._writing = psycopg.connect(url, prepare_threshold=0)
        self._reading = psycopg.connect(url, prepare_threshold=0, autocommit=True)
        self._cursor = self._writing.cursor()
        self._reader = self._reading.cursor()

    def begin(self) -> None:
        """Leave BEGIN to psycopg, which sends it before the first statement."""

    def commit(self) -> None:
        """Commit."""
        self._writing.commit()

    def rows(self, sql: str, parameters: Parameters) -> Sequence[Row]:
        """Run a statement of a transaction and give its rows."""
        return self._cursor.execute(sql, parameters).fetchall()

    def write(self, sql: str, parameters: Parameters) -> None:
        """Run a statement of a transaction that changes one row."""
        check_one(self._cursor.execute(sql, parameters).rowcount)

    def write_alone(self, sql: str, parameters: Parameters) -> None:
        """Run a statement that changes one row, in a transaction of its own."""
        check_one(self._reader.execute(sql, parameters).rowcount)

    def read(self, sql: str, parameters: Parameters) -> Sequence[Row]:
        """Run one SELECT without a transaction."""
        return self._reader.execute(sql, parameters).fetchall()

    def moment(self, row: Row) -> datetime:
        """Give the moment that stands first in a row of facts."""
        moment: datetime = row[0]
        return moment

    def adapted(self, moment: datetime) -> datetime:
        """Give a moment as a parameter."""
        return moment

    def close(self) -> None:
        """Close both connections."""
        self._writing.close()
        self._reading.close()


class SQLiteSession:
    """The standard library's sqlite3, which keeps its statements prepared."""

    def __init__(self, path: str, pragmas: str) -> None:
        """Open the file; with the pragmas that Django's connection has, too."""
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._connection.executescript(pragmas)
        self._cursor = self._connection.cursor()

    def begin(self) -> None:
        """Begin as a writer."""
        self._cursor.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit."""
        self._cursor.execute("COMMIT")

    def rows(self, sql: str, parameters: Parameters) -> Sequence[Row]:
        """Run a statement of a transaction and give its rows."""
        return self._cursor.execute(_for_sqlite(sql), parameters).fetchall()

    def write(self, sql: str, parameters: Parameters) -> None:
        """Run a statement of a transaction that changes one row."""
        check_one(self._cursor.execute(_for_sqlite(sql), parameters).rowcount)

    write_alone = write
    read = rows

    def moment(self, row: Row) -> datetime:  # noqa: ARG002 - SQLite's rows hold none
        """Give this process's moment."""
        return datetime.now(UTC)

    def adapted(self, moment: datetime) -> str:
        """Give a moment as Django stores it."""
        return str(moment.replace(tzinfo=None))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


@cache
def _for_sqlite(sql: str) -> str:
    return (
        sql.replace("%s", "?")
        .replace(" FOR NO KEY UPDATE", "")
        .replace("clock_timestamp()", "NULL")
    )


def check_one(count: int) -> None:
    """Refuse a write that has changed anything but one row.

    Raises:
        RuntimeError: it has.
    """
    if count != 1:
        msg = f"a write changed {count} rows instead of one: the measured rows aren't as expected"
        raise RuntimeError(msg)
