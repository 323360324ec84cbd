"""Events are told after the outermost commit, at most once, and none keeps another from its own."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.test import override_settings

from stitchkit_django import get_store
from stitchkit_django.core import AgentStore, Applied
from stitchkit_django.core.events import (
    AssistantCheckpointed,
    Event,
    HistoryCompacted,
    InputAdmitted,
    RunChanged,
    RunEnded,
)
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.events import run_event

if TYPE_CHECKING:
    from collections.abc import Iterator

heard: list[Event] = []


def hear(event: Event) -> None:
    heard.append(event)


class Deaf:
    """A publisher without a name of its own, which fails."""

    def __call__(self, _event: Event, *, why: str = "deaf") -> None:
        raise RuntimeError(why)


@pytest.fixture(autouse=True)
def _nothing_heard() -> Iterator[None]:
    heard.clear()
    yield
    heard.clear()


@pytest.fixture
def store(alias: str) -> AgentStore:
    return AgentStore(DjangoDriver(alias), publishers=[hear])


def test_each_operation_is_told_as_its_event(store: AgentStore) -> None:
    admitted = store.accept_input("c", "k", "Hello?")
    assert isinstance(admitted, Applied)
    assert admitted.run is not None
    run_id = admitted.run.id

    store.acquire_run("c", run_id, expected_revision=0, owner_id="w")
    store.checkpoint_run("c", run_id, expected_revision=1, parts="Hel", owner_id="w")
    store.request_interrupt("c", run_id)
    store.commit_terminal(
        "c", run_id, expected_revision=3, parts="Hello", reason="success", owner_id="w"
    )
    messages = store.load_snapshot("c").messages
    ids = [message.id for message in messages]
    store.compact_history("c", expected_version=5, message_ids=ids, summary_parts="Greeted.")
    store.purge_conversation("c")

    kinds = [InputAdmitted, RunChanged, AssistantCheckpointed, RunChanged, RunEnded]
    assert [type(event) for event in heard] == [*kinds, HistoryCompacted]
    assert [event.version for event in heard] == [1, 2, 3, 4, 5, 6]
    assert heard[0].id == f"c/{run_id}/input-admitted/1"
    assert len({event.id for event in heard}) == len(heard)
    ended, compacted = heard[4], heard[5]
    assert isinstance(ended, RunEnded)
    assert ended.message == messages[1]
    assert isinstance(compacted, HistoryCompacted)
    assert compacted.replaced_ids == tuple(ids)


def test_what_wrote_nothing_is_not_told(store: AgentStore) -> None:
    store.accept_input("c", "k", "Hello?")
    heard.clear()

    store.accept_input("c", "k", "Hello?")
    store.cancel_run("c", "unknown")

    assert heard == []


def test_the_end_of_a_cancelled_run_is_told(store: AgentStore) -> None:
    admitted = store.accept_input("c", "k", "Hello?", run_id="r")
    assert isinstance(admitted, Applied)

    store.cancel_run("c", "r")

    assert [type(event) for event in heard] == [InputAdmitted, RunEnded]


def test_events_wait_for_the_outermost_commit(store: AgentStore, alias: str) -> None:
    with transaction.atomic(using=alias):
        store.accept_input("c", "k1", "one")
        store.accept_input("c", "k2", "two")
        store.accept_input("c", "k3", "three")
        told_inside = list(heard)

    assert told_inside == []
    assert [event.version for event in heard] == [1, 2, 3]
    assert len({event.id for event in heard}) == 3


def test_what_is_rolled_back_is_not_told(store: AgentStore, alias: str) -> None:
    def roll_back() -> None:
        with transaction.atomic(using=alias):
            store.accept_input("c", "lost", "lost")
            raise LookupError

    with transaction.atomic(using=alias):
        with pytest.raises(LookupError):
            roll_back()
        store.accept_input("c", "kept", "kept")

    (event,) = heard
    assert isinstance(event, InputAdmitted)
    assert event.version == 1
    assert event.input.parts == store.load_snapshot("c").messages[0].parts


def test_a_publisher_that_fails_is_logged_and_hides_nothing(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    publishers = (Deaf(), hear, partial(Deaf(), why="broken"), hear)
    store = AgentStore(DjangoDriver(alias), publishers=publishers)

    with caplog.at_level(logging.ERROR, logger="stitchkit_django.store"):
        outcome = store.accept_input("c", "k", "Hello?")

    assert isinstance(outcome, Applied)
    assert len(heard) == 2
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "deaf",
        "broken",
    ]
    assert store.load_snapshot("c").version == 1


def test_no_transaction_is_open_while_a_publisher_runs(alias: str) -> None:
    open_transactions: list[bool] = []

    def look(_event: Event) -> None:
        open_transactions.append(connections[alias].in_atomic_block)

    store = AgentStore(DjangoDriver(alias), publishers=[look])

    store.accept_input("c", "k1", "Hello?")
    with transaction.atomic(using=alias):
        store.accept_input("c", "k2", "Hello?")

    assert open_transactions == [False, False]


def test_the_signal_and_the_publishers_that_are_set_are_told(alias: str) -> None:
    received: list[Event] = []

    def receive(*, event: Event, **_: object) -> None:
        received.append(event)

    run_event.connect(receive, sender=InputAdmitted)
    try:
        with override_settings(STITCHKIT={"PUBLISHERS": [f"{__name__}.hear"]}):
            get_store(alias).accept_input("c", "k", "Hello?")
    finally:
        run_event.disconnect(receive, sender=InputAdmitted)

    assert [event.version for event in received] == [1]
    assert heard == received


def test_a_receiver_that_fails_is_logged(alias: str, caplog: pytest.LogCaptureFixture) -> None:
    deaf = Deaf()

    def receive(*, event: Event, **_: object) -> None:
        deaf(event)

    run_event.connect(receive)
    try:
        with caplog.at_level(logging.ERROR, logger="stitchkit_django.store"):
            outcome = get_store(alias).accept_input("c", "k", "Hello?")
    finally:
        run_event.disconnect(receive)

    assert isinstance(outcome, Applied)
    assert "run_event failed on event c/" in caplog.text


@pytest.mark.parametrize("path", ["nowhere.at_all", f"{__name__}.heard"])
def test_a_publisher_that_can_not_be_called_is_named(sqlite_alias: str, path: str) -> None:
    with (
        override_settings(STITCHKIT={"PUBLISHERS": [path]}),
        pytest.raises(ImproperlyConfigured, match=path),
    ):
        get_store(sqlite_alias)
