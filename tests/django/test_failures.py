"""Whatever fails on the way to the database, an operation is written whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

import pytest
from django.db import (
    DataError,
    IntegrityError,
    OperationalError,
    connections,
    transaction,
)
from django.db.models import F

from stitchkit_django import driver as driver_module
from stitchkit_django import get_store
from stitchkit_django.core import (
    Absorption,
    AgentStore,
    Applied,
    ConflictReason,
    MemoryDriver,
    Snapshot,
    StoreUnavailableError,
)
from stitchkit_django.core.driver import LAST_SLOT
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.models import Conversation
from stitchkit_django.models import Message as MessageRow
from stitchkit_django.models import Run as RunRow
from tests.core.steps import (
    acquire,
    admit,
    answered,
    checkpoint,
    duplicate,
    end,
    owned,
    reason_of,
    view,
)
from tests.django.hooks import counted, failing, tables
from tests.races.threads import RUN_WRITE, aside, before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core import Outcome, Run

Act = Callable[[], object]
Arrange = Callable[[AgentStore], Act]

HOUR = timedelta(hours=1)
FUTURE = datetime(2999, 1, 1, tzinfo=UTC)


def refusal(alias: str, sqlstate: str = "40001") -> OperationalError:
    """Make what Django raises where the database asks for the transaction to be run again."""
    cause: Exception
    if alias == "default":
        cause = sqlite3.OperationalError("database is locked")
        cause.sqlite_errorcode = sqlite3.SQLITE_BUSY
    else:
        cause = ServerError("could not serialize access")
        cause.sqlstate = sqlstate
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


class ServerError(Exception):
    """As the database's client raises it."""

    sqlstate: str | None = None


def failure() -> DataError:
    return DataError("injected")


# ---------------------------------------------------------------- what is done


def first_admission(store: AgentStore) -> Act:
    return lambda: admit(store, "1")


def next_admission(store: AgentStore) -> Act:
    admit(store, "1")
    return lambda: admit(store, "2", metadata={"a": 1})


def joining_admission(store: AgentStore) -> Act:
    run = admit(store, "1")
    return lambda: admit(store, "2", coalesce_into=run.id)


def acquisition(store: AgentStore) -> Act:
    run = admit(store)
    return lambda: acquire(store, run, lease=HOUR)


def first_checkpoint(store: AgentStore) -> Act:
    run = acquire(store, admit(store), lease=HOUR)
    return lambda: checkpoint(store, run, "So far")


def next_checkpoint(store: AgentStore) -> Act:
    run = checkpoint(store, acquire(store, admit(store)), "So far")
    return lambda: checkpoint(store, run, "So far, so good")


def interrupt(store: AgentStore) -> Act:
    run = acquire(store, admit(store))
    return lambda: store.request_interrupt("c", run.id)


def cancellation(store: AgentStore) -> Act:
    run = admit(store)
    return lambda: store.cancel_run("c", run.id)


def recovery(store: AgentStore, action: str) -> Act:
    run = checkpoint(store, acquire(store, admit(store), lease=HOUR), "So far")
    return lambda: store.recover_run(
        "c", run.id, expected_revision=run.revision, action=action, replay_safe=True
    )


def requeueing(store: AgentStore) -> Act:
    return recovery(store, "requeue")


def abandonment(store: AgentStore) -> Act:
    return recovery(store, "abandon")


def ending(store: AgentStore) -> Act:
    run = checkpoint(store, acquire(store, admit(store)), "So far")
    return lambda: end(store, run)


def absorbing_end(store: AgentStore) -> Act:
    run = acquire(store, admit(store, "1"))
    others = [admit(store, "2"), admit(store, "3")]
    absorb = [Absorption(run_id=one.id, input_message_ids=one.input_message_ids) for one in others]
    return lambda: end(store, run, absorb=absorb)


def compaction(store: AgentStore) -> Act:
    answered(store, "1")
    answered(store, "2")
    return partial(compact, store, store.load_snapshot("c").version, "i-1", "a-r1", "i-2")


def deleting_compaction(store: AgentStore) -> Act:
    deleting = AgentStore(driver_of(store), archive_compacted=False)
    answered(store, "1")
    return partial(compact, deleting, store.load_snapshot("c").version, "i-1", "a-r1")


def compact(store: AgentStore, version: int, *message_ids: str) -> Outcome:
    return store.compact_history(
        "c", expected_version=version, message_ids=message_ids, summary_parts="In short."
    )


def purge(store: AgentStore) -> Act:
    answered(store, "1")
    return lambda: store.purge_conversation("c")


def forgetting(store: AgentStore) -> Act:
    run = admit(store, "1")
    admit(store, "2", coalesce_into=run.id)
    store.cancel_run("c", run.id)
    return lambda: driver_of(store).transaction(
        lambda current: current.forget("c", run.id, limit=9)
    )


