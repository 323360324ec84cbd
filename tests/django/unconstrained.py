"""Rows that a database refuses: a table without its constraints, for as long as a test needs it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import Model


@contextmanager
def unconstrained(using: str, model: type[Model]) -> Iterator[None]:
    """Let a table take what its check constraints refuse, and empty it in the end.

    On PostgreSQL its unique constraints are gone, too; SQLite has them inside the table.
    """
    if connections[using].vendor == "sqlite":
        with _unchecked(using):
            yield
    else:
        with _dropped(using, model):
            yield


def written(using: str, model: type[Model], row: dict[str, Any], **columns: Any) -> None:
    """Change columns of the rows of conversation `c` that a row names, past everything."""
    connection = connections[using]
    quote = connection.ops.quote_name
    changes = ", ".join(f"{quote(name)} = %s" for name in columns)
    named = {"conversation_id": "c", **row}
    where = " AND ".join(f"{quote(name)} = %s" for name in named)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {quote(model._meta.db_table)} SET {changes} WHERE {where}",
            [*columns.values(), *named.values()],
        )
        assert cursor.rowcount == 1


@contextmanager
def _unchecked(using: str) -> Iterator[None]:
    with connections[using].cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
        try:
            yield
        finally:
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


@contextmanager
def _dropped(using: str, model: type[Model]) -> Iterator[None]:
    connection = connections[using]
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conrelid = %s::regclass AND contype IN ('c', 'u') ORDER BY conname",
            [table],
        )
        found = cursor.fetchall()
        for name, _ in found:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        try:
            yield
        finally:
            cursor.execute(f"DELETE FROM {table}")
            for name, definition in found:
                cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
