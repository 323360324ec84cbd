"""An inline dispatcher executes at once, one after another, and loses none to another's failure."""

from __future__ import annotations

import threading

import pytest

from stitchkit_django.core import AgentStore, MemoryDriver
from stitchkit_django.core.hints import Hints
from stitchkit_django.runtime.dispatch import InlineDispatcher
from tests.core.steps import acquire, admit, end, view


def test_a_run_is_executed_before_the_call_returns() -> None:
    executed: list[tuple[str, str]] = []

    InlineDispatcher(lambda *ids: executed.append(ids))("c", "r")

    assert executed == [("c", "r")]


def test_what_is_dispatched_meanwhile_is_executed_afterwards_and_before_the_call_returns() -> None:
    steps: list[str] = []

    def execute(_conversation_id: str, run_id: str) -> None:
        steps.append(f"{run_id} begins")
        if run_id == "1":
            dispatch("c", "2")
            dispatch("c", "3")
        steps.append(f"{run_id} ends")

    dispatch = InlineDispatcher(execute)
    dispatch("c", "1")

    assert steps == ["1 begins", "1 ends", "2 begins", "2 ends", "3 begins", "3 ends"]


def test_a_long_queue_is_worked_off_by_the_dispatch_of_its_first_run() -> None:
    driver = MemoryDriver()
    store = AgentStore(driver)
    first = admit(store, "0")
    for number in range(1, 500):
        admit(store, str(number))

    def execute(_conversation_id: str, run_id: str) -> None:
        end(told, acquire(told, view(told, run_id).run))

    told = AgentStore(driver, publishers=[Hints(driver, InlineDispatcher(execute))])
    end(told, acquire(told, first))

    assert store.list_active_runs("c") == ()


def test_an_execution_that_fails_is_told_and_keeps_none_from_its_turn() -> None:
    executed: list[str] = []

    def execute(_conversation_id: str, run_id: str) -> None:
        executed.append(run_id)
        if run_id == "1":
            dispatch("c", "2")
            raise LookupError(run_id)

    dispatch = InlineDispatcher(execute)
    with pytest.raises(LookupError, match="1"):
        dispatch("c", "1")
    dispatch("c", "3")

    assert executed == ["1", "2", "3"]


def test_several_that_fail_are_told_together() -> None:
    def execute(_conversation_id: str, run_id: str) -> None:
        if run_id == "1":
            dispatch("c", "2")
        raise LookupError(run_id)

    dispatch = InlineDispatcher(execute)
    with pytest.raises(ExceptionGroup, match="2 executions failed") as caught:
        dispatch("c", "1")

    assert [str(error) for error in caught.value.exceptions] == ["1", "2"]


def test_after_an_interruption_the_next_run_is_executed_again() -> None:
    executed: list[str] = []

    def execute(_conversation_id: str, run_id: str) -> None:
        executed.append(run_id)
        if run_id == "1":
            raise KeyboardInterrupt

    dispatch = InlineDispatcher(execute)
    with pytest.raises(KeyboardInterrupt):
        dispatch("c", "1")
    dispatch("c", "2")

    assert executed == ["1", "2"]


def test_each_thread_executes_its_own() -> None:
    both_execute = threading.Barrier(2, timeout=10)
    executed: list[tuple[str, int]] = []

    def execute(_conversation_id: str, run_id: str) -> None:
        both_execute.wait()
        executed.append((run_id, threading.get_ident()))

    dispatch = InlineDispatcher(execute)
    threads = [threading.Thread(target=dispatch, args=("c", run_id)) for run_id in ("1", "2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(executed) == sorted(
        zip(("1", "2"), [thread.ident for thread in threads], strict=True)
    )
