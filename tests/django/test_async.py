"""Each method has an async form that does the same in one hop to a thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import ThreadSensitiveContext, async_to_sync, sync_to_async
from django.db import connections

from stitchkit_django import get_store
from stitchkit_django.core import AgentStore, Applied, Duplicate
from stitchkit_django.registry import DjangoStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import Event, Outcome

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


def test_every_method_works_in_async_code_in_autocommit(alias: str) -> None:
    store = get_store(alias)

    async def use_all() -> list[Outcome]:
        outcomes = [
            await store.aaccept_input("c", "k1", "Hello?", run_id="r1", input_message_id="i1"),
            await store.aacquire_run("c", "r1", expected_revision=0, owner_id="w"),
            await store.acheckpoint_run("c", "r1", expected_revision=1, owner_id="w", parts="He"),
            await store.arenew_lease("c", "r1", owner_id="w", fencing_token=1),
            await store.arecover_run(
                "c", "r1", expected_revision=2, action="requeue", replay_safe=True
            ),
            await store.aacquire_run("c", "r1", expected_revision=3, owner_id="w"),
            await store.arequest_interrupt("c", "r1"),
            await store.acommit_terminal(
                "c", "r1", expected_revision=5, owner_id="w", parts="He", reason="interrupted"
            ),
            await store.aaccept_input("c", "k2", "Hello?", run_id="r2"),
            await store.acancel_run("c", "r2"),
            await store.acompact_history(
                "c", expected_version=9, message_ids=["i1"], summary_parts="Greeted."
            ),
        ]
        assert (await store.aload_snapshot("c")).version == 10
        assert (await store.aload_run("c", "r1")) is not None
        assert (await store.alist_active_runs("c")) == ()
        assert len((await store.aload_history("c")).messages) == 4
        assert (await store.ascan_recoverable()).items == ()
        return [*outcomes, await store.apurge_conversation("c")]

    outcomes = async_to_sync(use_all)()

    assert {type(one) for one in outcomes} == {Applied}
    assert not connections[alias].in_atomic_block


class HopCountingLoop(asyncio.SelectorEventLoop):
    """A loop that counts what it hands to threads."""

    hops = 0

    def run_in_executor(  # type: ignore[override] # only counts
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        type(self).hops += 1
        return super().run_in_executor(executor, func, *args)


def test_a_call_takes_one_hop_to_a_thread(alias: str) -> None:
    store = get_store(alias)

    async def count() -> list[int]:
        async with ThreadSensitiveContext():
            counts = []
            for call in (
                lambda: store.aaccept_input("c", "k", "Hello?", run_id="r"),
                lambda: store.aacquire_run("c", "r", expected_revision=0, owner_id="w"),
                lambda: store.arenew_lease("c", "r", owner_id="w", fencing_token=1),
                lambda: store.aload_run("c", "r"),
            ):
                before = HopCountingLoop.hops
                await call()
                counts.append(HopCountingLoop.hops - before)
            await sync_to_async(connections.close_all)()
            return counts

    with asyncio.Runner(loop_factory=HopCountingLoop) as runner:
        hops = runner.run(count())

    assert hops == [1, 1, 1, 1]


def test_a_transaction_stays_on_one_thread(alias: str) -> None:
    store = get_store(alias)
    threads: dict[str, set[int]] = {}

    def publish(_event: Event) -> None:
        threads.setdefault("publisher", set()).add(threading.get_ident())

    def watch(execute: Callable[..., Any], *statement: Any) -> Any:
        threads.setdefault("statements", set()).add(threading.get_ident())
        return execute(*statement)

    async def admit_all() -> None:
        publishing = DjangoStore(store.driver, publishers=[publish])
        async with ThreadSensitiveContext():
            await sync_to_async(lambda: connections[alias].execute_wrappers.append(watch))()
            await asyncio.gather(
                *(publishing.aaccept_input("c", str(number), "Hello?") for number in range(5))
            )
            await sync_to_async(connections.close_all)()

    asyncio.run(admit_all())

    assert len(threads["statements"]) == 1
    assert threads["publisher"] == threads["statements"]
    assert threads["statements"] != {threading.get_ident()}
    assert store.load_snapshot("c").version == 5


def test_gathered_mutations_commit_though_one_is_cancelled(alias: str) -> None:
    store = get_store(alias)

    async def admit_all() -> list[Any]:
        tasks = [
            asyncio.create_task(store.aaccept_input("c", f"k{number}", "Hello?"))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        tasks[7].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return [*outcomes, await store.aaccept_input("c", "after", "Hello?")]

    *outcomes, after = async_to_sync(admit_all)()

    cancelled = [one for one in outcomes if isinstance(one, asyncio.CancelledError)]
    applied = [one for one in outcomes if isinstance(one, Applied)]
    assert (len(cancelled), len(applied)) == (1, 19)
    assert len({one.version for one in applied}) == 19
    assert isinstance(after, Applied)
    # The cancelled one was admitted, or it wasn't; its caller sends its key again to know.
    runs = len(store.list_active_runs("c"))
    assert runs == after.version
    assert runs in {20, 21}
    assert isinstance(store.accept_input("c", "k7", "Hello?"), Applied | Duplicate)
    assert len(store.list_active_runs("c")) == 21
    assert not connections[alias].in_atomic_block


def test_a_call_that_is_cancelled_in_the_middle_of_its_transaction_leaves_it_whole(
    alias: str,
) -> None:
    store = get_store(alias)
    may_go_on = threading.Event()

    async def cancel_in_the_middle() -> tuple[bool, Any]:
        loop, entered = asyncio.get_running_loop(), asyncio.Event()

        def wait(execute: Callable[..., Any], *statement: Any) -> Any:
            found = execute(*statement)
            loop.call_soon_threadsafe(entered.set)
            assert may_go_on.wait(timeout=10)
            return found

        async with ThreadSensitiveContext():
            wrappers = await sync_to_async(lambda: connections[alias].execute_wrappers)()
            wrappers.append(wait)
            task = asyncio.create_task(store.aaccept_input("c", "k", "Hello?"))
            await asyncio.wait_for(entered.wait(), timeout=10)
            task.cancel()
            may_go_on.set()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            in_transaction = await sync_to_async(lambda: connections[alias].in_atomic_block)()
            assert isinstance(await store.aaccept_input("c", "after", "Hello?"), Applied)
            await sync_to_async(connections.close_all)()
            return in_transaction, outcome

    in_transaction, outcome = asyncio.run(cancel_in_the_middle())

    assert isinstance(outcome, asyncio.CancelledError)
    assert not in_transaction
    assert store.load_snapshot("c").version == len(store.list_active_runs("c")) == 2
    assert isinstance(store.accept_input("c", "k", "Hello?"), Duplicate)
