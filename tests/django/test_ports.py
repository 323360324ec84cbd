"""What the store doesn't use itself: conversations as rows, retention, scans, callbacks.

MemoryDriver stands among them, so that the drivers agree.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import pytest
from django.db import connections, transaction
from msgspec.structs import replace

from stitchkit_django.core import Absorption, AgentStore, MemoryDriver, StoreUnavailableError
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.models import Run as RunRow
from tests.core.steps import (
    acquire,
    admit,
    answered,
    checkpoint,
    compact,
    duplicate,
    end,
    requeue,
    run_of,
    view,
)
from tests.django.hooks import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stitchkit_django.core import Driver, Run, Transaction
    from stitchkit_django.core.driver import ConversationRows

T = TypeVar("T")

FUTURE = datetime(2999, 1, 1, tzinfo=UTC)
PAST = datetime(2000, 1, 1, tzinfo=UTC)
CONVERSATIONS = ("XeLu", "XGeU", "a_z", "ab")
"""A natural-language collation orders them otherwise than by their characters."""

EVERY_DRIVER = [
    pytest.param("memory", id="memory"),
    pytest.param("sqlite_alias", id="sqlite", marks=pytest.mark.sqlite),
    pytest.param("postgres_alias", id="postgres", marks=pytest.mark.postgres),
]


@pytest.fixture(params=EVERY_DRIVER)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Give a driver of each kind."""
    if request.param == "memory":
        return MemoryDriver()
    return DjangoDriver(request.getfixturevalue(request.param))


@pytest.fixture
def store(driver: Driver) -> AgentStore:
    """Give a store over it."""
    return AgentStore(driver)


def rows(driver: Driver, conversation_id: str = "c") -> ConversationRows:
    found = driver.rows(conversation_id)
    assert found is not None
    return found


def restore(driver: Driver, held: ConversationRows) -> bool:
    return driver.transaction(lambda current: current.restore(held))


def forget(driver: Driver, run_id: str, limit: int) -> int:
    return driver.transaction(lambda current: current.forget("c", run_id, limit=limit))


def forget_archived(driver: Driver, before: datetime, limit: int) -> int:
    return driver.transaction(lambda current: current.forget_archived("c", before, limit=limit))


def whole(store: AgentStore) -> None:
    """Fill a conversation with everything: archived, absorbed, joined, owned, leased, ended."""
    answered(store, "1")
    compact(store, "i-1", "a-r1")
    second, third = acquire(store, admit(store, "2")), admit(store, "3")
    named = Absorption(run_id="r3", input_message_ids=third.input_message_ids)
    end(store, second, "All \0 \ud83d", detail="\ud83d", absorb=[named])
    compact(store, "s", "i-2", summary_id="s2")
    requeue(store, acquire(store, admit(store, "4")))
    run = acquire(store, view(store, "r4").run, lease=timedelta(hours=1))
    checkpoint(store, run, "So far", metadata={"b": 1, "a": [1.0, True]})
    admit(store, "5")
    admit(store, "6", coalesce_into="r5")


# ---------------------------------------------------------------- whole conversations


def test_all_rows_of_a_conversation_can_be_put_into_another_driver(
    driver: Driver, store: AgentStore
) -> None:
    model = MemoryDriver()
    whole(AgentStore(model))
    held = rows(model)

    assert restore(driver, held)

    assert rows(driver) == held
    assert store.load_snapshot("c") == AgentStore(model).load_snapshot("c")
    assert store.list_active_runs("c") == AgentStore(model).list_active_runs("c")
    retry = duplicate(store.accept_input("c", "3", "Hello?"))
    assert (retry.run.id, retry.same_input) == ("r2", True)
    ended = end(store, view(store, "r4").run)
    assert ended.fencing_token == 2
    assert admit(store, "7").turn == held.head.version + 2


def test_what_a_driver_gives_another_one_can_take(driver: Driver, store: AgentStore) -> None:
    whole(store)
    held = rows(driver)
    other = MemoryDriver()

    assert restore(other, held)

    assert rows(other) == held
    assert AgentStore(other).load_snapshot("c") == store.load_snapshot("c")


def test_rows_come_in_the_order_of_the_contract(driver: Driver, store: AgentStore) -> None:
    whole(store)

    held = rows(driver)

    assert [one.run.id for one in held.runs] == ["r1", "r2", "r3", "r4", "r5"]
    assert [one.idempotency_key for one in held.receipts] == ["1", "2", "3", "4", "5", "6"]
    places = [(one.place, one.message.id) for one in held.messages]
    assert places == sorted(places)
    assert len([one for one in held.messages if one.archived_at]) == 4
    assert driver.rows("unknown") is None


def test_a_conversation_is_not_put_where_one_is(driver: Driver, store: AgentStore) -> None:
    whole(store)
    held = rows(driver)
    answered(AgentStore(model := MemoryDriver()), "9")

    assert not restore(driver, rows(model))
    assert not restore(driver, held)

    assert rows(driver) == held


