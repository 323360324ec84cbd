"""Laws of a transaction: it happens whole or not at all, and its callbacks come after it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    ConflictReason,
    MemoryDriver,
    RunEnded,
)
from stitchkit_django.testing.claims import expect, raised, refused
from stitchkit_django.testing.conversation import Conversation, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import Driver, Event, Run, Transaction
    from stitchkit_django.testing.conversation import MakeStore

T = TypeVar("T")


class _FailureError(Exception):
    """What the work of a transaction raises in a check."""


class _FailingDriver:
    """The driver under test, where each transaction fails once its work is done."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def transaction(self, work: Callable[[Transaction], T]) -> T:
        def failing(transaction: Transaction) -> T:
            work(transaction)
            raise _FailureError

        return self._driver.transaction(failing)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the driver has
        return getattr(self._driver, name)


def check_a_failure_leaves_nothing(make_store: MakeStore) -> None:
    """What the work raises after a write, of whatever kind, comes out, and the write is gone."""
    with opened(make_store) as conversation:
        failing = _failing(conversation)

        def fails(write: Callable[[Conversation], T]) -> T:
            with conversation.unchanged("a write in a transaction that has failed"):
                raised(_FailureError, lambda: write(failing))
            return write(conversation)

        run = fails(lambda one: one.admit("1"))
        joined = fails(lambda one: one.admit("2", joins=run.id))
        taken = fails(lambda one: one.acquire(joined))
        kept = fails(lambda one: one.checkpoint(taken))
        asked = fails(lambda one: one.interrupt(kept))
        requeued = fails(lambda one: one.requeue(asked))
        fails(lambda one: one.cancel(requeued))
        third = conversation.admit("3")
        fails(lambda one: one.abandon(third))
        ending, queued = conversation.acquire(conversation.admit("4")), conversation.admit("5")
        fails(lambda one: one.end(ending, absorb=[_absorption(queued)]))
        fails(lambda one: one.archiving().compact("i-1", "i-2"))
        fails(lambda one: one.deleting().compact("s", "a-r1", summary_id="s2"))
        for limit in (1, 9):
            fails(partial(_forget, limit=limit))
        fails(_forget_archived)
        fails(lambda one: one.store.purge_conversation(one.id))


def check_a_failed_restore_leaves_nothing(make_store: MakeStore) -> None:
    """A restore in a transaction that fails leaves no row, and can be done again."""
    with opened(make_store) as conversation:
        model = Conversation(AgentStore(MemoryDriver()), conversation.id)
        model.answered("1")
        model.admit("2")
        held = model.rows()

        def restore(transaction: Transaction) -> bool:
            return transaction.restore(held)

        with conversation.unchanged("a restore in a transaction that has failed"):
            raised(_FailureError, lambda: _failing(conversation).driver.transaction(restore))
        expect("restore", conversation.driver.transaction(restore), expected=True)

        expect("rows", conversation.rows(), held)


def check_versions_rise_by_exactly_one(make_store: MakeStore) -> None:
    """Each write moves the head's version by one, and tells so; what writes nothing moves none."""
    with opened(make_store) as conversation:
        store, where = conversation.store, conversation.id
        version = 0

        def moved(by: int) -> None:
            nonlocal version
            version += by
            expect("version", conversation.rows().head.version, version)

        run = conversation.admit("1")
        moved(by=1)
        run = conversation.admit("2", joins=run.id)
        moved(by=1)
        run = conversation.acquire(run, lease=timedelta(hours=1))
        moved(by=1)
        store.renew_lease(where, run.id, owner_id="worker", fencing_token=1)
        conversation.retry("1")
        refused(store.cancel_run(where, run.id), ConflictReason.STATE)
        moved(by=0)
        run = conversation.checkpoint(run)
        moved(by=1)
        run = conversation.interrupt(run)
        moved(by=1)
        run = conversation.requeue(run)
        moved(by=1)
        queued = conversation.admit("3")
        run = conversation.end(conversation.acquire(run), absorb=[_absorption(queued)])
        moved(by=3)
        expect("revision of the run", run.revision, 7)
        expect("revision of the absorbed one", conversation.view("r3").run.revision, 1)
        conversation.archiving().compact("i-1", "i-2")
        conversation.cancel(conversation.admit("4"))
        conversation.abandon(conversation.admit("5"))
        moved(by=5)
        _forget_archived(conversation)
        _forget(conversation, 9)
        moved(by=0)
        store.purge_conversation(where)
        moved(by=1)


