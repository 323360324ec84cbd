"""A scan goes on behind a row that can't be read, and a large absorption fits every database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError, connections, transaction

from stitchkit_django import get_store
from stitchkit_django.core import (
    Absorption,
    Applied,
    StoreUnavailableError,
    UnsupportedSchemaVersionError,
)
from stitchkit_django.models import Message, Run
from tests.django.hooks import failing

if TYPE_CHECKING:
    from stitchkit_django.core import AgentStore


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_an_unreadable_run_is_told_once_and_hides_none_behind_it(alias: str, limit: int) -> None:
    store = get_store(alias)
    for number in range(5):
        store.accept_input(f"c{number}", "k", "Hello?", run_id=f"r{number}")
    Run.objects.using(alias).filter(run_id__in=["r1", "r2"]).update(schema_version=2)

    found: list[str] = []
    refused: list[str] = []
    cursor: str | None = None
    for _ in range(20):
        try:
            page = store.scan_recoverable(cursor=cursor, limit=limit)
        except UnsupportedSchemaVersionError as error:
            refused.append(error.row)
            cursor = error.next_cursor
            continue
        found += [run.id for run in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert found == ["r0", "r3", "r4"]
    assert refused == ["run 'r1' in conversation 'c1'", "run 'r2' in conversation 'c2'"]


def test_a_stop_needs_no_answer_that_can_be_read(alias: str) -> None:
    store = get_store(alias)
    store.accept_input("c", "k", "Hello?", run_id="r")
    store.acquire_run("c", "r", expected_revision=0, owner_id="w")
    store.checkpoint_run("c", "r", expected_revision=1, owner_id="w", parts="Hel")
    Message.objects.using(alias).filter(run_id="r").update(schema_version=2)

    assert isinstance(store.request_interrupt("c", "r"), Applied)


def _absorb(store: AgentStore, count: int) -> Applied:
    store.accept_input("c", "k", "Hello?", run_id="r")
    for number in range(count):
        store.accept_input(
            "c", f"k{number}", "And?", run_id=f"r{number}", input_message_id=f"i{number}"
        )
    store.acquire_run("c", "r", expected_revision=0, owner_id="w")
    absorb = [Absorption(run_id=f"r{n}", input_message_ids=(f"i{n}",)) for n in range(count)]
    outcome = store.commit_terminal(
        "c", "r", expected_revision=1, owner_id="w", parts="All", reason="success", absorb=absorb
    )
    assert isinstance(outcome, Applied)
    return outcome


@pytest.mark.parametrize("count", [7, 12, 350])
def test_an_answer_can_absorb_many_runs(alias: str, count: int) -> None:
    store = get_store(alias)

    outcome = _absorb(store, count)

    assert outcome.run is not None
    assert len(outcome.run.input_message_ids) == count + 1
    assert store.list_active_runs("c") == ()
    assert len(store.load_snapshot("c").messages) == count + 2


def test_an_error_that_leaves_the_connection_whole_leaves_it_open(postgres_alias: str) -> None:
    store = get_store(postgres_alias)
    store.accept_input("c", "k", "Hello?")
    mine = connections[postgres_alias]
    other = mine.copy()
    with mine.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM stitchkit_django_conversation FOR UPDATE")

        with pytest.raises(StoreUnavailableError):
            store.accept_input("c", "k2", "And?")
    finally:
        other.close()

    with mine.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("50ms",)
        cursor.execute("RESET lock_timeout")


def test_the_run_that_a_checkpoint_tells_is_the_run_that_it_wrote(alias: str) -> None:
    store = get_store(alias)
    store.accept_input("c", "k", "Hello?", run_id="r")
    lease = timedelta(seconds=60)
    store.acquire_run("c", "r", expected_revision=0, owner_id="w", lease=lease)

    outcome = store.checkpoint_run("c", "r", expected_revision=1, owner_id="w", parts="Hel")

    view = store.load_run("c", "r")
    assert isinstance(outcome, Applied)
    assert view is not None
    assert outcome.run == view.run


def test_a_read_that_fails_inside_a_callers_transaction_says_to_roll_it_back(alias: str) -> None:
    store = get_store(alias)
    lost = OperationalError("lost")

    with transaction.atomic(using=alias), failing(alias, lambda: lost, 1):  # noqa: SIM117 - one each
        with pytest.raises(StoreUnavailableError, match="may not go on: roll it back") as refused:
            store.load_snapshot("c")

    assert refused.value.__cause__ is lost
