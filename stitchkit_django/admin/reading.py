"""Rows as they are stored, for pages: of the store's database, whichever model hosts them.

A body (JSON text) is read as a text and decoded here, so that one that can't be read is shown as
such and takes no page down.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from django.db.models import F, Func, TextField
from django.db.models.functions import Length, Now

from stitchkit_django.core.errors import InvalidIdentifierError
from stitchkit_django.core.records import SCHEMA_VERSION
from stitchkit_django.core.values import identifier
from stitchkit_django.core.wire import DECODING_ERRORS
from stitchkit_django.fields import CODECS, RecordField
from stitchkit_django.hosts import default_alias, hosts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import Model, QuerySet
    from django.db.models.sql.compiler import SQLCompiler, _AsSqlType

T = TypeVar("T")

MOST_BODY_CHARACTERS: Final = 16_000_000
"""Of all bodies that one page reads, as stored."""

RUN_FIELDS: Final = (
    "pk",
    "conversation_id",
    "run_id",
    "turn",
    "schema_version",
    "assistant_message_id",
    "state",
    "revision",
    "owner_id",
    "fencing_token",
    "lease_seconds",
    "lease_expires_at",
    "terminal_reason",
    "terminal_policy_name",
    "absorbed_into_run_id",
    "cost_amount",
    "cost_currency",
    "created_at",
    "updated_at",
    "acquired_at",
    "ended_at",
)
"""Of a run's row, all that is short; `moment`, the database's, comes with them."""


class Row(SimpleNamespace):
    """A row's fields by the names that the store knows them by."""


class Decoded(NamedTuple, Generic[T]):
    """A body, or why it can't be read and what it holds instead."""

    value: T | None = None
    problem: str | None = None
    text: str = ""


class Body(Func):
    """A column of JSON as the text that it holds."""

    template = "%(expressions)s"
    output_field = TextField()

    def as_sqlite(
        self,
        compiler: SQLCompiler,
        connection: BaseDatabaseWrapper,
        **context: Any,  # noqa: ANN401 - the base's own
    ) -> _AsSqlType:
        """Read bytes: SQLite keeps what it was given, and may have been given no UTF-8."""
        return self.as_sql(
            compiler, connection, template="CAST(%(expressions)s AS BLOB)", **context
        )


def is_identifier(text: str) -> bool:
    """Tell whether a text can be an id at all: what can't be one is nobody's."""
    try:
        identifier("id", text)
    except InvalidIdentifierError:
        return False
    return True


class Stored:
    """The rows of one kind: head, run, receipt or message."""

    def __init__(self, kind: str) -> None:
        """Take the kind."""
        self.host = hosts()[kind]
        self.using = default_alias()

    def rows(self) -> QuerySet[Model]:
        """Give all of them."""
        return self.host.rows(self.using)

    def own(self, name: str) -> str:
        """Give the model's own name of a field."""
        return "pk" if name == "pk" else self.host.field(name).attname

    def where(self, rows: QuerySet[Model] | None = None, **known: object) -> QuerySet[Model]:
        """Keep rows by fields, each with a lookup behind two underscores if it has one."""
        found = self.rows() if rows is None else rows
        named = {}
        for key, value in known.items():
            name, *lookup = key.split("__")
            named["__".join([self.own(name), *lookup])] = value
        return found.filter(**named)

    def read(self, rows: QuerySet[Any], *fields: str, **more: Any) -> list[Row]:  # noqa: ANN401 - any expression
        """Read fields of rows; `moment` is the database's own, a body comes as its text.

        Args:
            rows: in the order of the result.
            fields: by the store's names; `size of …` gives the length of a body.
            more: expressions, by the names that their values get.
        """
        asked = [*map(self._expression, fields), *more.values()]
        names = [*(field.replace(" ", "_") for field in fields), *more]
        return [Row(**dict(zip(names, values, strict=True))) for values in rows.values_list(*asked)]

    def bodies(self, sizes: dict[Any, int], *fields: str) -> dict[Any, Row]:
        """Read the bodies of rows by their primary keys, no more than a page may hold.

        Args:
            sizes: of each row's bodies, by its primary key, the most wanted first.
            fields: the bodies.
        """
        wanted, left = [], MOST_BODY_CHARACTERS
        for key, size in sizes.items():
            if size <= left:
                wanted.append(key)
                left -= size
        found = self.read(self.rows().filter(pk__in=wanted), "pk", *fields)
        return {row.pk: row for row in found}

    def _expression(self, field: str) -> Any:  # noqa: ANN401 - any expression
        if field == "moment":
            return Now()
        if field.startswith("size of "):
            return Length(self.own(field.removeprefix("size of ")))
        own = F(self.own(field))
        is_body = field != "pk" and isinstance(self.host.field(field), RecordField)
        return Body(own) if is_body else own


def decoded(
    kind: str, text: str | bytes | None, schema_version: int = SCHEMA_VERSION
) -> Decoded[Any]:
    """Decode a body, or say why it can't be."""
    if text is None:
        return Decoded()
    plain = text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
    if schema_version != SCHEMA_VERSION:
        problem = f"schema version {schema_version}"
        return Decoded(problem=problem, text=plain)
    try:
        return Decoded(CODECS[kind].decode(plain), text=plain)
    except DECODING_ERRORS as error:
        return Decoded(problem=f"{type(error).__name__}: {error}", text=plain)


def by(rows: Iterable[Row], field: str) -> dict[Any, Row]:
    """Give rows by one of their fields."""
    return {getattr(row, field): row for row in rows}


def until_now(since: datetime | None, row: Row) -> float | None:
    """Give the seconds from a moment to the one at which a row was read."""
    return None if since is None else (row.moment - since).total_seconds()
