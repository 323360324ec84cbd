"""Django's fixtures keep every row, as XML to the last digit: dumpdata and loaddata."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections, transaction

from stitchkit_django import get_store
from stitchkit_django.core import Cost, Provenance, ProviderEnvelope, ProviderPart, Usage
from tests.core.steps import (
    abandon,
    acquire,
    admit,
    answered,
    checkpoint,
    compact,
    duplicate,
    end,
    view,
)
from tests.django.hooks import tables

if TYPE_CHECKING:
    from pathlib import Path

    from stitchkit_django.core import AgentStore

HOSTILE = "NUL \x00, a lone surrogate \ud83d, é, \u2028 and </script>"


def populate(store: AgentStore) -> None:
    """Leave a row of every kind, with values that are easily lost."""
    answered(store, "1")
    run = acquire(store, admit(store, "2", HOSTILE, metadata={"b": 1e100, "a": -0.0, "c": 2**70}))
    envelope = ProviderEnvelope(schema_version=1, provider="p", data={"x": [1, 1.0, True, None]})
    usage = Usage(
        cost=Cost(amount=Decimal("0.0000012345"), currency="EUR", provenance=Provenance.COMPUTED)
    )
    run = checkpoint(store, run, [ProviderPart(envelope=envelope)], usage=usage)
    end(store, run, HOSTILE, "provider_failure", detail=HOSTILE)
    abandon(store, acquire(store, admit(store, "3")), detail="gone")
    compact(store, "i-1", "a-r1")
    acquire(store, admit(store, "4"))
    admit(store, "5")
    store.accept_input("purged", "k", "Hello?", run_id="r")
    store.cancel_run("purged", "r")
    store.purge_conversation("purged")


def empty(alias: str) -> None:
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        for model in apps.get_app_config("stitchkit_django").get_models():
            cursor.execute(f"DELETE FROM {connections[alias].ops.quote_name(model._meta.db_table)}")


def reloaded(alias: str, file: Path, kind: str) -> None:
    """Dump all rows to a file, delete them, and load them again."""
    output = {"format": kind, "output": str(file)}
    call_command("dumpdata", "stitchkit_django", database=alias, verbosity=0, **output)
    empty(alias)
    assert not any(tables(alias).values())
    call_command("loaddata", str(file), database=alias, verbosity=0)


def to_the_millisecond(value: object) -> object:
    """Cut a moment as Django's JSON does."""
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return value


def expect_it_goes_on(store: AgentStore) -> None:
    last = store.load_snapshot("c").version
    end(store, view(store, "r4").run)
    acquire(store, view(store, "r5").run)
    assert admit(store, "6").turn == last + 3
    assert duplicate(store.accept_input("c", "2", HOSTILE)).run.terminal_detail == HOSTILE


def test_what_is_dumped_as_xml_is_loaded_as_it_was(alias: str, tmp_path: Path) -> None:
    store = get_store(alias)
    populate(store)
    before, snapshot = tables(alias), store.load_snapshot("c")

    reloaded(alias, tmp_path / "conversations.xml", "xml")

    assert all(before[model] for model in ("Conversation", "Run", "AdmissionReceipt", "Message"))
    assert tables(alias) == before
    assert store.load_snapshot("c") == snapshot
    expect_it_goes_on(store)


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_what_is_dumped_as_json_is_loaded_with_moments_to_the_millisecond(
    alias: str, tmp_path: Path, kind: str
) -> None:
    store = get_store(alias)
    populate(store)
    before = tables(alias)

    reloaded(alias, tmp_path / f"conversations.{kind}", kind)

    # Django's own encoder cuts them; the records inside the rows keep theirs.
    assert tables(alias) == {
        model: [tuple(map(to_the_millisecond, row)) for row in rows]
        for model, rows in before.items()
    }
    expect_it_goes_on(store)
