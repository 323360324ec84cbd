"""Rows are found by what they are to a worker, by columns that are indexed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction

from stitchkit_django import get_store
from stitchkit_django.models import Message, Run
from tests.core.steps import acquire, admit, answered, compact, run_of

if TYPE_CHECKING:
    from django.db.models import QuerySet

MINUTE = timedelta(minutes=1)


@pytest.fixture
def runs(alias: str) -> QuerySet[Run]:
    """Give the rows of a run of each kind: ended, leased, and two queued behind it."""
    store = get_store(alias)
    answered(store, "1")
    acquire(store, admit(store, "2"), lease=MINUTE)
    admit(store, "3")
    store.cancel_run("c", admit(store, "4").id)
    return Run.objects.using(alias)


def ids(rows: QuerySet[Run]) -> list[str]:
    return list(rows.order_by("id").values_list("run_id", flat=True))


def test_active_runs_are_those_that_have_not_ended(alias: str) -> None:
    store = get_store(alias)
    answered(store, "1")
    run = acquire(store, admit(store, "2"))
    admit(store, "3")
    run_of(store.request_interrupt("c", run.id))

    rows = Run.objects.using(alias)

    assert ids(rows.active()) == ["r2", "r3"]
    assert ids(rows.ended()) == ["r1"]
    assert ids(rows.acquired()) == ["r2"]


def test_each_run_is_either_active_or_ended(runs: QuerySet[Run]) -> None:
    active, ended = Run.objects.using(runs.db).active(), Run.objects.using(runs.db).ended()

    assert ids(active | ended) == ids(runs.all())
    assert ids(active & ended) == []


def test_a_run_is_stale_from_the_moment_that_its_lease_ends(alias: str) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store), lease=MINUTE)
    assert run.lease_expires_at is not None
    rows = Run.objects.using(alias)

    assert ids(rows.stale(run.lease_expires_at - timedelta(microseconds=1))) == []
    assert ids(rows.stale(run.lease_expires_at)) == ["r1"]


def test_a_run_without_a_lease_or_an_owner_is_never_stale(alias: str) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store, "1"))
    admit(store, "2")

    assert ids(Run.objects.using(alias).stale(run.updated_at + timedelta(days=999))) == []


def test_querysets_go_on_from_one_another(runs: QuerySet[Run]) -> None:
    rows = Run.objects.using(runs.db)

    assert ids(rows.filter(conversation_id="c").active().exclude(run_id="r2")) == ["r3"]
    assert ids(rows.active().acquired().filter(owner_id="worker")) == ["r2"]
    assert ids(rows.filter(conversation_id="other").ended()) == []


def test_archived_messages_are_those_that_a_summary_has_replaced(alias: str) -> None:
    store = get_store(alias)
    answered(store, "1")
    admit(store, "2")
    compact(store, "i-1", "a-r1")
    rows = Message.objects.using(alias)

    active = rows.active().order_by("turn", "slot").values_list("message_id", flat=True)
    archived = rows.archived().order_by("turn", "slot").values_list("message_id", flat=True)

    assert list(active) == ["s", "i-2"]
    assert list(archived) == ["i-1", "a-r1"]


@pytest.mark.parametrize("kind", ["active", "acquired", "stale", "ended"])
def test_runs_are_found_by_the_index_of_scans(alias: str, kind: str) -> None:
    rows = Run.objects.using(alias)
    found = {
        "active": rows.active(),
        "acquired": rows.acquired(),
        "stale": rows.stale(run_of(get_store(alias).accept_input("c", "k", "Hello?")).created_at),
        "ended": rows.ended(),
    }[kind]

    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        if connections[alias].vendor == "postgresql":
            # A table of few rows is read whole; whether the index could serve is the question. In
            # no order: by their keys PostgreSQL may rather walk the keys of all runs.
            cursor.execute("SET LOCAL enable_seqscan = off")
            plan = found.explain()
        else:
            plan = found.order_by("id").explain()

    assert "stitchkit_run_scan" in plan