def test_a_purged_conversation_stays_purged_when_it_is_put_elsewhere(
    driver: Driver, store: AgentStore
) -> None:
    model = MemoryDriver()
    answered(AgentStore(model))
    AgentStore(model).purge_conversation("c")

    assert restore(driver, rows(model))

    assert rows(driver) == rows(model)
    assert not restore(driver, rows(model))
    with pytest.raises(Exception, match="purged"):
        store.load_snapshot("c")


def test_a_conversation_that_contradicts_itself_is_put_nowhere(alias: str) -> None:
    driver = DjangoDriver(alias)
    model = MemoryDriver()
    whole(AgentStore(model))
    held = rows(model)
    # One place for two messages: the database refuses the last row.
    broken = replace(held, messages=(*held.messages, replace(held.messages[-1])))

    with pytest.raises(StoreUnavailableError):
        restore(driver, broken)

    assert driver.rows("c") is None
    assert not any(tables(alias).values())
    assert restore(driver, held)


def test_a_conversation_goes_from_each_database_to_the_other(aliases: tuple[str, ...]) -> None:
    drivers = [DjangoDriver(alias) for alias in aliases]
    whole(AgentStore(drivers[0]))
    held = rows(drivers[0])

    for driver in drivers[1:]:
        assert restore(driver, held)
        assert rows(driver) == held


# ---------------------------------------------------------------- retention


def test_a_run_is_forgotten_in_batches_and_with_the_last_of_its_receipts(
    driver: Driver, store: AgentStore
) -> None:
    run = admit(store, "1")
    for key in "234":
        admit(store, key, coalesce_into=run.id)
    admit(store, "5")
    store.cancel_run("c", run.id)
    version = rows(driver).head.version

    first = forget(driver, run.id, 3)
    left = rows(driver)
    second = forget(driver, run.id, 3)

    assert (first, second) == (3, 2)
    assert [one.idempotency_key for one in left.receipts] == ["4", "5"]
    assert [one.run.id for one in left.runs] == ["r1", "r5"]
    assert store.load_run("c", run.id) is None
    assert [one.idempotency_key for one in rows(driver).receipts] == ["5"]
    assert forget(driver, run.id, 3) == 0
    assert rows(driver).head.version == version
    assert rows(driver).messages == left.messages


@pytest.mark.parametrize("limit", [2, 3, 1_000_000])
def test_a_batch_that_takes_the_last_receipt_takes_the_run_too(
    driver: Driver, store: AgentStore, limit: int
) -> None:
    run = admit(store, "1")
    admit(store, "2", coalesce_into=run.id)
    store.cancel_run("c", run.id)

    gone = forget(driver, run.id, limit)

    assert (gone, rows(driver).runs, rows(driver).receipts) == (3, (), ())


def test_what_is_unknown_is_not_forgotten(driver: Driver, store: AgentStore) -> None:
    answered(store)
    held = rows(driver)

    assert forget(driver, "unknown", 9) == 0
    assert driver.transaction(lambda current: current.forget("unknown", "r1", limit=9)) == 0
    assert forget_archived(driver, FUTURE, 9) == 0
    unknown = driver.transaction(
        lambda current: current.forget_archived("unknown", FUTURE, limit=9)
    )

    assert unknown == 0
    assert rows(driver) == held
    assert driver.rows("unknown") is None


def test_a_forgotten_key_is_new(driver: Driver, store: AgentStore) -> None:
    answered(store, "1")
    compact(store, "i-1", "a-r1")
    forget(driver, "r1", 9)

    run = run_of(store.accept_input("c", "1", "Hello?", run_id="r1"))

    assert (run.id, run.turn) == ("r1", 5)


def test_messages_that_were_archived_before_a_moment_are_forgotten_in_batches(
    driver: Driver, store: AgentStore
) -> None:
    answered(store, "1")
    answered(store, "2")
    compact(store, "i-1", "a-r1", "i-2", summary_id="s1")
    version = rows(driver).head.version
    archived = [one.archived_at for one in rows(driver).messages if one.archived_at]

    # Before the moment, not at it.
    assert forget_archived(driver, PAST, 9) == 0
    assert forget_archived(driver, archived[0], 9) == 0
    assert forget_archived(driver, archived[0] + timedelta(microseconds=1), 2) == 2
    assert forget_archived(driver, FUTURE, 2) == 1
    assert forget_archived(driver, FUTURE, 2) == 0

    assert [one.message.id for one in rows(driver).messages] == ["s1", "a-r2"]
    assert len(rows(driver).receipts) == 2
    assert rows(driver).head.version == version


# ---------------------------------------------------------------- scans


