"""What a test has in place of the database and of the dispatcher, and that it is given back."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import async_to_sync
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils.connection import ConnectionDoesNotExist

from stitchkit_django import get_store
from stitchkit_django.core import (
    Applied,
    InputAdmitted,
    InvalidValueError,
    MemoryDriver,
    RunEnded,
    RunState,
)
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.registry import get_dispatcher
from stitchkit_django.test import (
    AgentStoreMixin,
    Dispatched,
    captured_dispatches,
    captured_events,
    inline_dispatch,
    stores_in_memory,
)
from tests.core.steps import acquire, admit, answered, end, history, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import Settings

    from stitchkit_django.core import Event
    from stitchkit_django.registry import DjangoStore

reached: list[str] = []


def broker(_conversation_id: str, run_id: str) -> None:
    """Stand for a project's dispatcher, which a test is not to reach."""
    reached.append(run_id)


def answer(_conversation_id: str, run_id: str) -> None:
    """Answer a run of the default store, if it is queued."""
    store = get_store()
    run = view(store, run_id).run
    if run.state is RunState.QUEUED:
        end(store, acquire(store, run))


# ---------------------------------------------------------------- stores


def test_while_stores_are_in_memory_every_database_is_left_alone() -> None:
    # Without a fixture that opens the database, pytest-django refuses each statement.
    with stores_in_memory():
        answered(get_store())

        assert isinstance(get_store().driver, MemoryDriver)
        assert history(get_store()) == ["i-1", "a-r1"]


def test_each_block_begins_with_empty_stores_and_gives_back_the_real_one(sqlite_alias: str) -> None:
    before = get_store(sqlite_alias)
    with stores_in_memory():
        admit(get_store())
        with stores_in_memory():
            inside = get_store().load_snapshot("c").version
        outside = get_store().load_snapshot("c").version

    assert (inside, outside) == (0, 1)
    assert isinstance(before.driver, DjangoDriver)
    assert isinstance(get_store(sqlite_alias).driver, DjangoDriver)
    assert get_store(sqlite_alias).load_snapshot("c").version == 0


def test_a_block_that_fails_gives_back_the_real_store() -> None:
    def fail() -> None:
        with stores_in_memory(), captured_dispatches():
            raise LookupError

    with pytest.raises(LookupError):
        fail()

    assert isinstance(get_store().driver, DjangoDriver)
    assert get_dispatcher() is None


def test_each_alias_has_a_store_of_its_own_and_an_unknown_one_is_refused(
    aliases: tuple[str, ...],
) -> None:
    with stores_in_memory():
        for alias in aliases:
            admit(get_store(alias), alias)
        found = {alias: history(get_store(alias)) for alias in aliases}
        with pytest.raises(ConnectionDoesNotExist, match="nowhere"):
            get_store("nowhere")

    assert found == {alias: [f"i-{alias}"] for alias in aliases}


def test_the_settings_hold_for_a_store_in_memory_and_a_change_of_them_keeps_what_it_holds() -> None:
    with stores_in_memory():
        admit(get_store(), "1", "x" * 60)
        with override_settings(STITCHKIT={"MAX_MESSAGE_BYTES": 50}):
            with pytest.raises(InvalidValueError, match="at most 50"):
                admit(get_store(), "2", "x" * 60)
            kept = history(get_store())

    assert kept == ["i-1"]


def test_threads_and_async_code_have_the_same_store_in_memory() -> None:
    async def accept() -> object:
        return await get_store().aaccept_input("c", "2", "Hello?", input_message_id="i-2")

    with stores_in_memory():
        thread = threading.Thread(target=lambda: admit(get_store(), "1"))
        thread.start()
        thread.join()
        outcome = async_to_sync(accept)()
        found = history(get_store())

    assert isinstance(outcome, Applied)
    assert found == ["i-1", "i-2"]


# ---------------------------------------------------------------- what is told and dispatched