def forgetting_archived(store: AgentStore) -> Act:
    compaction(store)()
    return lambda: driver_of(store).transaction(
        lambda current: current.forget_archived("c", FUTURE, limit=9)
    )


def restoring(store: AgentStore) -> Act:
    memory = MemoryDriver()
    compaction(AgentStore(memory))()
    rows = memory.rows("c")
    assert rows is not None
    return lambda: driver_of(store).transaction(lambda current: current.restore(rows))


MUTATIONS: list[Arrange] = [
    first_admission,
    next_admission,
    joining_admission,
    acquisition,
    first_checkpoint,
    next_checkpoint,
    interrupt,
    cancellation,
    requeueing,
    abandonment,
    ending,
    absorbing_end,
    compaction,
    deleting_compaction,
    purge,
    forgetting,
    forgetting_archived,
    restoring,
]


def driver_of(store: AgentStore) -> DjangoDriver:
    driver = store._driver  # noqa: SLF001 - retention and import work on the driver itself
    assert isinstance(driver, DjangoDriver)
    return driver


def failed(alias: str, act: Act, number: int) -> bool:
    """Let an act fail after its statement of a number; False when it has fewer statements."""
    with failing(alias, failure, number) as injection:
        told = None
        try:
            act()
        except StoreUnavailableError as error:
            told = error.__cause__
    assert injection.failures == ([] if told is None else [told])
    return told is not None


READS: dict[str, Callable[[AgentStore], object]] = {
    "snapshot": lambda store: store.load_snapshot("c"),
    "run": lambda store: store.load_run("c", "r1"),
    "active runs": lambda store: store.list_active_runs("c"),
    "history": lambda store: store.load_history("c"),
    "scan": lambda store: store.scan_recoverable(),
    "rows": lambda store: driver_of(store).rows("c"),
}


def renew(store: AgentStore, run: Run) -> Outcome:
    return store.renew_lease("c", run.id, owner_id="worker", fencing_token=1, lease=HOUR)


every_mutation = pytest.mark.parametrize("arrange", MUTATIONS, ids=lambda one: one.__name__)


@pytest.fixture
def store(alias: str) -> AgentStore:
    return get_store(alias)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(driver_module, "LONGEST_PAUSE_SECONDS", 0.0)


# ---------------------------------------------------------------- failures


@every_mutation
def test_a_failure_after_any_statement_leaves_every_table_as_it_was(
    alias: str, store: AgentStore, arrange: Arrange
) -> None:
    act = arrange(store)
    untouched = tables(alias)
    numbers = count(1)

    for number in takewhile(partial(failed, alias, act), numbers):
        assert tables(alias) == untouched, f"after statement {number}"

    assert next(numbers) > 3
    assert tables(alias) != untouched


@every_mutation
def test_a_failure_inside_a_callers_transaction_takes_nothing_of_the_callers_own(
    alias: str, store: AgentStore, arrange: Arrange
) -> None:
    act = arrange(store)
    untouched = tables(alias, "c")
    numbers = count(1)

    def failed_inside(number: int) -> bool:
        with transaction.atomic(using=alias):
            store.accept_input("before", str(number), "Hello?")
            found = failed(alias, act, number)
            store.accept_input("after", str(number), "Hello?")
        return found

    for number in takewhile(failed_inside, numbers):
        assert tables(alias, "c") == untouched, f"after statement {number}"
        assert store.load_snapshot("before").version == number
        assert store.load_snapshot("after").version == number

    assert next(numbers) > 3
    assert tables(alias, "c") != untouched


