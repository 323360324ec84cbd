"""A dispatcher is told of a run when a worker may have something to do, and only then."""

from __future__ import annotations

import pytest

from stitchkit_django.core import AgentStore, MemoryDriver
from stitchkit_django.core.hints import Hints
from tests.core.clock import Clock
from tests.core.steps import abandon, acquire, admit, checkpoint, compact, end, requeue

Told = list[tuple[str, str]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def store(told: Told) -> AgentStore:
    def dispatch(conversation_id: str, run_id: str) -> None:
        told.append((conversation_id, run_id))

    driver = MemoryDriver(Clock())
    return AgentStore(driver, publishers=[Hints(driver, dispatch)])


def test_a_new_run_is_told(store: AgentStore, told: Told) -> None:
    admit(store, "1")
    admit(store, "2")

    assert told == [("c", "r1"), ("c", "r2")]


def test_a_retry_and_an_input_that_joins_a_run_are_not_told(store: AgentStore, told: Told) -> None:
    run = admit(store, "1")
    told.clear()

    store.accept_input("c", "1", "Hello?")
    admit(store, "2", coalesce_into=run.id)

    assert told == []


def test_work_on_a_run_is_not_told(store: AgentStore, told: Told) -> None:
    run = admit(store, "1")
    told.clear()

    run = checkpoint(store, acquire(store, run), "So far")
    store.request_interrupt("c", run.id)

    assert told == []


def test_a_run_that_is_queued_again_is_told(store: AgentStore, told: Told) -> None:
    run = checkpoint(store, acquire(store, admit(store, "1")), "So far")
    told.clear()

    requeue(store, run)

    assert told == [("c", "r1")]


def test_with_the_end_of_a_run_the_next_one_is_told(store: AgentStore, told: Told) -> None:
    run = acquire(store, admit(store, "1"))
    admit(store, "2")
    admit(store, "3")
    told.clear()

    end(store, run)

    assert told == [("c", "r2")]


def test_with_an_abandoned_run_the_next_one_is_told(store: AgentStore, told: Told) -> None:
    run = acquire(store, admit(store, "1"))
    admit(store, "2")
    told.clear()

    abandon(store, run)

    assert told == [("c", "r2")]


def test_a_cancelled_run_behind_one_that_runs_tells_nothing(store: AgentStore, told: Told) -> None:
    acquire(store, admit(store, "1"))
    queued = admit(store, "2")
    told.clear()

    store.cancel_run("c", queued.id)

    assert told == []


def test_the_last_run_of_a_queue_tells_nothing_with_its_end(store: AgentStore, told: Told) -> None:
    run = acquire(store, admit(store, "1"))
    told.clear()

    end(store, run)
    compact(store, "i-1", "a-r1")

    assert told == []


def test_hints_are_named_by_their_dispatcher() -> None:
    def dispatch(_conversation_id: str, _run_id: str) -> None: ...

    assert repr(Hints(MemoryDriver(), dispatch)) == f"Hints({dispatch!r})"
