"""SQLite: one writes at a time, a reader may be in its way, and no write is lost by it."""

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections

from stitchkit_django import get_store
from stitchkit_django.models import Conversation
from tests.core.steps import acquire, admit, end, history, view
from tests.races.threads import SECONDS, before, together, workers

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

TRIES = 3
THREADS = 4
INPUTS = 25


def test_a_write_goes_on_until_an_open_reader_lets_it_commit(sqlite_alias: str) -> None:
    store = get_store(sqlite_alias)
    run = acquire(store, admit(store))
    tried = threading.Event()
    tries = []

    def hook(execute: Callable[..., T], sql: str, *rest: Any) -> T:
        if sql.startswith("BEGIN"):
            connection = connections[sqlite_alias].connection
            connection.execute("PRAGMA busy_timeout = 1")
            tries.append(connection)
        if len(tries) > TRIES:
            tried.set()
        return execute(sql, *rest)

    def end_run() -> str:
        with connections[sqlite_alias].execute_wrapper(hook):
            return str(end(store, run).state)

    with closing(sqlite3.connect(connections[sqlite_alias].settings_dict["NAME"])) as reader:
        reader.execute("BEGIN")
        reader.execute(f'SELECT version FROM "{Conversation._meta.db_table}"').fetchone()
        with workers(1) as threads:
            ending = threads.start(end_run)
            assert tried.wait(SECONDS)
            reader.rollback()
            state = ending.result(SECONDS)

    assert state == view(store).run.state == "completed"
    assert len(set(tries)) == 1, "a refusal closed the connection"
    assert store.load_snapshot("c").version == 3


def test_a_read_between_the_statements_of_a_write_sees_nothing_of_it(sqlite_alias: str) -> None:
    store = get_store(sqlite_alias)
    admit(store, "1")
    seen: list[list[str]] = []

    def read() -> None:
        with workers(1) as threads:
            seen.append(threads.start(partial(history, store)).result(SECONDS))

    with before(sqlite_alias, re.compile('INSERT INTO "stitchkit_django_message"'), read):
        admit(store, "2")

    assert seen == [["i-1"]]
    assert history(store) == ["i-1", "i-2"]


def test_writers_wait_for_each_other_and_none_begins_again(sqlite_alias: str) -> None:
    # One that had read before it asked for the writer's slot would have to.
    store = get_store(sqlite_alias)
    admit(store, "0")
    begun: list[str] = []

    def hook(execute: Callable[..., T], sql: str, *rest: Any) -> T:
        if sql.startswith("BEGIN"):
            begun.append(sql)
        return execute(sql, *rest)

    def admit_some(thread: int) -> None:
        with connections[sqlite_alias].execute_wrapper(hook):
            for number in range(INPUTS):
                admit(store, f"{thread}-{number}")

    together(*(partial(admit_some, thread) for thread in range(THREADS)))

    assert len(begun) == THREADS * INPUTS
