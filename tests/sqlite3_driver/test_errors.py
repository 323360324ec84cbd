"""What the driver does with rows that it can't read, and with a database that fails."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from stitchkit_django.core import (
    AgentStore,
    CorruptRecordError,
    StoreUnavailableError,
    UnsupportedSchemaVersionError,
)
from tests.core.steps import admit
from tests.sqlite3_driver import SQLiteDriver

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.sqlite3"


@pytest.fixture
def store(path: Path) -> AgentStore:
    return AgentStore(SQLiteDriver(path))


def change(path: Path, sql: str) -> None:
    """Change rows behind the driver's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


def test_a_row_that_contradicts_itself_is_named(path: Path, store: AgentStore) -> None:
    admit(store)
    change(path, "UPDATE message SET record = replace(record, 'committed', 'streaming')")

    with pytest.raises(CorruptRecordError, match="message 'i-1' in conversation 'c' is corrupt"):
        store.load_snapshot("c")


def test_a_row_of_a_later_version_is_named(path: Path, store: AgentStore) -> None:
    admit(store)
    change(
        path, """UPDATE head SET record = replace(record, 'schemaVersion":1', 'schemaVersion":2')"""
    )

    with pytest.raises(UnsupportedSchemaVersionError, match="head 'c' in conversation 'c' has"):
        store.load_snapshot("c")


def test_a_scan_goes_on_behind_a_row_that_it_cannot_read(path: Path, store: AgentStore) -> None:
    for key in "123":
        admit(store, key)
    change(path, "UPDATE run SET record = '{}' WHERE run_id = 'r2'")

    first = store.scan_recoverable()
    with pytest.raises(UnsupportedSchemaVersionError, match="run 'r2'") as caught:
        store.scan_recoverable(cursor=first.next_cursor)
    rest = store.scan_recoverable(cursor=caught.value.next_cursor)

    assert [run.id for run in (*first.items, *rest.items)] == ["r1", "r3"]


def test_a_database_that_fails_is_told(path: Path, store: AgentStore) -> None:
    change(path, "DROP TABLE receipt")

    with pytest.raises(StoreUnavailableError, match="no such table: receipt") as caught:
        admit(store)

    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
