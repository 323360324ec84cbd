"""Threads that race, and what forces their order: barriers, hooks, locks waited for; no sleep."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.db import connections, transaction

from stitchkit_django.models import Conversation, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
First = TypeVar("First")
Second = TypeVar("Second")

SECONDS: Final = 60
"""How long anything is waited for; it comes at once, or something is broken."""

HEAD_LOCK: Final = re.compile(f'"{Conversation._meta.db_table}"')
"""The first statement that names the head is its lock."""
RUN_WRITE: Final = re.compile(f'UPDATE "{Run._meta.db_table}"')


class Workers:
    """Threads with connections of their own, which are closed when they are done."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        """Take the pool that the threads belong to."""
        self._pool = pool

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Let a thread do some work."""
        return self._pool.submit(_closing, work)


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """Give so many threads; all have ended when the block ends."""
    with ThreadPoolExecutor(count) as pool:
        yield Workers(pool)


def together(*works: Callable[[], T]) -> Sequence[T]:
    """Let each work be done by a thread, all begun before any is waited for.

    Returns:
        What each has returned.
    """
    with workers(len(works)) as threads:
        futures = [threads.start(work) for work in works]
        return [future.result(SECONDS) for future in futures]


def aside(work: Callable[[], T]) -> T:
    """Do some work on another connection, and wait for it."""
    return together(work)[0]


def racing(using: str, *works: Callable[[], T]) -> Sequence[T]:
    """Let works race: each is about to lock the head before any of them may."""
    ready = threading.Barrier(len(works))

    def raced(work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            with before(using, HEAD_LOCK, lambda: ready.wait(SECONDS)):
                return work()

        return run

    return together(*map(raced, works))


def overtaken(
    using: str, first: Callable[[], First], second: Callable[[], Second]
) -> tuple[First, Second]:
    """Let a work commit while another waits for a lock that it holds; PostgreSQL alone.

    Returns:
        What both have returned.
    """
    with workers(1) as threads:
        with transaction.atomic(using=using):
            one = first()
            other = threads.start(second)
            wait_for_waiting(using, 1)
        return one, other.result(SECONDS)


@contextmanager
def before(using: str, statement: re.Pattern[str], act: Callable[[], object]) -> Iterator[None]:
    """Act before the first such statement of this thread is sent, once.

    Raises:
        AssertionError: there was none.
    """
    acted = False

    def hook(execute: Callable[..., T], sql: str, *rest: Any) -> T:
        nonlocal acted
        if not acted and statement.search(sql):
            acted = True
            act()
        return execute(sql, *rest)

    with connections[using].execute_wrapper(hook):
        yield
    assert acted, f"no statement has {statement.pattern}"


def wait_for_waiting(using: str, count: int) -> None:
    """Return once so many connections of a PostgreSQL database wait for locks.

    Raises:
        AssertionError: they don't.
    """
    deadline = time.monotonic() + SECONDS
    with connections[using].cursor() as cursor:
        while time.monotonic() < deadline:
            # Inside a transaction the server's activity is as it was at its first look.
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT COUNT(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone()[0] >= count:
                return
    raise AssertionError(f"{count} connections were to wait for locks")


def _closing(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connections.close_all()
