"""The cursor that PostgreSQL's statements run through: prepared where that is safe, and quick.

Planning costs PostgreSQL more than running a statement of this package does. Django leaves
prepared statements off because a pooler between it and the server may hand each transaction to
another session, which knows nothing of what was prepared. So they are used where no pooler is in
between, and where the project has not said what it wants.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.utils import CursorWrapper

PREPARE_THRESHOLD: Final = 2
"""How often a statement is run before it is prepared: a connection that serves one request runs
none twice, so it prepares none."""

# With the last one, what is set for the session would hold for the project's own queries, too.
_SETTLED_BY: Final = frozenset({"prepare_threshold", "cursor_factory", "server_side_binding"})
_TIMESTAMPTZ: Final = "timestamptz"
# Connections that a pooler stands behind.
_pooled: WeakSet[Any] = WeakSet()
# By connection, each with the cursor of the session that it had last.
_kept: WeakKeyDictionary[BaseDatabaseWrapper, Any] = WeakKeyDictionary()


def quick_cursor(connection: BaseDatabaseWrapper) -> CursorWrapper:
    """Give a cursor that prepares what is repeated, or the connection's own where that may fail.

    A project settles it by Django's own option `prepare_threshold`: None turns it off.
    """
    return _wrapped(connection, _made(connection)) if _opened(connection) else _own(connection)


def kept_cursor(connection: BaseDatabaseWrapper) -> AbstractContextManager[CursorWrapper]:
    """Give such a cursor for statements of few rows: the connection's one, where it may have one.

    It stays open, with the rows that it fetched last: a new one would take as long to learn again
    how each type is read as it takes to send a statement.
    """
    if not _opened(connection):
        return _own(connection)
    if connection.allow_thread_sharing:
        # Another thread could take the rows of this one.
        return quick_cursor(connection)
    cursor = _kept.get(connection)
    if cursor is None or cursor.closed or cursor.connection is not connection.connection:
        cursor = _kept[connection] = _made(connection)
    return nullcontext(_wrapped(connection, cursor))


def _opened(connection: BaseDatabaseWrapper) -> bool:
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    connection.validate_thread_sharing()
    return _may_prepare(connection)


def _own(connection: BaseDatabaseWrapper) -> CursorWrapper:
    cursor = connection.cursor()
    _reads_moments(cursor.cursor)
    return cursor


def _made(connection: BaseDatabaseWrapper) -> Any:  # noqa: ANN401 - one of psycopg's classes
    # Imported here, as below: a project on another database hasn't installed psycopg.
    from django.db.backends.postgresql.base import ServerBindingCursor  # noqa: PLC0415

    cursor_class: Any = ServerBindingCursor
    with connection.wrap_database_errors:
        cursor = cursor_class(connection.connection)
    _reads_moments(cursor)
    return cursor


def _wrapped(connection: BaseDatabaseWrapper, cursor: Any) -> CursorWrapper:  # noqa: ANN401 - likewise
    with connection.wrap_database_errors:
        return connection.make_cursor(cursor)


def _reads_moments(cursor: Any) -> None:  # noqa: ANN401 - likewise
    # Django's own loader of moments is written in Python, psycopg's isn't: of a long conversation
    # moments would else take most of the time.
    cursor.adapters.register_loader(_TIMESTAMPTZ, _moment_loader())


def _may_prepare(connection: BaseDatabaseWrapper) -> bool:
    session = connection.connection
    if connection.queries_logged:
        # Of a prepared statement Django's log of queries would show nothing.
        return False
    if session.prepare_threshold is None:
        settled = not _SETTLED_BY.isdisjoint(connection.settings_dict["OPTIONS"])
        if settled or session in _pooled:
            return False
        if not _is_direct(connection):
            _pooled.add(session)
            return False
        session.prepare_threshold = PREPARE_THRESHOLD
    return True


def _is_direct(connection: BaseDatabaseWrapper) -> bool:
    # A pooler tells its client of a process of its own invention: it is another one that answers.
    session = connection.connection
    with connection.wrap_database_errors:
        row = session.execute("SELECT pg_backend_pid()").fetchone()
    return bool(row[0] == session.info.backend_pid)


@cache
def _moment_loader() -> Any:  # noqa: ANN401 - one of psycopg's classes
    from psycopg import adapters  # noqa: PLC0415
    from psycopg.pq import Format  # noqa: PLC0415

    return adapters.get_loader(adapters.types[_TIMESTAMPTZ].oid, Format.TEXT)