@every_mutation
def test_a_commit_that_fails_leaves_every_table_as_it_was(
    alias: str, store: AgentStore, arrange: Arrange, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = arrange(store)
    untouched = tables(alias)

    def fail() -> None:
        raise OperationalError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(connections[alias], "_commit", fail)
        with pytest.raises(StoreUnavailableError, match="injected") as caught:
            act()

    assert isinstance(caught.value.__cause__, OperationalError)
    assert tables(alias) == untouched
    act()
    assert tables(alias) != untouched


def test_a_renewal_that_fails_inside_a_callers_transaction_leaves_the_lease(
    alias: str, store: AgentStore
) -> None:
    run = acquire(store, admit(store))
    untouched = tables(alias)

    with (
        transaction.atomic(using=alias),
        failing(alias, failure, 2) as injection,
        pytest.raises(StoreUnavailableError),
    ):
        renew(store, run)

    assert len(injection.failures) == 1
    assert tables(alias) == untouched


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_that_fails_says_that_the_database_did(
    alias: str, store: AgentStore, read: Callable[[AgentStore], object]
) -> None:
    answered(store)

    with failing(alias, failure, 1) as injection, pytest.raises(StoreUnavailableError) as caught:
        read(store)

    assert [caught.value.__cause__] == injection.failures


def test_what_the_database_refuses_is_told_with_its_own_error(
    alias: str, store: AgentStore
) -> None:
    run = acquire(store, admit(store))

    # The row past the store takes the place that the answer is to have.
    def take() -> None:
        MessageRow.objects.using(alias).update(turn=1, slot=LAST_SLOT)

    with before(alias, RUN_WRITE, take), pytest.raises(StoreUnavailableError) as caught:
        checkpoint(store, run, "So far")

    assert isinstance(caught.value.__cause__, IntegrityError)
    assert store.load_snapshot("c").version == 2


# ---------------------------------------------------------------- lost connections


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda store, _: store.accept_input("c", "2", "Hello?"), id="mutation"),
        pytest.param(lambda store, _: store.load_snapshot("c"), id="read"),
        pytest.param(renew, id="renewal"),
    ],
)
def test_a_lost_connection_is_told_and_the_next_call_has_a_new_one(
    postgres_alias: str, call: Callable[[AgentStore, Run], object]
) -> None:
    store = get_store(postgres_alias)
    run = acquire(store, admit(store))
    untouched = tables(postgres_alias)
    lose_connection(postgres_alias)

    with pytest.raises(StoreUnavailableError) as caught:
        call(store, run)

    assert isinstance(caught.value.__cause__, OperationalError)
    assert tables(postgres_alias) == untouched
    assert isinstance(call(store, run), Applied | Snapshot)


def test_a_connection_lost_inside_a_callers_transaction_is_told_and_nothing_is_kept(
    postgres_alias: str,
) -> None:
    store = get_store(postgres_alias)

    def work() -> None:
        with transaction.atomic(using=postgres_alias):
            admit(store, "1")
            lose_connection(postgres_alias)
            admit(store, "2")

    with pytest.raises(StoreUnavailableError):
        work()

    assert store.load_snapshot("c").version == 0
    assert admit(store, "1").turn == 1


def test_an_input_whose_commit_was_not_heard_of_is_accepted_once(
    alias: str, store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connections[alias]
    commit = connection._commit  # type: ignore[attr-defined]  # noqa: SLF001

    def commit_and_fail() -> None:
        commit()
        raise OperationalError("the server closed the connection")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "_commit", commit_and_fail)
        with pytest.raises(StoreUnavailableError):
            store.accept_input("c", "key", "Hello?")
    retry = duplicate(store.accept_input("c", "key", "Hello?"))

    assert retry.same_input
    snapshot = store.load_snapshot("c")
    assert [run.id for run in snapshot.runs] == [retry.run.id]
    assert [message.id for message in snapshot.messages] == [retry.input.id]
    assert snapshot.version == 1


# ---------------------------------------------------------------- refusals


@every_mutation
@pytest.mark.usefixtures("no_pauses")
def test_a_refused_transaction_is_run_again_from_its_beginning(
    alias: str, store: AgentStore, arrange: Arrange
) -> None:
    act = arrange(store)
    untouched = tables(alias)

    with failing(alias, partial(refusal, alias), 2) as injection:
        act()

    assert len(injection.failures) == 1
    # The head was locked again, and so everything was read again.
    assert injection.sent[2] == injection.sent[0]
    assert tables(alias) != untouched


@pytest.mark.usefixtures("no_pauses")
def test_a_deadlock_is_run_again_too(postgres_alias: str) -> None:
    store = get_store(postgres_alias)

    with failing(postgres_alias, partial(refusal, postgres_alias, "40P01"), 2) as injection:
        admit(store)

    assert len(injection.failures) == 1
    assert store.load_snapshot("c").version == 1


@pytest.mark.usefixtures("no_pauses")
def test_a_refused_renewal_is_tried_again(alias: str, store: AgentStore) -> None:
    run = acquire(store, admit(store))

    with failing(alias, partial(refusal, alias), 1) as injection:
        renew(store, run)

    assert len(injection.failures) == 1
    assert view(store).run.lease_seconds == HOUR.total_seconds()


@every_mutation
def test_inside_a_callers_transaction_a_refusal_is_raised_and_the_caller_goes_on(
    alias: str, store: AgentStore, arrange: Arrange
) -> None:
    act = arrange(store)
    untouched = tables(alias, "c")
    hint = "transaction_mode = IMMEDIATE" if alias == "default" else "run the whole transaction"

    with transaction.atomic(using=alias):
        with (
            failing(alias, partial(refusal, alias), 2) as injection,
            pytest.raises(StoreUnavailableError, match=hint) as caught,
        ):
            act()
        store.accept_input("after", "1", "Hello?")

    assert [caught.value.__cause__] == injection.failures
    assert len(injection.sent) == 2
    assert tables(alias, "c") == untouched
    assert store.load_snapshot("after").version == 1


