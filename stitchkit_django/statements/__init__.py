"""The SQL of the mutations and of the bounded reads, made once for each database alias.

Building a query costs the ORM more than a database takes to answer it. So the lock is compiled by
the ORM once, and the rest is written by hand: names come from `_meta` and are quoted, constants
are literals, values are parameters. What a read wants of several tables is one union: one round
trip, and one moment. Every statement of a mutation names one conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from stitchkit_django.statements.dialects import DIALECTS
from stitchkit_django.statements.reads import ReadStatements
from stitchkit_django.statements.tables import Statement, Tables
from stitchkit_django.statements.writes import WriteStatements

if TYPE_CHECKING:
    from stitchkit_django.statements.dialects import Dialect

__all__ = ["Statement", "Statements"]


class Statements:
    """All that is said to the database behind one alias."""

    def __init__(self, using: str) -> None:
        """Build the statements for the alias's database and names."""
        connection = connections[using]
        if connection.vendor not in DIALECTS:
            msg = (
                f"database {using!r} is {connection.display_name}: stitchkit_django knows "
                f"{', '.join(DIALECTS)}"
            )
            raise ImproperlyConfigured(msg)
        self.dialect: Dialect = DIALECTS[connection.vendor](using)
        tables = Tables(connection, self.dialect)
        self.hosts = tables.hosts
        self.makes_heads = not tables.hosts["head"].wants()
        """Whether the store can insert a head; else the product makes each one first."""
        self.reads = ReadStatements(tables)
        self.writes = WriteStatements(tables)
