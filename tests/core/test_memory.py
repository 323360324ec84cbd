"""MemoryDriver keeps what a transaction wrote if it returns, and nothing if it doesn't."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    ConflictReason,
    MemoryDriver,
    ReadSet,
    WriteSet,
    reducer,
)
from stitchkit_django.core.driver import ConversationRows, RunGuard, RunWrite
from stitchkit_django.core.operations import AcquireRun
from stitchkit_django.core.outcomes import Conflict
from stitchkit_django.core.wanted import wanted
from tests.core.steps import (
    abandon,
    acquire,
    admit,
    answered,
    compact,
    end,
    requeue,
    rows,
    run_of,
    view,
)
from tests.factories import MOMENT, HeadFactory, RunFactory, conversation_rows

if TYPE_CHECKING:
    from stitchkit_django.core.memory import MemoryTransaction
    from tests.core.clock import Clock

SECOND = timedelta(seconds=1)


class FailureError(Exception):
    pass


# ---------------------------------------------------------------- transactions


def test_what_a_failed_transaction_wrote_is_gone(store: AgentStore, driver: MemoryDriver) -> None:
    answered(store)
    before = rows(driver)

    def work(transaction: MemoryTransaction) -> None:
        assert transaction.forget("c", "r1", limit=10) == 2
        assert transaction.restore(conversation_rows(RunFactory.build(conversation_id="d")))
        raise FailureError

    with pytest.raises(FailureError):
        driver.transaction(work)

    assert rows(driver) == before
    assert driver.rows("d") is None


def test_a_transaction_reads_what_it_has_written(driver: MemoryDriver) -> None:
    held = conversation_rows(RunFactory.build())

    def work(transaction: MemoryTransaction) -> bool:
        transaction.restore(held)
        facts = transaction.read(ReadSet(conversation_id="c", run_id="r1"))
        return facts.run == held.runs[0].run

    assert driver.transaction(work)


def test_a_callback_is_called_after_the_commit_and_sees_it(driver: MemoryDriver) -> None:
    seen: list[object] = []

    def work(transaction: MemoryTransaction) -> None:
        transaction.after_commit(lambda: seen.append(driver.rows("c")))
        transaction.after_commit(lambda: seen.append("second"))
        transaction.restore(conversation_rows(RunFactory.build()))
        seen.append("work")

    driver.transaction(work)

    assert seen == ["work", rows(driver), "second"]


def test_a_callback_of_a_failed_transaction_is_never_called(driver: MemoryDriver) -> None:
    seen: list[object] = []

    def work(transaction: MemoryTransaction) -> None:
        transaction.after_commit(lambda: seen.append("called"))
        raise FailureError

    with pytest.raises(FailureError):
        driver.transaction(work)

    assert seen == []


def test_a_callback_may_use_the_store(store: AgentStore, driver: MemoryDriver) -> None:
    driver.transaction(lambda transaction: transaction.after_commit(lambda: admit(store)))

    assert view(store).run.id == "r1"


def test_16_threads_admit_400_inputs_in_one_order(driver: MemoryDriver) -> None:
    store = AgentStore(driver)
    barrier = threading.Barrier(16)

    def work(thread: int) -> None:
        barrier.wait()
        for number in range(25):
            store.accept_input("c", f"{thread}-{number}", "x")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.load_snapshot("c").turns == tuple(range(1, 401))


# ---------------------------------------------------------------- guarded writes


def decided(driver: MemoryDriver) -> WriteSet:
    """Decide an acquisition of r1, but don't write it yet."""
    request = AcquireRun(
        conversation_id="c", run_id="r1", expected_revision=0, owner_id="worker", lease=None
    )
    decision = driver.transaction(
        lambda transaction: reducer.decide(transaction.read(wanted(request)), request)
    )
    assert isinstance(decision, WriteSet)
    return decision


def test_nothing_is_written_when_the_head_has_moved(
    store: AgentStore, driver: MemoryDriver
) -> None:
    admit(store, "1")
    decision = decided(driver)
    admit(store, "2")
    before = rows(driver)

    assert not driver.transaction(lambda transaction: transaction.write(decision))

    assert rows(driver) == before


@pytest.mark.parametrize(
    "moved",
    [
        {"revision": 1},
        {"acquired": True},
        {"fencing_token": 1, "acquired_at": MOMENT},
        None,
    ],
    ids=["revision", "owner", "fence", "gone"],
)
def test_nothing_is_written_when_a_run_has_moved_behind_the_head(
    driver: MemoryDriver, moved: dict[str, object] | None
) -> None:
    driver.transaction(
        lambda transaction: transaction.restore(conversation_rows(RunFactory.build()))
    )
    decision = decided(driver)
    other = MemoryDriver()
    held = conversation_rows(RunFactory.build(**(moved or {})))
    if moved is None:
        held = ConversationRows(head=held.head)
    other.transaction(lambda transaction: transaction.restore(held))

    assert not other.transaction(lambda transaction: transaction.write(decision))

    assert rows(other) == held