@pytest.mark.usefixtures("no_pauses")
def test_a_refusal_that_never_ends_is_given_up_after_ten_tries(
    alias: str, store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "RETRY_SECONDS", 0.0)

    with (
        failing(alias, partial(refusal, alias), 1, 1_000) as injection,
        pytest.raises(StoreUnavailableError, match="10 tries") as caught,
    ):
        admit(store)

    assert len(injection.failures) == 10
    assert caught.value.__cause__ is injection.failures[-1]
    assert store.load_snapshot("c").version == 0


@pytest.mark.usefixtures("no_pauses")
def test_while_there_is_time_a_refused_transaction_is_not_given_up(
    alias: str, store: AgentStore
) -> None:
    with failing(alias, partial(refusal, alias), 1, 30) as injection:
        admit(store)

    assert len(injection.failures) == 30
    assert store.load_snapshot("c").version == 1


def test_a_failure_that_is_no_refusal_is_not_tried_again(alias: str, store: AgentStore) -> None:
    with failing(alias, failure, 1) as injection, pytest.raises(StoreUnavailableError):
        admit(store)

    assert len(injection.sent) == 1


def test_a_database_that_another_process_keeps_locked_is_waited_for(sqlite_alias: str) -> None:
    store = get_store(sqlite_alias)
    connection = connections[sqlite_alias]
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, timeout=0)
    other.execute("BEGIN IMMEDIATE")

    def release() -> None:
        other.execute("ROLLBACK")

    pauses = count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", lambda _: release() if next(pauses) == 3 else None)
        admit(store)
    other.close()
    connection.close()

    assert next(pauses) == 4
    assert store.load_snapshot("c").version == 1


# ---------------------------------------------------------------- rows moved past the store


def test_a_row_changed_past_the_store_in_the_middle_of_a_write_stops_it_whole(
    alias: str, store: AgentStore
) -> None:
    act = absorbing_end(store)
    untouched = tables(alias)

    def move() -> None:
        RunRow.objects.using(alias).filter(run_id="r3").update(revision=7)

    with (
        before(alias, RUN_WRITE, move),
        pytest.raises(StoreUnavailableError, match="past the store"),
    ):
        act()

    assert tables(alias) == untouched


def test_a_write_that_finds_its_run_moved_is_decided_again(alias: str, store: AgentStore) -> None:
    run = acquire(store, admit(store))

    def move() -> None:
        RunRow.objects.using(alias).update(revision=7)

    with before(alias, RUN_WRITE, move):
        outcome = store.checkpoint_run("c", run.id, **owned(run), parts="So far")

    assert reason_of(outcome) is ConflictReason.REVISION
    assert store.load_snapshot("c").version == 2


@pytest.mark.parametrize("losses", [1, 2])
def test_a_write_that_finds_its_head_moved_is_decided_again_under_the_same_lock(
    alias: str, store: AgentStore, losses: int
) -> None:
    run = acquire(store, admit(store))

    with moving_heads(alias, losses), counted(alias) as sent:
        checkpoint(store, run, "So far")

    assert len([sql for sql in sent if sql == sent[0]]) == losses + 1
    assert view(store).run.revision == run.revision + 1
    # Each move past the store was seen, and counted on from.
    assert store.load_snapshot("c").version == 3 + losses


def test_a_write_that_always_finds_rows_moved_is_given_up_and_leaves_every_table_as_it_was(
    alias: str, store: AgentStore
) -> None:
    run = acquire(store, admit(store))
    untouched = tables(alias)

    with (
        moving_heads(alias, 99) as moves,
        pytest.raises(StoreUnavailableError, match="moved 3 times"),
    ):
        checkpoint(store, run, "So far")

    assert len(moves) == 3
    assert tables(alias) == untouched


# ---------------------------------------------------------------- what the tests do


def lose_connection(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (process,) = cursor.fetchone()

    def terminate() -> None:
        with connections[alias].cursor() as cursor:
            # Returns once it has ended.
            cursor.execute("SELECT pg_terminate_backend(%s, 60000)", [process])

    aside(terminate)


@contextmanager
def moving_heads(alias: str, most: int) -> Iterator[list[str]]:
    """Move the head past the store before each write to a run, as often as that."""
    moves: list[str] = []

    def hook(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if RUN_WRITE.search(sql) and len(moves) < most:
            moves.append(sql)
            Conversation.objects.using(alias).update(version=F("version") + 1)
        return execute(sql, *rest)

    with connections[alias].execute_wrapper(hook):
        yield moves
