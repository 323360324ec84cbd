"""For a project's own tests: stores in memory, what is dispatched, what is told; no test runner.

Each of these is a context manager. `AgentStoreMixin` uses them for a TestCase, and
`stitchkit_django.pytest_plugin` has them as fixtures.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from django.db import connections

from stitchkit_django.core.memory import MemoryDriver
from stitchkit_django.events import run_event
from stitchkit_django.registry import get_store, replaced
from stitchkit_django.runtime.dispatch import InlineDispatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from unittest import TestCase

    from stitchkit_django.core.driver import Driver
    from stitchkit_django.core.events import Event
    from stitchkit_django.registry import DjangoStore

    _Case = TestCase
else:
    # A mixin: the class that takes it brings the TestCase that it wants.
    _Case = object


class Dispatched(NamedTuple):
    """A run that was handed to the dispatcher."""

    conversation_id: str
    run_id: str


@contextmanager
def stores_in_memory() -> Iterator[None]:
    """Let `get_store()` give stores in memory, one for each alias, and empty.

    They have the project's settings, tell the project's publishers, and keep what they hold when a
    setting is overridden. Django's transactions are nothing to them: what is written is written,
    and told at once, whatever becomes of an `atomic` around it.
    """
    drivers: dict[str, Driver] = {}

    def driver_of(alias: str) -> Driver:
        if alias not in drivers:
            connections[alias]  # an unknown alias is refused, as it is without this
            drivers[alias] = MemoryDriver()
        return drivers[alias]

    with replaced(drivers=driver_of):
        yield


@contextmanager
def captured_events() -> Iterator[list[Event]]:
    """Give the events that are told while the block lasts, in their order.

    A store in the database tells them after the commit: inside a TestCase that is inside
    `captureOnCommitCallbacks(execute=True)`.
    """
    events: list[Event] = []

    def receive(*, event: Event, **_: object) -> None:
        events.append(event)

    run_event.connect(receive, weak=False)
    try:
        yield events
    finally:
        run_event.disconnect(receive)


@contextmanager
def captured_dispatches() -> Iterator[list[Dispatched]]:
    """Give the runs that are dispatched while the block lasts; nothing executes them."""
    runs: list[Dispatched] = []

    def dispatch(conversation_id: str, run_id: str) -> None:
        runs.append(Dispatched(conversation_id, run_id))

    with replaced(dispatcher=dispatch):
        yield runs


@contextmanager
def inline_dispatch(execute: Callable[[str, str], object]) -> Iterator[None]:
    """Execute each run that is dispatched while the block lasts, before the call returns.

    Args:
        execute: called with the ids of the conversation and the run, in place of the project's
            dispatcher. What it raises is logged, and the run waits.
    """
    with replaced(dispatcher=InlineDispatcher(execute)):
        yield


class AgentStoreMixin(_Case):
    """Gives each test of a TestCase a store of its own, and what that store has told.

    Attributes:
        agent_store_in_memory: False for a test of the real store, in the test database.
        agent_store: what `get_store()` gives during the test.
        agent_events: told during the test.
        agent_dispatches: the runs that were dispatched during the test, where the class has no
            `execute_run`.
    """

    agent_store_in_memory: ClassVar[bool] = True

    execute_run: Callable[[str, str], object] | None = None
    """A method of the class that takes the ids of a conversation and a run: each dispatched run is
    executed by it at once."""

    agent_store: DjangoStore
    agent_events: list[Event]
    agent_dispatches: list[Dispatched]

    def setUp(self) -> None:
        """Begin with no conversation where the store is in memory."""
        super().setUp()
        if self.agent_store_in_memory:
            self.enterContext(stores_in_memory())
        self.agent_events = self.enterContext(captured_events())
        if self.execute_run is None:
            self.agent_dispatches = self.enterContext(captured_dispatches())
        else:
            self.agent_dispatches = []
            self.enterContext(inline_dispatch(self.execute_run))
        self.agent_store = get_store()
