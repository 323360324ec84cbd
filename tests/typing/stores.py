"""What `get_store()` gives has typed methods, and async forms of the same types."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_type

from stitchkit_django import get_store
from stitchkit_django.core import (
    AgentStore,
    Applied,
    Conflict,
    Duplicate,
    HistoryPage,
    MemoryDriver,
    NotFound,
    RecoverablePage,
    Run,
    RunView,
    Snapshot,
)
from stitchkit_django.core.driver import Dispatcher
from stitchkit_django.registry import DjangoStore, get_dispatcher
from stitchkit_django.runtime.dispatch import InlineDispatcher

if TYPE_CHECKING:
    from stitchkit_django.core import Event


def the_store_of_a_database_is_a_store() -> AgentStore:
    assert_type(get_store(), DjangoStore)
    return get_store("default")


def methods_have_their_types() -> None:
    store = get_store()
    assert_type(store.accept_input("c", "k", "Hello?"), Applied | Duplicate | Conflict | NotFound)
    assert_type(
        store.acquire_run("c", "r", expected_revision=0, owner_id="w", lease=timedelta(seconds=60)),
        Applied | Conflict | NotFound,
    )
    assert_type(store.load_snapshot("c"), Snapshot)
    assert_type(store.load_run("c", "r"), RunView | None)
    assert_type(store.list_active_runs("c"), tuple[Run, ...])
    assert_type(store.load_history("c"), HistoryPage)
    assert_type(store.scan_recoverable(), RecoverablePage)


async def async_forms_have_the_same_types() -> None:
    store = get_store()
    assert_type(
        await store.aaccept_input("c", "k", "Hello?"), Applied | Duplicate | Conflict | NotFound
    )
    assert_type(
        await store.acommit_terminal(
            "c", "r", expected_revision=1, owner_id="w", parts="Hello!", reason="success"
        ),
        Applied | Conflict | NotFound,
    )
    assert_type(await store.aload_snapshot("c"), Snapshot)
    assert_type(await store.aload_run("c", "r"), RunView | None)
    assert_type(await store.alist_active_runs("c"), tuple[Run, ...])
    assert_type(await store.aload_history("c"), HistoryPage)
    assert_type(await store.ascan_recoverable(), RecoverablePage)


async def what_is_wrong_is_refused() -> None:
    store = get_store()
    store.acquire_run("c", "r", owner_id="w")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    await store.aacquire_run("c", "r", owner_id="w")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    store.load_run("c", 1)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    await store.aload_run("c", 1)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def execute(conversation: str, run: str) -> None:
    """Stand for a project's own function, whose arguments may be called anything."""


def a_dispatcher_is_a_callable_of_two_texts() -> None:
    inline: Dispatcher = InlineDispatcher(execute)
    plain: Dispatcher = execute
    wrong: Dispatcher = len  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]
    assert_type(get_dispatcher(), Dispatcher | None)
    for one in (inline, plain, wrong):
        one("c", "r")


def publish(event: Event) -> None:
    """Stand for a project's own publisher."""


def a_publisher_is_a_callable_of_an_event() -> AgentStore:
    return AgentStore(MemoryDriver(), publishers=[publish])
