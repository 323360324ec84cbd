"""What a worker makes of a run, and of its loss."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from example.agent import next_part
from example.worker import Worker
from stitchkit_django import get_store
from stitchkit_django.core import (
    AgentStore,
    Applied,
    Conflict,
    Message,
    Part,
    Run,
    RunState,
    TextPart,
    ToolResultPart,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from example.worker import Agent

pytestmark = pytest.mark.django_db

CHAT = "chat-1"


@pytest.fixture
def store() -> AgentStore:
    return get_store()


@pytest.fixture
def run(store: AgentStore) -> Run:
    admitted = store.accept_input(CHAT, "request-1", "How warm is it in Oslo?")
    assert isinstance(admitted, Applied)
    assert admitted.run is not None
    return admitted.run


def worker(store: AgentStore, agent: Agent = next_part) -> Worker:
    """Build a worker."""
    return Worker(store=store, owner_id="worker-1", lease=timedelta(minutes=1), agent=agent)


def disturbed(disturbance: Callable[[], object], after: int | None) -> Agent:
    """Build an agent during whose work something happens once: after so many parts, or all."""
    done: list[bool] = []

    def agent(prompt: Sequence[Message], so_far: tuple[Part, ...]) -> Part | None:
        part = next_part(prompt, so_far)
        if not done and (part is None if after is None else len(so_far) == after):
            done.append(True)
            disturbance()
        return part

    return agent


def test_a_worker_answers_a_run(store: AgentStore, run: Run) -> None:
    outcome = worker(store).answer(run)

    assert isinstance(outcome, Applied)
    view = store.load_run(CHAT, run.id)
    assert view is not None
    assert view.run.state is RunState.COMPLETED
    assert view.assistant is not None
    assert view.assistant.parts[-1] == TextPart(text="Oslo has 11 degrees: it is warmest in Oslo.")


def test_a_run_that_another_worker_has_is_left_alone(store: AgentStore, run: Run) -> None:
    store.acquire_run(CHAT, run.id, expected_revision=run.revision, owner_id="worker-2")

    assert isinstance(worker(store).answer(run), Conflict)


@pytest.mark.parametrize("after", [0, 2, None])
def test_an_interrupt_ends_the_run_with_what_there_is(
    store: AgentStore, run: Run, after: int | None
) -> None:
    agent = disturbed(lambda: store.request_interrupt(CHAT, run.id), after)

    outcome = worker(store, agent).answer(run)

    assert isinstance(outcome, Applied)
    view = store.load_run(CHAT, run.id)
    assert view is not None
    assert view.run.state is RunState.INTERRUPTED
    assert view.assistant is not None
    assert view.assistant.parts[0] == TextPart(text="Let me ask the weather stations.")


@pytest.mark.parametrize("after", [1, None])
def test_a_worker_that_lost_its_run_writes_nothing_more(
    store: AgentStore, run: Run, after: int | None
) -> None:
    def hand_over() -> None:
        lost = store.list_active_runs(CHAT)[0]
        store.recover_run(
            CHAT, run.id, expected_revision=lost.revision, action="requeue", replay_safe=True
        )
        queued = store.list_active_runs(CHAT)[0]
        store.acquire_run(CHAT, run.id, expected_revision=queued.revision, owner_id="worker-2")

    outcome = worker(store, disturbed(hand_over, after)).answer(run)

    assert isinstance(outcome, Conflict)
    (left,) = store.list_active_runs(CHAT)
    assert (left.owner_id, left.fencing_token) == ("worker-2", 2)


def test_a_second_attempt_goes_on_from_the_first_ones_checkpoint(
    store: AgentStore, run: Run
) -> None:
    def fail() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        worker(store, disturbed(fail, after=3)).answer(run)
    (left,) = store.list_active_runs(CHAT)
    kept = store.load_snapshot(CHAT).messages[-1].parts
    store.recover_run(
        CHAT, run.id, expected_revision=left.revision, action="requeue", replay_safe=True
    )

    worker(store).answer(store.list_active_runs(CHAT)[0])

    view = store.load_run(CHAT, run.id)
    assert view is not None
    assert view.assistant is not None
    assert isinstance(kept[-1], ToolResultPart)
    assert view.assistant.parts[: len(kept)] == kept
