"""Fixtures for a project's own tests; pytest loads them wherever this package is installed.

Pytest imports this module before Django is set up, and before coverage is measured: so nothing of
the package is imported until a test asks for a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stitchkit_django.core.events import Event
    from stitchkit_django.registry import DjangoStore
    from stitchkit_django.test import Dispatched


@pytest.fixture
def agent_events() -> Iterator[list[Event]]:
    """Give the events that stores tell during the test."""
    from stitchkit_django.test import captured_events  # noqa: PLC0415 - see above

    with captured_events() as events:
        yield events


@pytest.fixture
def agent_dispatches() -> Iterator[list[Dispatched]]:
    """Give the runs that are dispatched during the test; nothing executes them."""
    from stitchkit_django.test import captured_dispatches  # noqa: PLC0415 - see above

    with captured_dispatches() as runs:
        yield runs


@pytest.fixture
def agent_store(agent_dispatches: list[Dispatched]) -> Iterator[DjangoStore]:  # noqa: ARG001 - asked for its effect
    """Let `get_store()` give stores in memory, and give the default one: no database is needed.

    Nothing is handed to the project's dispatcher: see `agent_dispatches` and `inline_dispatch`.
    """
    from stitchkit_django.registry import get_store  # noqa: PLC0415 - see above
    from stitchkit_django.test import stores_in_memory  # noqa: PLC0415 - see above

    with stores_in_memory():
        yield get_store()


@pytest.fixture
def inline_dispatch() -> Iterator[Callable[[Callable[[str, str], object]], None]]:
    """Give a function that takes what executes a run: from then on dispatched runs are executed."""
    from contextlib import ExitStack  # noqa: PLC0415 - see above

    from stitchkit_django import test  # noqa: PLC0415 - see above

    with ExitStack() as stack:
        yield lambda execute: stack.enter_context(test.inline_dispatch(execute))
