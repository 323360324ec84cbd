"""The committed history never holds a call that no one will answer; nothing is made up before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import UNSET

from stitchkit_django.core import (
    AgentStore,
    MemoryDriver,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
    prompt_messages,
)
from tests.core.steps import (
    abandon,
    acquire,
    admit,
    answer,
    checkpoint,
    end,
    message,
    requeue,
    rows,
    run_of,
)

if TYPE_CHECKING:
    from stitchkit_django.core import Message, Run

FIRST = ToolCallPart(call_id="1", tool_name="add", input={"a": 1})
SECOND = ToolCallPart(call_id="2", tool_name="mail", input={})
DONE = ToolResultPart(call_id="1", tool_name="add", outcome=ToolOutcome.SUCCESS, output=2)
HALF_DONE = (TextPart(text="Let me see."), FIRST, SECOND, DONE)


def results(message: Message) -> dict[str, list[ToolOutcome]]:
    """Give the outcomes of each call of a message."""
    found: dict[str, list[ToolOutcome]] = {
        part.call_id: [] for part in message.parts if isinstance(part, ToolCallPart)
    }
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            found[part.call_id].append(part.outcome)
    return found


CLOSED = {"1": [ToolOutcome.SUCCESS], "2": [ToolOutcome.INTERRUPTED]}


def half_done(store: AgentStore) -> Run:
    return checkpoint(store, acquire(store, admit(store)), HALF_DONE)


@pytest.mark.parametrize(
    "reason", ["success", "provider_stop", "interrupted", "cancelled", "timeout", "superseded"]
)
def test_every_end_closes_the_calls_that_are_open(store: AgentStore, reason: str) -> None:
    run = half_done(store)

    ended = end(store, run, HALF_DONE, reason=reason)

    assert results(answer(store)) == CLOSED
    assert ended.revision == run.revision + 1


def test_an_abandoned_run_has_its_open_calls_closed_in_the_same_commit(
    store: AgentStore, driver: MemoryDriver
) -> None:
    run = half_done(store)
    version = rows(driver).head.version

    abandon(store, run)

    assert rows(driver).head.version == version + 1
    assert results(answer(store)) == results(message(store, "a-r1")) == CLOSED
    made = answer(store).parts[3]
    assert isinstance(made, ToolResultPart)
    assert (made.call_id, made.tool_name, made.output) == ("2", "mail", UNSET)


def test_a_cancelled_run_has_its_open_calls_closed(store: AgentStore) -> None:
    requeue(store, half_done(store))

    run_of(store.cancel_run("c", "r1"))

    assert results(answer(store)) == CLOSED


def test_nothing_is_made_up_for_a_call_in_flight(store: AgentStore) -> None:
    half_done(store)
    run_of(store.request_interrupt("c", "r1"))

    assert message(store, "a-r1").parts == HALF_DONE


def test_a_result_that_was_kept_is_there_for_the_next_attempt(store: AgentStore) -> None:
    again = acquire(store, requeue(store, half_done(store)), "another")

    (_, partial) = prompt_messages(store.load_snapshot("c"), again.id)

    assert partial.parts == HALF_DONE


def test_the_next_run_sees_each_call_with_exactly_one_result(store: AgentStore) -> None:
    end(store, half_done(store), HALF_DONE, reason="shutdown")
    admit(store, "2")

    (_, before, _) = prompt_messages(store.load_snapshot("c"), "r2")

    assert results(before) == CLOSED
