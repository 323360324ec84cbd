"""Names of tables and columns, and the union that every read is; no statement of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stitchkit_django.hosts import hosts
from stitchkit_django.statements.rows import FULL, LANES, Lanes, Widths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper

    from stitchkit_django.hosts import Host
    from stitchkit_django.statements.dialects import Dialect


class Statement(NamedTuple):
    """SQL and its parameters."""

    sql: str
    parameters: Sequence[Any]
    widths: Widths = FULL
    """Of the rows that it gives, where it is a union."""


class Union(NamedTuple):
    """The SQL of a union, and how wide its rows are."""

    sql: str
    widths: Widths


class Piece(NamedTuple):
    """One SELECT of a union, as a template: `{run}` is a table, `{run.turn}` a column of it."""

    kind: str
    """Stands first in each row, to tell the pieces of a union apart."""
    table: str
    """Whose columns are selected."""
    lanes: Lanes
    """Which column goes to which lane."""
    body: str
    """From FROM to the end. `{unseen}` is a parameter (`Dialect.unseen`), `{{marks}}` is filled
    with as many as a call has ids."""
    extras: tuple[str, ...] = ()
    """More columns, as templates, behind the lanes: only of a piece that stands alone."""


class Table:
    """A host's table: its quoted name as a text, its columns, qualified, as attributes."""

    def __init__(
        self, connection: BaseDatabaseWrapper, host: Host, alias: str | None = None
    ) -> None:
        """Take the names from the model; an alias lets a query name a table twice."""
        quote = connection.ops.quote_name
        name = quote(host.model._meta.db_table)
        fields = dict(host.fields())
        self._declared = name if alias is None else f"{name} AS {quote(alias)}"
        self._bare = {known: quote(str(field.column)) for known, field in fields.items()}
        self._types = {known: field.db_type(connection) for known, field in fields.items()}
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

    def casts(self, fields: Iterable[str]) -> str:
        """Give a parameter for each column, of the column's type: a SELECT list infers none."""
        return ", ".join(f"CAST(%s AS {self._types[field]})" for field in fields)

    def assignments(self, fields: Iterable[str]) -> str:
        """Give columns as SET lists them, each with a parameter."""
        return ", ".join(f"{self._bare[field]} = %s" for field in fields)


class Tables:
    """The tables as one database names them, and what builds SQL of templates over them."""

    def __init__(self, connection: BaseDatabaseWrapper, dialect: Dialect) -> None:
        """Take the names from the models that host the rows."""
        self.dialect = dialect
        self.hosts = hosts()
        self.names = {kind: Table(connection, host) for kind, host in self.hosts.items()}
        self.names["queued"] = Table(connection, self.hosts["run"], "queued")

    def __getitem__(self, name: str) -> Table:
        """Give a table by the name that templates know it by."""
        return self.names[name]

    def sql(self, template: str) -> str:
        """Fill the names into a template."""
        return " ".join(template.format(unseen=self.dialect.unseen, **self.names).split())

    def union(self, *pieces: Piece, clock: bool = False, full: bool = False) -> Union:
        """Build one statement that reads all pieces, at one moment.

        Its rows are no wider than they must be, since a database parses what pads them, unless it
        reads so many that widening them afterwards would cost more.

        Args:
            pieces: what is read, in this order.
            clock: whether a row of kind `clock` with the moment comes first.
            full: whether the rows have all lanes.
        """
        if full:
            return Union(" UNION ALL ".join(map(self.select, pieces)), FULL)
        widths = [max(len(piece.lanes[lane]) for piece in pieces) for lane in range(len(LANES))]
        if clock:
            widths[-1] = max(widths[-1], 1)
        selects = [self._clock(widths)] if clock else []
        selects += [self.select(piece, widths) for piece in pieces]
        return Union(" UNION ALL ".join(selects), tuple(widths))

    def select(self, piece: Piece, widths: Sequence[int] = FULL) -> str:
        """Build one SELECT, its lanes filled up to their widths."""
        columns = [
            [getattr(self.names[piece.table], field) for field in fields] for fields in piece.lanes
        ]
        selected = [f"'{piece.kind}'", *self._padded(columns, widths)]
        selected += [self.sql(extra) for extra in piece.extras]
        select = f"SELECT {', '.join(selected)} {self.sql(piece.body)}"
        # In a union, ORDER BY and LIMIT would be the whole union's: they go into a subquery.
        return f"SELECT * FROM ({select}) AS bounded" if " LIMIT " in piece.body else select

    def _clock(self, widths: Sequence[int]) -> str:
        columns: list[list[str]] = [[], [], [], [self.dialect.clock]]
        selected = ["'clock'", *self._padded(columns, widths)]
        return f"SELECT {', '.join(selected)}"

    def _padded(self, columns: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterable[str]:
        for lane, width, filled in zip(LANES, widths, columns, strict=True):
            yield from filled
            yield from [self.dialect.nulls[lane]] * (width - len(filled))
