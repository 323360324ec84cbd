"""Every operation works inside a transaction that somebody else has opened, however they did it."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction
from django.http import HttpResponse
from django.test import Client, TestCase
from django.urls import path

from stitchkit_django import get_store
from stitchkit_django.core import Applied
from stitchkit_django.events import run_event
from stitchkit_django.models import Conversation
from tests.django.hooks import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.http import HttpRequest
    from pytest_django.fixtures import Settings

    from stitchkit_django.core import AgentStore, Event, Outcome

told: list[Event] = []
seen: list[tuple[bool, int]] = []


def use_every_mutation(store: AgentStore) -> list[Outcome]:
    """Take one conversation through every mutation, and a second one to its purge."""
    return [
        store.accept_input("c", "k1", "Hello?", input_message_id="i1", run_id="r1"),
        store.acquire_run("c", "r1", expected_revision=0, owner_id="w"),
        store.checkpoint_run("c", "r1", expected_revision=1, owner_id="w", parts="He"),
        store.renew_lease("c", "r1", owner_id="w", fencing_token=1),
        store.recover_run("c", "r1", expected_revision=2, action="requeue", replay_safe=True),
        store.acquire_run("c", "r1", expected_revision=3, owner_id="w"),
        store.request_interrupt("c", "r1"),
        store.commit_terminal(
            "c", "r1", expected_revision=5, owner_id="w", parts="He", reason="interrupted"
        ),
        store.accept_input("c", "k2", "Hello?", run_id="r2"),
        store.cancel_run("c", "r2"),
        store.compact_history("c", expected_version=9, message_ids=["i1"], summary_parts="Hi."),
        store.accept_input("gone", "k", "Hello?", run_id="r"),
        store.recover_run("gone", "r", expected_revision=0, action="abandon"),
        store.purge_conversation("gone"),
    ]


def view(request: HttpRequest) -> HttpResponse:
    """Use every mutation; fail afterwards if the request says so."""
    alias = request.GET["alias"]
    outcomes = use_every_mutation(get_store(alias))
    assert {type(one) for one in outcomes} == {Applied}
    seen.append((connections[alias].in_atomic_block, len(told)))
    if "fail" in request.GET:
        raise LookupError
    return HttpResponse("done")


urlpatterns = [path("", view)]


@pytest.fixture(autouse=True)
def _listening() -> Iterator[None]:
    def receive(*, event: Event, **_: object) -> None:
        told.append(event)

    told.clear()
    seen.clear()
    run_event.connect(receive)
    yield
    run_event.disconnect(receive)


@pytest.fixture
def atomic_requests(alias: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    settings.ROOT_URLCONF = __name__
    monkeypatch.setitem(connections[alias].settings_dict, "ATOMIC_REQUESTS", value=True)
    return alias


def expect_all_is_there(alias: str) -> None:
    store = get_store(alias)
    assert store.load_snapshot("c").version == 10
    assert len(store.load_snapshot("c").messages) == 4
    heads = Conversation.objects.using(alias).values_list("conversation_id", flat=True)
    assert set(heads) == {"c", "gone"}


def test_in_a_request_that_is_a_transaction_all_is_kept_and_told_with_its_response(
    atomic_requests: str,
) -> None:
    response = Client().get("/", {"alias": atomic_requests})

    assert response.content == b"done"
    assert seen == [(True, 0)]
    # Of a renewal and of a purge nothing is told.
    assert len(told) == 12
    expect_all_is_there(atomic_requests)


def test_of_a_request_that_fails_nothing_is_kept_and_nothing_is_told(atomic_requests: str) -> None:
    with pytest.raises(LookupError):
        Client().get("/", {"alias": atomic_requests, "fail": "1"})

    assert seen == [(True, 0)]
    assert told == []
    assert not any(tables(atomic_requests).values())


def test_inside_a_test_case_everything_works_and_what_is_committed_is_told_when_said(
    alias: str,
) -> None:
    def use(case: TestCase) -> None:
        with case.captureOnCommitCallbacks(using=alias, execute=True):
            outcomes = use_every_mutation(get_store(alias))
            seen.append((connections[alias].in_atomic_block, len(told)))
        assert {type(one) for one in outcomes} == {Applied}
        assert len(told) == 12
        expect_all_is_there(alias)

    result = run_in_a_test_case(alias, use)

    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
    assert seen == [(True, 0)]
    assert not any(tables(alias).values())


def test_inside_a_durable_transaction_everything_works(alias: str) -> None:
    with transaction.atomic(using=alias, durable=True):
        outcomes = use_every_mutation(get_store(alias))
        told_inside = len(told)

    assert {type(one) for one in outcomes} == {Applied}
    assert (told_inside, len(told)) == (0, 12)
    expect_all_is_there(alias)


def test_in_autocommit_everything_works(alias: str) -> None:
    outcomes = use_every_mutation(get_store(alias))

    assert {type(one) for one in outcomes} == {Applied}
    assert len(told) == 12
    expect_all_is_there(alias)


def run_in_a_test_case(alias: str, use: Callable[[TestCase], None]) -> unittest.TestResult:
    class Case(TestCase):
        databases = {alias}

        def runTest(self) -> None:  # noqa: N802 - unittest's name
            use(self)

    result = unittest.TestResult()
    unittest.TestSuite([Case()]).run(result)
    return result
