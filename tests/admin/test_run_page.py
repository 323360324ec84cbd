"""A run's page: its times, its use, its inputs and answer, what keeps it, its end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models import F

from stitchkit_django import get_store
from stitchkit_django.core import Absorption
from stitchkit_django.models import Message, Run
from tests.admin.pages import conversation_url, got, link, row_url, seen, url_of
from tests.admin.scene import ORDER, STUCK, WAITING, make
from tests.core.steps import abandon, acquire, admit, answered, compact, end

if TYPE_CHECKING:
    from django.test import Client


def page_of(client: Client, alias: str, run_id: str) -> str:
    return got(client, row_url(alias, Run, run_id))


def test_an_ended_run_tells_its_times_and_its_use(alias: str, client: Client) -> None:
    make(alias)

    text = seen(page_of(client, alias, "run-address"))

    for told in (
        "completed stopped by a policy",
        "waited 2.4 s",
        "worked 12 s",
        "Input tokens 5,210 reported by the provider",
        "Reasoning tokens unavailable",
        "Cost 0.0213 EUR computed",
        "stopped by a policy: two-tries",
        "Can you bring it to my neighbour instead?",
        "I could not reach the carrier.",
    ):
        assert told in text


def test_a_failed_run_tells_its_detail(alias: str, client: Client) -> None:
    make(alias)

    text = seen(page_of(client, alias, "run-weather"))

    assert "provider failure 503 Service Unavailable upstream: eu-2" in text


def test_a_queued_run_tells_what_it_waits_for(alias: str, client: Client) -> None:
    make(alias)

    waiting = page_of(client, alias, WAITING)
    first = page_of(client, alias, "run-new")

    assert "It waits until the run before it has ended. running run-refund (lease: lapsed" in seen(
        waiting
    )
    assert "It is the first of its queue: it waits for a worker." in seen(first)
    assert "None yet." in seen(first)


@pytest.mark.parametrize(
    ("lease", "late", "told"),
    [
        (timedelta(seconds=60), timedelta(), None),
        (timedelta(seconds=60), timedelta(hours=1), "Its lease has lapsed"),
        (None, timedelta(hours=3), "It has no lease: only its last write, 3 h ago"),
    ],
)
def test_a_run_tells_how_its_lease_stands(
    alias: str, client: Client, lease: timedelta | None, late: timedelta, told: str | None
) -> None:
    store = get_store(alias)
    acquire(store, admit(store), lease=lease)
    moments = {name: F(name) - late for name in ("lease_expires_at", "updated_at", "created_at")}
    Run.objects.using(alias).update(**moments)

    text = seen(page_of(client, alias, "r1"))

    assert (told or "left") in text
    assert ("sk-blocked" in page_of(client, alias, "r1")) is (told is not None)


def test_a_run_that_was_asked_to_stop_says_so(alias: str, client: Client) -> None:
    store = get_store(alias)
    acquire(store, admit(store), lease=timedelta(hours=1))
    store.request_interrupt("c", "r1")

    text = seen(page_of(client, alias, "r1"))

    assert "interrupt requested" in text
    assert "Its owner has been asked to stop, and hasn't yet." in text


def test_an_absorbed_run_leads_to_the_one_that_answered(alias: str, client: Client) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store, "1"))
    admit(store, "2")
    end(store, run, absorb=[Absorption(run_id="r2", input_message_ids=("i-2",))])

    page = page_of(client, alias, "r2")
    absorber = client.get(link(page, "r1") or "")

    assert "absorbed by another run: r1" in seen(page)
    assert absorber.headers["Location"] == row_url(alias, Run, "r1")
    assert seen(page_of(client, alias, "r1")).count("Hello?") == 2


def test_a_run_shows_its_answer_once_its_history_is_gone(alias: str, client: Client) -> None:
    store = get_store(alias)
    answered(store)
    compact(store, "i-1", "a-r1")
    Message.objects.using(alias).archived().delete()

    text = seen(page_of(client, alias, "r1"))

    assert "i-1 is no message any more." in text
    assert "Hello!" in text


def test_a_run_of_many_inputs_shows_some(alias: str, client: Client) -> None:
    store = get_store(alias)
    admit(store, "0")
    for number in range(1, 60):
        admit(store, str(number), coalesce_into="r0")

    assert "and 10 inputs more" in seen(page_of(client, alias, "r0"))


def test_only_what_the_state_allows_is_offered(alias: str, client: Client) -> None:
    make(alias)

    def offered(run_id: str) -> list[str]:
        page = page_of(client, alias, run_id)
        names = ("Request interrupt…", "Cancel…", "Requeue…", "Abandon…")
        return [name for name in names if name in page]

    assert offered(STUCK) == ["Request interrupt…", "Requeue…", "Abandon…"]
    assert offered(WAITING) == ["Cancel…", "Requeue…", "Abandon…"]
    assert offered("run-paris") == []


def test_the_raw_view_is_the_row(alias: str, client: Client) -> None:
    store = get_store(alias)
    abandon(store, acquire(store, admit(store)), detail='Lost, "they" said')

    raw: dict[str, Any] = client.get(row_url(alias, Run, "r1", "raw")).json()

    assert raw["terminal_detail"] == 'Lost, "they" said'
    assert raw["input_message_ids"] == ["i-1"]
    assert raw["terminal_assistant"]["status"] == "failed"
    assert raw["usage"] is None


def test_a_run_leads_to_its_conversation_and_back(alias: str, client: Client) -> None:
    make(alias)

    page = page_of(client, alias, STUCK)

    assert link(page, ORDER) == conversation_url(ORDER)
    assert link(got(client, conversation_url(ORDER)), STUCK) == row_url(alias, Run, STUCK)


@pytest.mark.parametrize("key", ["0", "x", "9" * 30, "1\0", "-1", "1.5", "\u0661"])
@pytest.mark.parametrize("view", ["change", "raw"])
def test_a_run_that_is_not_there_is_not_found(
    alias: str, client: Client, key: str, view: str
) -> None:
    assert alias
    assert client.get(url_of(Run, view, key)).status_code == 404