def test_the_end_of_a_lease_is_guarded_only_where_the_guard_says_so(
    driver: MemoryDriver,
) -> None:
    run = RunFactory.build(acquired=True, leased=True)
    held = conversation_rows(run)
    driver.transaction(lambda transaction: transaction.restore(held))

    def write(guard: RunGuard) -> bool:
        changes = WriteSet(
            head=HeadFactory.build(version=held.head.version),
            expected_version=held.head.version,
            runs=(RunWrite(run=run, guard=guard),),
        )
        return driver.transaction(lambda transaction: transaction.write(changes))

    owner = {"revision": 0, "owner_id": "worker", "fencing_token": 1}
    assert write(RunGuard(**owner))  # type: ignore[arg-type] # of several types
    assert write(RunGuard(**owner, lease=True, lease_expires_at=MOMENT))  # type: ignore[arg-type] # likewise
    assert not write(RunGuard(**owner, lease=True, lease_expires_at=None))  # type: ignore[arg-type] # likewise
    assert not write(RunGuard(**owner, lease=True, lease_expires_at=MOMENT + SECOND))  # type: ignore[arg-type] # likewise


@pytest.mark.parametrize(
    "moved",
    [
        {"conversation_id": "unknown"},
        {"id": "unknown"},
        {"owner_id": "another"},
        {"fencing_token": 2},
        {"state": "interrupt_requested"},
    ],
    ids=lambda moved: next(iter(moved)),
)
def test_a_renewal_writes_nothing_when_its_run_has_moved(
    driver: MemoryDriver, moved: dict[str, object]
) -> None:
    held = conversation_rows(RunFactory.build(acquired=True))
    driver.transaction(lambda transaction: transaction.restore(held))
    renewed = RunFactory.build(acquired=True, leased=True)

    assert not driver.renew(RunFactory.build(acquired=True, **moved), renewed)

    assert rows(driver) == held


def test_a_renewal_leaves_what_was_checkpointed_meanwhile(driver: MemoryDriver) -> None:
    newer = RunFactory.build(acquired=True, revision=5)
    driver.transaction(lambda transaction: transaction.restore(conversation_rows(newer)))

    assert driver.renew(
        RunFactory.build(acquired=True), RunFactory.build(acquired=True, leased=True)
    )

    (stored,) = rows(driver).runs
    assert (stored.run.revision, stored.run.lease_expires_at) == (5, MOMENT)


# ---------------------------------------------------------------- retention


def test_a_run_is_forgotten_with_the_last_of_its_receipts(
    store: AgentStore, driver: MemoryDriver
) -> None:
    run = admit(store, "1")
    for key in "234":
        admit(store, key, coalesce_into="r1")
    admit(store, "5")
    abandon(store, view(store, run.id).run)
    version = rows(driver).head.version

    def forget(run_id: str, limit: int) -> int:
        return driver.transaction(lambda transaction: transaction.forget("c", run_id, limit=limit))

    assert forget("r1", 3) == 3
    assert [one.idempotency_key for one in rows(driver).receipts] == ["4", "5"]
    assert view(store).run.id == "r1"
    assert forget("r1", 3) == 2
    assert store.load_run("c", "r1") is None
    assert [one.idempotency_key for one in rows(driver).receipts] == ["5"]
    assert forget("r1", 3) == 0
    assert rows(driver).head.version == version
    assert driver.transaction(lambda one: one.forget("unknown", "r1", limit=3)) == 0


def test_a_batch_that_takes_exactly_the_last_receipt_takes_the_run_too(
    store: AgentStore, driver: MemoryDriver
) -> None:
    abandon(store, admit(store))

    gone = driver.transaction(lambda transaction: transaction.forget("c", "r1", limit=1))

    assert (gone, rows(driver).runs, rows(driver).receipts) == (2, (), ())


def test_a_forgotten_key_is_new(store: AgentStore, driver: MemoryDriver) -> None:
    answered(store, "1")
    compact(store, "i-1", "a-r1")
    driver.transaction(lambda transaction: transaction.forget("c", "r1", limit=1))

    outcome = store.accept_input("c", "1", "Hello?")

    assert run_of(outcome).turn == 5