def test_runs_that_ended_before_a_moment_are_scanned_by_their_keys(
    driver: Driver, store: AgentStore
) -> None:
    runs = [answered(store, key) for key in "1234"]
    admit(store, "5")
    last = runs[-1].ended_at
    assert last is not None

    first = driver.scan_ended(last, 0, 2)
    second = driver.scan_ended(last, first.runs[-1].key, 2)
    after = driver.scan_ended(FUTURE, second.runs[-1].key, 9)

    assert [one.run for one in first.runs] == runs[:2]
    assert [one.run for one in second.runs] == runs[2:3]
    assert [one.run for one in after.runs] == runs[3:]
    assert driver.scan_ended(PAST, 0, 9).runs == ()
    keys = [one.key for page in (first, second, after) for one in page.runs]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_each_active_run_is_scanned_once_whatever_its_name(store: AgentStore, limit: int) -> None:
    admitted = [admit_to(store, one) for one in CONVERSATIONS]

    found = list(scanned(store, limit))

    assert found == admitted


@pytest.mark.parametrize("limit", [1, 2])
def test_a_scan_goes_on_after_the_run_that_its_cursor_names_has_ended(
    store: AgentStore, limit: int
) -> None:
    admitted = [admit_to(store, one) for one in CONVERSATIONS]
    found = []

    for run in scanned(store, limit):
        store.cancel_run(run.conversation_id, run.id)
        found.append(run)

    assert found == admitted
    assert store.scan_recoverable().items == ()


@pytest.mark.parametrize("limit", [1, 2])
def test_runs_of_one_moment_are_each_scanned_once(alias: str, limit: int) -> None:
    store = AgentStore(DjangoDriver(alias))
    for key in "12345":
        admit(store, key)
    RunRow.objects.using(alias).update(created_at=PAST, updated_at=PAST)

    assert [run.id for run in scanned(store, limit)] == ["r1", "r2", "r3", "r4", "r5"]


def test_a_run_that_comes_while_it_is_scanned_is_found(store: AgentStore) -> None:
    admit_to(store, "ab")
    page = store.scan_recoverable(limit=1)
    assert page.next_cursor is None
    admit_to(store, "a_z")
    admit_to(store, "XGeU")

    first = store.scan_recoverable(limit=2)
    admit_to(store, "XeLu")
    second = store.scan_recoverable(cursor=first.next_cursor, limit=2)

    ids = [run.conversation_id for run in (*first.items, *second.items)]
    assert ids == ["ab", "a_z", "XGeU", "XeLu"]


# ---------------------------------------------------------------- callbacks


def test_a_callback_is_called_after_the_commit_and_sees_it(
    driver: Driver, store: AgentStore
) -> None:
    run = answered(store)
    seen: list[object] = []

    def work(current: Transaction) -> None:
        current.after_commit(lambda: seen.append(store.load_run("c", run.id)))
        current.after_commit(lambda: seen.append("second"))
        current.forget("c", run.id, limit=9)
        seen.append("work")

    driver.transaction(work)

    assert seen == ["work", None, "second"]


def test_a_callback_of_a_failed_transaction_is_never_called(
    driver: Driver, store: AgentStore
) -> None:
    run = answered(store)
    seen: list[str] = []

    def work(current: Transaction) -> None:
        current.after_commit(lambda: seen.append("called"))
        current.forget("c", run.id, limit=9)
        raise KeyError

    with pytest.raises(KeyError):
        driver.transaction(work)

    assert seen == []
    assert view(store).run == run


def test_a_callback_waits_for_the_outermost_transaction(alias: str) -> None:
    driver = DjangoDriver(alias)
    seen: list[str] = []

    def noting(name: str) -> Callable[[Transaction], None]:
        return lambda current: current.after_commit(lambda: seen.append(name))

    with transaction.atomic(using=alias):
        driver.transaction(noting("first"))
        with transaction.atomic(using=alias):
            driver.transaction(noting("undone"))
            transaction.set_rollback(True, using=alias)
        with transaction.atomic(using=alias):
            driver.transaction(noting("second"))
        inside = list(seen)

    assert inside == []
    assert seen == ["first", "second"]
    assert not connections[alias].in_atomic_block


def test_a_callback_of_a_transaction_of_the_callers_that_fails_is_never_called(alias: str) -> None:
    driver = DjangoDriver(alias)
    seen: list[str] = []

    def work() -> None:
        with transaction.atomic(using=alias):
            driver.transaction(lambda current: current.after_commit(lambda: seen.append("called")))
            raise KeyError

    with pytest.raises(KeyError):
        work()

    assert seen == []


# ---------------------------------------------------------------- what the tests do


def admit_to(store: AgentStore, conversation_id: str) -> Run:
    return run_of(store.accept_input(conversation_id, "key", "Hello?", run_id=conversation_id))


def scanned(store: AgentStore, limit: int) -> Iterator[Run]:
    """Walk over the pages; each is acted on before the next is read."""
    cursor = None
    while True:
        page = store.scan_recoverable(cursor=cursor, limit=limit)
        assert len(page.items) <= limit
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
