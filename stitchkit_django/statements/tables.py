"""Names of tables and columns, and the union that every read is; no statement of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from stitchkit_django.statements.rows import LANES, Lanes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.db import models
    from django.db.backends.base.base import BaseDatabaseWrapper

    from stitchkit_django.statements.dialects import Dialect


class Statement(NamedTuple):
    """SQL and its parameters."""

    sql: str
    parameters: Sequence[Any]


class Piece(NamedTuple):
    """One SELECT of a union, as a template: `{run}` is a table, `{run.turn}` a column of it."""

    kind: str
    """Stands first in each row, to tell the pieces of a union apart."""
    table: str
    """Whose columns are selected."""
    lanes: Lanes
    """Which column goes to which lane."""
    body: str
    """From FROM to the end. `{{marks}}` is filled with as many parameters as a call has ids."""


class Table:
    """A model's table: its quoted name as a text, its columns, qualified, as attributes."""

    def __init__(
        self, connection: BaseDatabaseWrapper, model: type[models.Model], alias: str | None = None
    ) -> None:
        """Take the names from the model; an alias lets a query name a table twice."""
        quote = connection.ops.quote_name
        name = quote(model._meta.db_table)
        self._declared = name if alias is None else f"{name} AS {quote(alias)}"
        self._bare = {
            field.attname: quote(str(field.column)) for field in model._meta.concrete_fields
        }
        qualifier = name if alias is None else quote(alias)
        self._qualified = {field: f"{qualifier}.{column}" for field, column in self._bare.items()}

    def __str__(self) -> str:
        """Give the table as FROM wants it."""
        return self._declared

    def __getattr__(self, field: str) -> str:
        """Give a column, qualified: no join can make it ambiguous."""
        try:
            return self._qualified[field]
        except KeyError:
            raise AttributeError(field) from None

    def columns(self, fields: Iterable[str]) -> str:
        """Give columns as INSERT and RETURNING list them."""
        return ", ".join(self._bare[field] for field in fields)

    def assignments(self, fields: Iterable[str]) -> str:
        """Give columns as SET lists them, each with a parameter."""
        return ", ".join(f"{self._bare[field]} = %s" for field in fields)


class Tables:
    """The tables as one database names them, and what builds SQL of templates over them."""

    def __init__(self, connection: BaseDatabaseWrapper, dialect: Dialect) -> None:
        """Take the names from the models."""
        self.dialect = dialect
        self.names = {
            "head": Table(connection, Conversation),
            "run": Table(connection, Run),
            "absorbed": Table(connection, Run, "absorbed"),
            "receipt": Table(connection, AdmissionReceipt),
            "message": Table(connection, Message),
        }

    def __getitem__(self, name: str) -> Table:
        """Give a table by the name that templates know it by."""
        return self.names[name]

    def sql(self, template: str) -> str:
        """Fill the names into a template."""
        return " ".join(template.format(**self.names).split())

    def union(self, *pieces: Piece) -> str:
        """Build one statement that reads all pieces, at one moment."""
        return " UNION ALL ".join(self.select(piece) for piece in pieces)

    def select(self, piece: Piece) -> str:
        """Build one SELECT of a union."""
        table = self.names[piece.table]
        selected = [f"'{piece.kind}'"]
        for lane, width in LANES.items():
            fields: Sequence[str] = getattr(piece.lanes, lane)
            selected += [getattr(table, field) for field in fields]
            selected += [self.dialect.nulls[lane]] * (width - len(fields))
        return self._bounded(f"SELECT {', '.join(selected)} {self.sql(piece.body)}")

    def clock(self) -> str:
        """Build the SELECT that reads the moment, as a piece of a union."""
        selected = ["'clock'"]
        for lane, width in LANES.items():
            selected += [self.dialect.nulls[lane]] * width
        if self.dialect.clock is not None:
            selected[1 + sum(LANES.values()) - LANES["moment"]] = self.dialect.clock
        return f"SELECT {', '.join(selected)}"

    @staticmethod
    def _bounded(select: str) -> str:
        # In a union, ORDER BY and LIMIT would be the whole union's: they go into a subquery.
        return f"SELECT * FROM ({select}) AS bounded" if " LIMIT " in select else select
