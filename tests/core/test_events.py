"""Each write is told as one event, after it was kept; the database's side is tested with Django."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from stitchkit_django.core import Absorption, AgentStore, MemoryDriver, TextPart
from stitchkit_django.core.events import (
    AssistantCheckpointed,
    Event,
    HistoryCompacted,
    InputAdmitted,
    RunChanged,
    RunEnded,
    event_id,
)
from tests.core.steps import acquire, admit, checkpoint, owned
from tests.factories import RunFactory

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def heard() -> list[Event]:
    return []


@pytest.fixture
def telling(heard: list[Event]) -> AgentStore:
    """Give a store that tells the list."""
    return AgentStore(MemoryDriver(), publishers=[heard.append])


def test_a_turn_is_told_step_by_step(telling: AgentStore, heard: list[Event]) -> None:
    run = checkpoint(telling, acquire(telling, admit(telling)), "Hel")
    telling.request_interrupt("c", "r1")
    telling.recover_run("c", "r1", expected_revision=3, action="requeue", replay_safe=True)
    telling.cancel_run("c", "r1")

    kinds = [InputAdmitted, RunChanged, AssistantCheckpointed, RunChanged, RunChanged, RunEnded]
    assert [type(event) for event in heard] == kinds
    assert [event.version for event in heard] == [1, 2, 3, 4, 5, 6]
    checkpointed = heard[2]
    assert isinstance(checkpointed, AssistantCheckpointed)
    assert (checkpointed.run, checkpointed.message.parts) == (run, (TextPart(text="Hel"),))


def test_an_end_names_the_runs_that_it_absorbed(telling: AgentStore, heard: list[Event]) -> None:
    run = acquire(telling, admit(telling))
    admit(telling, "2")
    absorb = [Absorption(run_id="r2", input_message_ids=("i-2",))]

    telling.commit_terminal("c", "r1", **owned(run), parts="Both", reason="success", absorb=absorb)

    ended = heard[-1]
    assert isinstance(ended, RunEnded)
    assert [(one.id, one.absorbed_into_run_id) for one in ended.absorbed] == [("r2", "r1")]
    assert ended.message.id == "a-r1"


def test_a_compaction_names_what_it_replaced_in_causal_order(
    telling: AgentStore, heard: list[Event]
) -> None:
    admit(telling, "1")
    admit(telling, "2")

    telling.compact_history(
        "c", expected_version=2, message_ids=["i-2", "i-1"], summary_parts="Greetings."
    )

    compacted = heard[-1]
    assert isinstance(compacted, HistoryCompacted)
    assert compacted.replaced_ids == ("i-1", "i-2")
    assert compacted.id == "c/history-compacted/3"


def test_what_wrote_nothing_and_what_leaves_nothing_is_not_told(
    telling: AgentStore, heard: list[Event]
) -> None:
    run = acquire(telling, admit(telling))
    heard.clear()

    telling.accept_input("c", "1", "Hello?")
    telling.cancel_run("c", "r1")
    telling.renew_lease("c", "r1", owner_id="worker", fencing_token=run.fencing_token or 0)
    telling.commit_terminal("c", "r1", **owned(run), parts="", reason="cancelled")
    telling.purge_conversation("c")

    assert [type(event) for event in heard] == [RunEnded]


def test_ids_of_events_can_not_be_taken_for_one_another() -> None:
    one = event_id(RunChanged, "c/r", 1, RunFactory.build(id="x"))
    other = event_id(RunChanged, "c", 1, RunFactory.build(id="r/x"))

    assert one == "c%2Fr/x/run-changed/1"
    assert one != other


def test_a_publisher_that_fails_is_logged_and_the_next_one_is_told(
    heard: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_event: Event) -> None:
        message = "no line"
        raise ConnectionError(message)

    publishers: list[Callable[[Event], object]] = [fail, heard.append]
    store = AgentStore(MemoryDriver(), publishers=publishers)

    with caplog.at_level(logging.ERROR, logger="stitchkit_django.store"):
        admit(store)

    assert len(heard) == 1
    (record,) = caplog.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "no line"
    assert record.__dict__["conversation_id"] == "c"
