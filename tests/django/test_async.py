"""Each method has an async form that does the same in one hop to a thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections

from stitchkit_django import get_store
from stitchkit_django.core import AgentStore, Applied, Duplicate
from stitchkit_django.registry import DjangoStore

if TYPE_CHECKING:
    from collections.abc import Callable

METHODS = sorted(
    name
    for name, _ in inspect.getmembers(AgentStore, inspect.isfunction)
    if not name.startswith("_")
)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_async_form_of_the_same_signature(name: str) -> None:
    form = getattr(DjangoStore, f"a{name}")

    assert inspect.iscoroutinefunction(form)
    assert form.__name__ == f"a{name}"
    assert inspect.signature(form) == inspect.signature(getattr(AgentStore, name))


def test_a_conversation_can_be_held_in_async_code(alias: str) -> None:
    store = get_store(alias)

    async def converse() -> tuple[Any, ...]:
        admitted = await store.aaccept_input("c", "k", "Hello?", run_id="r")
        await store.aacquire_run("c", "r", expected_revision=0, owner_id="w")
        await store.acheckpoint_run("c", "r", expected_revision=1, owner_id="w", parts="Hel")
        await store.arenew_lease("c", "r", owner_id="w", fencing_token=1)
        ended = await store.acommit_terminal(
            "c", "r", expected_revision=2, owner_id="w", parts="Hello", reason="success"
        )
        again = await store.aaccept_input("c", "k", "Hello?")
        return admitted, ended, again, await store.aload_snapshot("c")

    admitted, ended, again, snapshot = async_to_sync(converse)()

    assert isinstance(admitted, Applied)
    assert isinstance(ended, Applied)
    assert isinstance(again, Duplicate)
    assert again.assistant == snapshot.messages[1]
    assert snapshot == store.load_snapshot("c")


def test_a_mutation_takes_one_hop_to_one_thread(alias: str) -> None:
    threads: list[tuple[int, str]] = []

    def watch(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        threads.append((threading.get_ident(), sql))
        return execute(sql, *arguments)

    async def admit() -> int:
        await store.aaccept_input("c", "k", "Hello?")
        return threading.get_ident()

    store = get_store(alias)
    with connections[alias].execute_wrapper(watch):
        loop_thread = async_to_sync(admit)()

    assert loop_thread not in {thread for thread, _ in threads}
    assert len({thread for thread, _ in threads}) == 1


def test_gathered_mutations_commit_though_one_is_cancelled(alias: str) -> None:
    store = get_store(alias)

    async def admit_all() -> list[Any]:
        tasks = [
            asyncio.create_task(store.aaccept_input("c", f"k{number}", "Hello?"))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        tasks[7].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = async_to_sync(admit_all)()

    cancelled = [one for one in outcomes if isinstance(one, asyncio.CancelledError)]
    assert len(cancelled) == 1
    applied = [one for one in outcomes if isinstance(one, Applied)]
    assert len(applied) == 19
    versions = {one.version for one in applied}
    assert len(versions) == 19
    assert store.load_snapshot("c").version in {19, 20}
    assert isinstance(store.accept_input("c", "after", "Hello?"), Applied)
