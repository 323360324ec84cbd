"""The floors write what the store writes, or a ratio to them would say nothing."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.db import connections

from benchmarks.bodies import body
from benchmarks.contenders import Store
from benchmarks.databases import SQLITE_PRAGMAS
from benchmarks.floors import OneStatement, Transactions, WholeRows
from benchmarks.sessions import PostgresSession, Session, SQLiteSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.contenders import Claim, Contender

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?")
STEPS = ("accept", "acquire", "first checkpoint", "checkpoint", "end")


@pytest.mark.parametrize("last", STEPS)
def test_a_floor_writes_the_rows_that_the_store_writes(alias: str, last: str) -> None:
    with closing(Store(alias)) as store, closing(Transactions(_session(alias))) as floor:
        _taken(store, "of-the-store", until=last)
        _taken(floor, "of-the-floor", until=last)

    assert _rows(alias, "of-the-floor") == _rows(alias, "of-the-store")


def test_one_statement_checkpoints_as_the_store_does(postgres_alias: str) -> None:
    with (
        closing(Store(postgres_alias)) as store,
        closing(OneStatement(_session(postgres_alias))) as floor,
    ):
        _taken(store, "of-the-store", until="checkpoint")
        _taken(floor, "of-the-floor", until="checkpoint")

    assert _rows(postgres_alias, "of-the-floor") == _rows(postgres_alias, "of-the-store")


@pytest.mark.parametrize("kind", [Transactions, WholeRows])
def test_a_floor_reads_as_many_messages_as_the_store(
    alias: str, kind: Callable[[Session], Transactions]
) -> None:
    with closing(Store(alias)) as store, closing(kind(_session(alias))) as floor:
        for number in range(51):
            _taken(store, "c", until="end", key=f"key-{number}")

        assert floor.history("c") == store.history("c") == 100
        assert floor.snapshot("c") == store.snapshot("c") == 102


def test_a_floor_pages_through_the_active_runs_as_the_store_does(alias: str) -> None:
    with closing(Store(alias)) as store, closing(Transactions(_session(alias))) as floor:
        for number in range(201):
            _taken(store, f"c-{number}", until="accept")

        assert _pages(floor) == _pages(store) == 3


def _taken(contender: Contender, conversation_id: str, *, until: str, key: str = "key") -> None:
    claim: Claim | None = None
    for step in STEPS[: STEPS.index(until) + 1]:
        if claim is None:
            claim = contender.accept(conversation_id, key, body(300))
        elif step == "acquire":
            contender.acquire(claim)
        elif step == "end":
            contender.end(claim, body(2000, 1))
        else:
            contender.checkpoint(claim, body(1000, STEPS.index(step)))
            contender.check_fence(claim)


def _pages(contender: Contender) -> int:
    pages, cursor = 1, contender.recovery_page(None)
    while cursor is not None:
        pages, cursor = pages + 1, contender.recovery_page(cursor)
    return pages


def _session(alias: str) -> Session:
    connection = connections[alias]
    if connection.vendor == "sqlite":
        return SQLiteSession(connection.settings_dict["NAME"], SQLITE_PRAGMAS["default"])
    parameters: dict[str, Any] = connection.get_connection_params()
    names = ("host", "port", "user", "password", "dbname")
    return PostgresSession(
        " ".join(f"{name}='{parameters[name]}'" for name in names if name in parameters)
    )


def _rows(alias: str, conversation_id: str) -> dict[str, list[list[str]]]:
    # As they are stored: what the store would make of them could be alike where they are not.
    connection = connections[alias]
    rows = {}
    for model in apps.get_app_config("stitchkit_django").get_models():
        fields = [field.attname for field in model._meta.concrete_fields if field.name != "id"]
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {', '.join(fields)} FROM {model._meta.db_table} "
                f"WHERE conversation_id = %s ORDER BY {model._meta.pk.name}",
                [conversation_id],
            )
            rows[model.__name__] = [list(map(_alike, row)) for row in cursor.fetchall()]
    return rows


def _alike(value: object) -> str:
    # What differs with each writing is made alike: ids and moments.
    text = _MOMENT.sub("a moment", _UUID.sub("an id", str(value)))
    return re.sub("of-the-(store|floor)", "c", text)