def test_messages_are_forgotten_that_were_archived_before_a_moment(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    answered(store, "1")
    answered(store, "2")
    compact(store, "i-1", "a-r1", "i-2", summary_id="s1")
    clock.move(by=SECOND)
    compact(store, "a-r2", summary_id="s2")

    def forget(limit: int) -> int:
        return driver.transaction(
            lambda transaction: transaction.forget_archived("c", clock.moment, limit=limit)
        )

    assert forget(2) == 2
    assert forget(2) == 1
    assert forget(2) == 0
    assert {one.message.id for one in rows(driver).messages} == {"s1", "a-r2", "s2"}
    unknown = driver.transaction(lambda one: one.forget_archived("d", clock.moment, limit=2))
    assert unknown == 0


# ---------------------------------------------------------------- whole conversations


def whole(store: AgentStore, driver: MemoryDriver) -> ConversationRows:
    """Give the rows of a conversation that has everything: archived, absorbed, active."""
    answered(store, "1")
    compact(store, "i-1", "a-r1")
    second, third = acquire(store, admit(store, "2")), admit(store, "3")
    named = Absorption(run_id="r3", input_message_ids=third.input_message_ids)
    store.commit_terminal(
        "c",
        "r2",
        expected_revision=second.revision,
        owner_id="worker",
        parts="x",
        reason="success",
        absorb=[named],
    )
    requeue(store, acquire(store, admit(store, "4")))
    return rows(driver)


def test_all_rows_of_a_conversation_can_be_put_into_another_driver(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    held = whole(store, driver)
    other = MemoryDriver(clock)

    assert other.transaction(lambda transaction: transaction.restore(held))

    assert other.rows("c") == held
    copy = AgentStore(other)
    assert copy.load_snapshot("c") == store.load_snapshot("c")
    assert copy.scan_recoverable().items == store.scan_recoverable().items
    assert end(copy, acquire(copy, view(copy, "r4").run)).fencing_token == 2


def test_rows_come_in_the_order_of_the_contract(store: AgentStore, driver: MemoryDriver) -> None:
    held = whole(store, driver)

    assert [one.run.id for one in held.runs] == ["r1", "r2", "r3", "r4"]
    assert [one.idempotency_key for one in held.receipts] == ["1", "2", "3", "4"]
    places = [(one.place, one.message.id) for one in held.messages]
    assert places == sorted(places)
    assert driver.rows("unknown") is None


def test_a_conversation_is_not_put_where_one_is(driver: MemoryDriver) -> None:
    held = conversation_rows(RunFactory.build())
    other = conversation_rows(RunFactory.build(acquired=True))
    driver.transaction(lambda transaction: transaction.restore(held))

    assert not driver.transaction(lambda transaction: transaction.restore(other))

    assert rows(driver) == held


# ---------------------------------------------------------------- scans


def test_runs_that_ended_before_a_moment_are_scanned_in_the_order_of_their_keys(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    for key in "123":
        answered(store, key)
    clock.move(by=SECOND)
    answered(store, "4")
    admit(store, "5")

    first = driver.scan_ended(clock.moment, 0, 2)
    second = driver.scan_ended(clock.moment, first.runs[-1].key, 2)

    assert [one.run.id for one in first.runs] == ["r1", "r2"]
    assert [one.run.id for one in second.runs] == ["r3"]
    assert (first.moment, second.moment) == (clock.moment, clock.moment)


def test_keys_rise_over_conversations_and_are_not_used_again(
    store: AgentStore, driver: MemoryDriver
) -> None:
    abandon(store, admit(store, "1"))
    driver.transaction(lambda transaction: transaction.forget("c", "r1", limit=1))
    store.accept_input("d", "1", "x")
    admit(store, "2")

    assert [one.key for one in driver.scan_active(0, 10).runs] == [2, 3]


def test_the_clock_is_this_machines_unless_another_is_given() -> None:
    driver = MemoryDriver()
    store = AgentStore(driver)

    before = driver.scan_active(0, 1).moment
    run = admit(store)
    after = driver.scan_active(0, 1).moment

    assert before <= run.created_at <= after
    assert run.created_at.utcoffset() == timedelta()


def test_a_version_that_was_read_too_early_is_refused_by_the_write(
    store: AgentStore, driver: MemoryDriver
) -> None:
    admit(store)
    decision = decided(driver)
    acquire(store, view(store).run, "another")

    assert not driver.transaction(lambda transaction: transaction.write(decision))

    lost = store.acquire_run("c", "r1", expected_revision=0, owner_id="worker")
    assert isinstance(lost, Conflict)
    assert lost.reason is ConflictReason.REVISION
