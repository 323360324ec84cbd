"""What is stored of conversations, whatever shape it is in: for checks and exports; no judgement.

The driver refuses a conversation with a row that can't be read. Here such a row is set apart, as
its columns have it, and the others are given all the same.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from django.db import connections
from django.db.models import Exists, OuterRef
from django.db.utils import Error
from msgspec.structs import replace

from stitchkit_django.core.documents import ExportedRows, UnreadableRow, checked_place
from stitchkit_django.core.errors import (
    CorruptRecordError,
    StitchkitError,
    StoreUnavailableError,
    UnsupportedSchemaVersionError,
)
from stitchkit_django.hosts import hosts
from stitchkit_django.statements import Statements
from stitchkit_django.statements import rows as lanes
from stitchkit_django.transaction import Found, fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from django.db.models import Model, QuerySet

    from stitchkit_django.core.driver import PlacedMessage
    from stitchkit_django.core.values import JSONValue
    from stitchkit_django.statements.rows import Lanes, RowReader

T = TypeVar("T")

PAGE: Final = 100
"""How many ids of conversations are read at once."""

# What is wrong with one row, and no reason to stop.
_UNREADABLE: Final = (CorruptRecordError, UnsupportedSchemaVersionError)
_LANES: Final = {
    "head": lanes.HEAD,
    "run": lanes.STORED_RUN,
    "receipt": lanes.RECEIPT,
    "message": lanes.MESSAGE,
}


class Orphan(NamedTuple):
    """Rows of a conversation that has no head."""

    conversation_id: str
    counts: dict[str, int]
    """By kind: run, receipt, message."""


class StoredConversations:
    """Everything that one database keeps of conversations, for reading."""

    def __init__(self, using: str) -> None:
        """Take a database.

        Args:
            using: its alias.

        Raises:
            ImproperlyConfigured: the database is of a kind that has no statements here.
        """
        self.using = using
        self._sql = Statements(using)
        self._hosts = hosts()

    def conversation(self, conversation_id: str) -> ExportedRows | None:
        """Read all rows of a conversation, in one statement; None where there is none.

        Raises:
            StoreUnavailableError: the database failed.
        """
        statement = self._sql.reads.rows(conversation_id)
        reader = lanes.RowReader(self._sql.dialect, conversation_id)

        def ask() -> list[Sequence[Any]]:
            with (
                self._sql.dialect.cursor(connections[self.using]) as cursor,
                _any_text(self.using),
            ):
                return fetched(cursor, statement)

        rows = self.asked(ask)
        found = Found(reader, rows, statement.widths)
        return _sorted_out(reader, found) if rows else None

    def ids(self, after: str = "", *, page: int = PAGE) -> Iterator[str]:
        """Give the id of every conversation that has a head, in order, page by page."""
        model, key = self._named("head")
        found = [after]
        while found:
            later = self._rows(model).filter(**{f"{key}__gt": found[-1]}).order_by(key)
            found = self._listed(later.values_list(key, flat=True)[:page])
            yield from found

    def orphans(self) -> Iterator[Orphan]:
        """Give the conversations that have rows, but no head, in order."""
        after = ""
        while (found := self._next_orphan(after)) is not None:
            yield Orphan(found, self._counts(found))
            after = found

    def asked(self, ask: Callable[[], T]) -> T:
        """Ask the database for something, and once more if its connection was lost before.

        Raises:
            StoreUnavailableError: it failed.
        """
        try:
            return self._once(ask)
        except StoreUnavailableError:
            connection = connections[self.using]
            if connection.in_atomic_block or connection.is_usable():
                raise
            connection.close()
        return self._once(ask)

    def _once(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except Error as error:
            raise StoreUnavailableError(f"the database failed: {error}") from error

    def _listed(self, found: QuerySet[Model, str]) -> list[str]:
        return self.asked(lambda: list(found))

    def _named(self, kind: str) -> tuple[type[Model], str]:
        host = self._hosts[kind]
        return host.model, host.field("conversation_id").attname

    def _rows(self, model: type[Model]) -> QuerySet[Model]:
        return model._base_manager.using(self.using)

    def _next_orphan(self, after: str) -> str | None:
        candidates = [self._next_headless(kind, after) for kind in self._kinds()]
        return min((one for one in candidates if one is not None), default=None)

    def _next_headless(self, kind: str, after: str) -> str | None:
        head, head_key = self._named("head")
        model, key = self._named(kind)
        heads = self._rows(head).filter(**{head_key: OuterRef(key)})
        rows = self._rows(model).filter(**{f"{key}__gt": after}).filter(~Exists(heads))
        first = rows.order_by(key).values_list(key, flat=True)
        return next(iter(self._listed(first[:1])), None)

    def _counts(self, conversation_id: str) -> dict[str, int]:
        counts = {}
        for kind in self._kinds():
            model, key = self._named(kind)
            rows = self._rows(model).filter(**{key: conversation_id})
            counts[kind] = self.asked(rows.count)
        return counts

    def _kinds(self) -> Iterable[str]:
        return (kind for kind in self._hosts if kind != "head")


def _sorted_out(reader: RowReader, found: Found) -> ExportedRows:
    unreadable: list[UnreadableRow] = []

    def readable(kind: str, build: Callable[[Sequence[Any]], T]) -> tuple[T, ...]:
        built, refused = [], []
        for row in found.of(kind):
            try:
                built.append(build(row))
            except _UNREADABLE as error:
                refused.append(_unreadable(kind, row, error))
        # The database gives rows in whatever order its plan has.
        unreadable.extend(sorted(refused, key=attrgetter("id")))
        return tuple(built)

    def message(row: Sequence[Any]) -> PlacedMessage:
        placed = reader.message(row)
        try:
            return checked_place(placed)
        except StitchkitError as error:
            raise CorruptRecordError(f"message {placed.message.id!r}", str(error)) from error

    heads = readable("head", reader.head)
    given = ExportedRows(
        head=heads[0] if heads else None,
        runs=readable("run", reader.stored_run),
        receipts=readable("receipt", reader.receipt),
        messages=readable("message", message),
        unreadable=tuple(unreadable),
    )
    ordered = given.readable()
    if ordered is None:
        return given
    return replace(given, runs=ordered.runs, receipts=ordered.receipts, messages=ordered.messages)


def _unreadable(
    kind: str, row: Sequence[Any], error: CorruptRecordError | UnsupportedSchemaVersionError
) -> UnreadableRow:
    columns = dict(_columns(_LANES[kind], row))
    identity = "" if kind == "head" else str(lanes.first_text(row))
    reason = error.reason if isinstance(error, CorruptRecordError) else str(error)
    return UnreadableRow(kind=kind, id=identity, reason=reason, columns=columns)


def _columns(of: Lanes, row: Sequence[Any]) -> Iterator[tuple[str, JSONValue]]:
    start = 1
    for fields, width in zip(of, lanes.FULL, strict=True):
        for lane, field in enumerate(fields):
            yield field, _plain(row[start + lane])
        start += width


def _plain(value: object) -> JSONValue:
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


@contextmanager
def _any_text(using: str) -> Iterator[None]:
    # SQLite keeps whatever bytes it was given as a text; where they are no UTF-8, its module for
    # Python would refuse the whole statement.
    connection = connections[using]
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    session: Any = connection.connection
    before = session.text_factory
    session.text_factory = lambda text: text.decode(errors="surrogateescape")
    try:
        yield
    finally:
        session.text_factory = before