def test_events_are_captured_in_their_order_while_the_block_lasts() -> None:
    with stores_in_memory():
        admit(get_store(), "0")
        with captured_events() as events:
            end(get_store(), acquire(get_store(), view(get_store(), "r0").run))
        admit(get_store(), "1")

    assert [event.version for event in events] == [2, 3]
    assert isinstance(events[-1], RunEnded)


def test_the_projects_dispatcher_is_not_reached(settings: Settings) -> None:
    reached.clear()
    settings.STITCHKIT = {"DISPATCHER": f"{__name__}.broker"}
    with stores_in_memory():
        admit(get_store(), "0")
        with captured_dispatches() as runs:
            admit(get_store(), "1")
        admit(get_store(), "2")

    assert runs == [Dispatched("c", "r1")]
    assert reached == ["r0", "r2"]


def test_runs_are_executed_before_the_call_returns() -> None:
    with stores_in_memory(), inline_dispatch(answer):
        admit(get_store())

        assert view(get_store()).run.state is RunState.COMPLETED


def test_the_innermost_dispatch_is_used_also_by_a_store_that_was_given_before() -> None:
    with stores_in_memory(), captured_dispatches() as runs:
        store = get_store()
        with inline_dispatch(answer):
            admit(store, "1")
        admit(store, "2")

        assert view(store, "r1").run.state is RunState.COMPLETED
        assert view(store, "r2").run.state is RunState.QUEUED
    assert runs == [("c", "r2")]


# ---------------------------------------------------------------- fixtures


def test_the_fixture_gives_what_get_store_gives(agent_store: DjangoStore) -> None:
    assert agent_store is get_store()
    assert isinstance(agent_store.driver, MemoryDriver)


def test_with_the_fixture_nothing_is_handed_to_the_projects_dispatcher(
    settings: Settings, agent_store: DjangoStore, agent_dispatches: list[Dispatched]
) -> None:
    reached.clear()
    settings.STITCHKIT = {"DISPATCHER": f"{__name__}.broker"}

    admit(get_store())

    assert reached == []
    assert agent_dispatches == [("c", "r1")]
    assert history(agent_store) == ["i-1"]


def test_the_fixtures_can_be_asked_for_in_any_order(
    inline_dispatch: Callable[[Callable[[str, str], object]], None],
    agent_events: list[Event],
    agent_store: DjangoStore,
) -> None:
    inline_dispatch(answer)

    admit(agent_store)

    assert view(agent_store).run.state is RunState.COMPLETED
    assert [type(event) for event in agent_events[::2]] == [InputAdmitted, RunEnded]


def test_after_a_test_the_real_store_and_dispatcher_are_there_again() -> None:
    assert isinstance(get_store().driver, DjangoDriver)
    assert get_dispatcher() is None


# ---------------------------------------------------------------- test cases


class TestStoreInMemory(AgentStoreMixin, SimpleTestCase):
    def test_each_test_begins_empty(self) -> None:
        assert self.agent_store is get_store()
        assert history(self.agent_store) == []
        admit(self.agent_store)
        assert self.agent_dispatches == [("c", "r1")]
        assert [type(event) for event in self.agent_events] == [InputAdmitted]

    test_each_test_begins_empty_however_often_it_is_run = test_each_test_begins_empty


class TestInlineExecution(AgentStoreMixin, SimpleTestCase):
    def execute_run(self, conversation_id: str, run_id: str) -> None:
        answer(conversation_id, run_id)

    def test_runs_are_executed_by_the_class(self) -> None:
        admit(self.agent_store)

        assert view(self.agent_store).run.state is RunState.COMPLETED
        assert self.agent_dispatches == []


@pytest.mark.sqlite
class TestRealStore(AgentStoreMixin, TestCase):
    agent_store_in_memory = False

    def test_what_is_committed_in_a_test_case_is_told_when_it_is_said_to_be(self) -> None:
        assert isinstance(self.agent_store.driver, DjangoDriver)
        with self.captureOnCommitCallbacks(execute=True):
            admit(self.agent_store)
            assert self.agent_events == []

        assert [type(event) for event in self.agent_events] == [InputAdmitted]
        assert self.agent_dispatches == [("c", "r1")]