def check_the_head_tells_of_the_latest_write(make_store: MakeStore) -> None:
    """The head carries the moment of the latest write, so that no later one is before it."""
    with opened(make_store) as conversation:
        run = conversation.admit()
        moments = [(run.updated_at, conversation.rows().head.updated_at)]
        run = conversation.acquire(run)
        moments.append((run.updated_at, conversation.rows().head.updated_at))
        run = conversation.end(run)
        moments.append((run.updated_at, conversation.rows().head.updated_at))

        expect("head", [head for _, head in moments], [written for written, _ in moments])
        expect("moments", moments, sorted(moments))
        expect("beginning and end", (run.created_at, run.ended_at), (moments[0][0], moments[2][0]))


def check_callbacks_follow_the_commit(make_store: MakeStore) -> None:
    """What is to be called after a commit is called once, in order, and sees what was written."""
    with opened(make_store) as conversation:
        seen: list[object] = []

        def look() -> None:
            seen.append(conversation.store.load_run(conversation.id, "r1"))

        def work(transaction: Transaction) -> str:
            transaction.after_commit(look)
            transaction.after_commit(lambda: seen.append("second"))
            transaction.forget(conversation.id, "r1", limit=9)
            seen.append("work")
            return "result"

        conversation.answered()
        result = conversation.driver.transaction(work)

        expect("result of the work", result, "result")
        expect("calls", seen, ["work", None, "second"])


def check_no_callback_follows_a_failure(make_store: MakeStore) -> None:
    """What is to be called after a commit is never called when the work has failed."""
    with opened(make_store) as conversation:
        seen: list[str] = []

        def work(transaction: Transaction) -> None:
            transaction.after_commit(lambda: seen.append("called"))

        raised(_FailureError, lambda: _failing(conversation).driver.transaction(work))
        conversation.admit()

        expect("calls", seen, [])


def check_publishers_see_what_was_committed(make_store: MakeStore) -> None:
    """An event comes after its commit, so that whoever hears it reads what it tells of."""
    with opened(make_store) as conversation:
        heard: list[Event] = []
        seen: list[Run | None] = []

        def publish(event: Event) -> None:
            heard.append(event)
            view = conversation.store.load_run(conversation.id, "r1")
            seen.append(None if view is None else view.run)

        store = AgentStore(conversation.driver, publishers=[publish])
        telling = Conversation(store, conversation.id)
        runs = [telling.admit()]
        runs.append(telling.acquire(runs[-1]))
        runs.append(telling.checkpoint(runs[-1]))
        raised(_FailureError, lambda: _failing(telling, publish).interrupt(runs[-1]))
        runs.append(telling.end(runs[-1]))

        expect("versions of the events", [event.version for event in heard], [1, 2, 3, 4])
        expect("runs that publishers saw", seen, runs)
        assert isinstance(heard[-1], RunEnded), f"an end is told as {heard[-1]!r}"


def _failing(conversation: Conversation, *publishers: Callable[[Event], object]) -> Conversation:
    driver = cast("Driver", _FailingDriver(conversation.driver))
    return Conversation(AgentStore(driver, publishers=publishers), conversation.id)


def _absorption(run: Run) -> Absorption:
    return Absorption(run_id=run.id, input_message_ids=run.input_message_ids)


def _forget(conversation: Conversation, limit: int) -> int:
    return conversation.driver.transaction(
        lambda transaction: transaction.forget(conversation.id, "r1", limit=limit)
    )


def _forget_archived(conversation: Conversation) -> int:
    later = conversation.rows().head.updated_at + timedelta(days=1)
    return conversation.driver.transaction(
        lambda transaction: transaction.forget_archived(conversation.id, later, limit=9)
    )
