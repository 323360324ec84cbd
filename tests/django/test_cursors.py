"""Statements are prepared where that is safe: not where a project says no, nor behind a pooler."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import DatabaseError, connections
from django.test.utils import CaptureQueriesContext

from stitchkit_django import get_store
from stitchkit_django.statements.cursors import kept_cursor, quick_cursor
from tests.core.steps import acquire, admit, checkpoint
from tests.django.hooks import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

PREPARED = "SELECT statement FROM pg_prepared_statements"


@contextmanager
def connected(alias: str, **options: Any) -> Iterator[BaseDatabaseWrapper]:
    """Give a connection of its own, with other options than the alias has."""
    connection = connections[alias].copy(alias)
    connection.settings_dict["OPTIONS"] = {**connection.settings_dict["OPTIONS"], **options}
    try:
        yield connection
    finally:
        connection.close()


def repeated(connection: BaseDatabaseWrapper, times: int = 5) -> list[str]:
    """Run one statement again and again; give what the session has prepared then."""
    with quick_cursor(connection) as cursor:
        for number in range(times):
            cursor.execute("SELECT %s::text", (str(number),))
            assert cursor.fetchall() == [(str(number),)]
    with connection.cursor() as cursor:
        cursor.execute(PREPARED)
        return [sql for (sql,) in cursor.fetchall()]


def test_what_a_connection_repeats_is_prepared(postgres_alias: str) -> None:
    with connected(postgres_alias) as connection:
        assert repeated(connection, 2) == []
        assert repeated(connection) == ["SELECT $1::text"]


def test_the_operations_of_a_store_are_prepared(postgres_alias: str) -> None:
    store = get_store(postgres_alias)
    run = acquire(store, admit(store))
    for text in "abcde":
        run = checkpoint(store, run, text)

    with connections[postgres_alias].cursor() as cursor:
        cursor.execute(PREPARED)
        prepared = " ".join(sql for (sql,) in cursor.fetchall())

    assert "FOR NO KEY UPDATE" in prepared
    assert "clock_timestamp()" in prepared
    assert "WITH guarded_1 AS (UPDATE" in prepared


@pytest.mark.parametrize("binding", [True, False])
def test_a_project_that_says_how_often_is_left_to_it(postgres_alias: str, *, binding: bool) -> None:
    with connected(
        postgres_alias, prepare_threshold=None, server_side_binding=binding
    ) as connection:
        assert repeated(connection) == []
    with connected(postgres_alias, prepare_threshold=4, server_side_binding=binding) as connection:
        assert repeated(connection, 4) == []
        assert repeated(connection) == ["SELECT $1::text"]


def test_the_queries_of_a_project_are_not_prepared_by_the_store(postgres_alias: str) -> None:
    with connected(postgres_alias, server_side_binding=True) as connection:
        assert repeated(connection) == []
        with connection.cursor() as cursor:
            for _ in range(9):
                cursor.execute("SELECT %s::text", ("a query of the project's",))
            cursor.execute(PREPARED)
            assert cursor.fetchall() == []


def test_a_session_that_another_process_answers_prepares_nothing(
    postgres_alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connected(postgres_alias) as connection:
        connection.ensure_connection()
        # As libpq has it from a pooler, which invents a process.
        monkeypatch.setattr("psycopg.ConnectionInfo.backend_pid", 1)

        assert repeated(connection) == []
        monkeypatch.undo()
        assert repeated(connection) == []


def test_its_statements_are_seen_by_whoever_watches_the_connection(postgres_alias: str) -> None:
    connection = connections[postgres_alias]
    with counted(postgres_alias) as sent:
        get_store(postgres_alias).load_run("c", "r")
    with CaptureQueriesContext(connection) as captured:
        for _ in range(4):
            get_store(postgres_alias).load_run("c", "r")

    assert len(sent) == 1
    assert len(captured) == 4
    assert all("stitchkit_django_run" in one["sql"] for one in captured)


def test_a_connection_of_another_thread_is_refused(postgres_alias: str) -> None:
    connection = connections[postgres_alias]
    connection.ensure_connection()

    with ThreadPoolExecutor(1) as another, pytest.raises(DatabaseError, match="same thread"):
        another.submit(quick_cursor, connection).result()


def test_moments_are_read_in_utc(postgres_alias: str) -> None:
    with connected(postgres_alias) as connection, quick_cursor(connection) as cursor:
        cursor.execute("SELECT timestamptz '2026-01-01 12:00:00.000001+02'")
        ((moment,),) = cursor.fetchall()

    assert moment.isoformat() == "2026-01-01T10:00:00.000001+00:00"


def test_a_connection_keeps_one_cursor_for_its_operations(postgres_alias: str) -> None:
    with connected(postgres_alias) as connection:
        with kept_cursor(connection) as first:
            first.execute("SELECT 1")
        with kept_cursor(connection) as second:
            second.execute("SELECT timestamptz '2026-01-01 12:00:00+02'")
            ((moment,),) = second.fetchall()

        assert second.cursor is first.cursor
        assert moment.isoformat() == "2026-01-01T10:00:00+00:00"


def test_a_cursor_is_kept_as_long_as_its_session(postgres_alias: str) -> None:
    with connected(postgres_alias) as connection:
        with kept_cursor(connection) as first:
            first.execute("SELECT 1")
        connection.close()
        with kept_cursor(connection) as second:
            second.execute("SELECT 2")

            assert second.fetchall() == [(2,)]
        with second.cursor:
            pass
        with kept_cursor(connection) as third:
            third.execute("SELECT 3")

            assert third.fetchall() == [(3,)]


def test_what_threads_may_share_is_no_cursor(postgres_alias: str) -> None:
    with connected(postgres_alias) as connection:
        connection.inc_thread_sharing()
        with kept_cursor(connection) as first, kept_cursor(connection) as second:
            assert first.cursor is not second.cursor


def test_a_project_that_wants_nothing_prepared_gets_a_cursor_of_its_own(
    postgres_alias: str,
) -> None:
    with connected(postgres_alias, prepare_threshold=None) as connection:
        with kept_cursor(connection) as first:
            first.execute("SELECT 1")

        assert first.cursor.closed
