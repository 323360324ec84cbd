"""Who takes part: the store with each kind of OPTIONS, and its floor on the same database."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.contenders import Entry, Store
from benchmarks.databases import ALIASES
from benchmarks.floors import OneStatement, Transactions, WholeRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.databases import Database


RAW: Final = "raw psycopg"
F1: Final = "raw, one statement (F1)"


def entries(database: Database, options: Sequence[str]) -> list[Entry]:
    """Give the floor (F2) first, then the store with each kind of OPTIONS."""
    if database.vendor == "sqlite":
        # A floor of its own for each: how often it waits for the disk decides all.
        return [entry for option in options for entry in _pair(database, option)]
    floor = Entry(RAW, lambda: Transactions(database.session("default")))
    return [floor, *(_store(option, floor.name) for option in options)]


def one_statement(database: Database) -> list[Entry]:
    """Give F1, where the database can write several tables in one statement."""
    if database.vendor == "sqlite":
        return []
    return [Entry(F1, lambda: OneStatement(database.session("default")), RAW)]


def whole_rows(database: Database) -> list[Entry]:
    """Give a floor that fetches all columns that a record is made of, not the texts alone."""
    floor = entries(database, ["defaults"])[0].name
    return [Entry("raw, all columns", lambda: WholeRows(database.session("default")), floor)]


def _pair(database: Database, option: str) -> list[Entry]:
    name = f"raw sqlite3 ({option})"
    floor = Entry(name, lambda: Transactions(database.session(ALIASES[option])))
    return [floor, _store(option, name)]


def _store(option: str, floor: str) -> Entry:
    return Entry(f"store ({option})", partial(Store, ALIASES[option]), floor)
