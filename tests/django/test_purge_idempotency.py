"""`purge_idempotency` deletes what no retry will ask for, in bounded batches, and nothing else."""

from __future__ import annotations

import re
import sqlite3
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connections
from django.db.models import F
from django.db.models.signals import pre_delete
from django.test import override_settings

from stitchkit_django import get_store
from stitchkit_django.core import AgentStore, MemoryDriver, TextPart
from stitchkit_django.core.keys import PortKeys
from stitchkit_django.core.operations import Absorption
from stitchkit_django.core.retention import Kept
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.keys import DjangoKeys
from stitchkit_django.models import AdmissionReceipt, Message, Run
from stitchkit_django.retention import purge_runs
from tests.core.steps import (
    acquire,
    admit,
    answered,
    compact,
    duplicate,
    end,
    run_of,
    view,
)
from tests.django.commands import ran
from tests.django.hooks import tables
from tests.django.population import Size, populate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stitchkit_django.retention import RunStep

NOW = timedelta()
HOUR = timedelta(hours=1)


def forgettable(store: AgentStore, conversation_id: str, *run_ids: str) -> None:
    """Let runs end, and their history make room for a summary."""
    for run_id in run_ids:
        outcome = store.accept_input(
            conversation_id, f"k-{run_id}", "Hello?", run_id=run_id, input_message_id=f"i-{run_id}"
        )
        store.cancel_run(conversation_id, run_of(outcome).id)
    messages = [message.id for message in store.load_snapshot(conversation_id).messages]
    store.compact_history(
        conversation_id,
        expected_version=store.load_snapshot(conversation_id).version,
        message_ids=messages,
        summary_parts="In short.",
    )


def with_receipts(store: AgentStore, conversation_id: str, receipts: int) -> None:
    """Let a run end that many inputs have joined, without its answer in the history."""
    run = run_of(store.accept_input(conversation_id, "k-0", "Hello?", run_id="r"))
    for number in range(1, receipts):
        store.accept_input(conversation_id, f"k-{number}", "And?", coalesce_into=run.id)
    store.cancel_run(conversation_id, "r")
    driver = store.driver
    assert isinstance(driver, DjangoDriver)
    Message.objects.using(driver.using).filter(conversation_id=conversation_id).delete()


def purged(store: AgentStore, older_than: timedelta = NOW, **options: Any) -> dict[str, Any]:
    """Purge; give what all steps came to, and what failed."""
    found: dict[str, Any] = {"runs": 0, "receipts": 0}
    for step in purge_runs(store, older_than, **options):
        found["runs"] += step.runs
        found["receipts"] += step.receipts
        for cause, number in step.kept.items():
            found[cause] = found.get(cause, 0) + number
        if step.error is not None:
            found.setdefault("errors", []).append(step.error)
    return found


# ---------------------------------------------------------------- what stays


def test_active_runs_stay_whatever_the_horizon(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    acquire(store, admit(store, "1"))
    admit(store, "2")
    before = tables(alias)

    found = ran(capsys, "purge_idempotency", "--database", alias, "--older-than", "0s")

    assert found.status == 0
    assert found.out.startswith("Purged 0 runs and 0 receipts; kept: 2 active, 0 named")
    assert tables(alias) == before


def test_the_key_of_a_run_that_outlives_the_horizon_leads_to_it(alias: str) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))

    purged(store)

    retried = duplicate(store.accept_input("c", "1", "Hello?"))
    assert (retried.run, retried.same_input) == (run, True)


def test_a_run_that_the_active_history_names_stays_until_it_is_compacted(alias: str) -> None:
    store = get_store(alias)
    answered(store)

    uncompacted = purged(store)
    retried = duplicate(store.accept_input("c", "1", "Hello?"))
    compact(store, "i-1", "a-r1")
    compacted = purged(store)

    assert uncompacted == {"runs": 0, "receipts": 0, Kept.IN_HISTORY: 1}
    assert retried.assistant is not None
    assert compacted == {"runs": 1, "receipts": 1}
    assert store.load_run("c", "r1") is None


def test_within_the_horizon_a_retry_gets_its_answer_and_past_it_the_key_is_new(
    alias: str,
) -> None:
    store = get_store(alias)
    forgettable(store, "c", "r1")

    within = purged(store, HOUR)
    retried = store.accept_input("c", "k-r1", "Hello?")
    past = purged(store)
    new = run_of(store.accept_input("c", "k-r1", "Hello?"))

    assert within == {"runs": 0, "receipts": 0, Kept.RECENT: 1}
    assert duplicate(retried).run.id == "r1"
    assert past == {"runs": 1, "receipts": 1}
    assert new.id != "r1"


def test_a_purge_moves_no_version_and_changes_no_message(alias: str) -> None:
    store = get_store(alias)
    forgettable(store, "c", "r1", "r2")
    before = store.load_snapshot("c"), tables(alias)["Message"], tables(alias)["Conversation"]

    purged(store)

    after = store.load_snapshot("c"), tables(alias)["Message"], tables(alias)["Conversation"]
    assert after == before
    assert not Run.objects.using(alias).exists()


def test_one_key_in_two_conversations_is_purged_in_one(alias: str) -> None:
    store = get_store(alias)
    forgettable(store, "c", "r1")
    other = run_of(store.accept_input("d", "k-r1", "Hello?", run_id="r1"))

    purged(store)

    assert duplicate(store.accept_input("d", "k-r1", "Hello?")).run == other
    assert run_of(store.accept_input("c", "k-r1", "Hello?")).turn > 1


def test_what_another_release_has_written_stays(alias: str) -> None:
    forgettable(get_store(alias), "c", "r1", "r2")
    Run.objects.using(alias).filter(run_id="r1").update(schema_version=2)

    found = purged(get_store(alias))

    assert found == {"runs": 1, "receipts": 1, Kept.ACTIVE: 1}


# ---------------------------------------------------------------- absorbed runs


def absorbing(store: AgentStore) -> None:
    """Let run `r1` answer for `r2` and `r3` as well, and leave the history."""
    run, *others = [admit(store, key) for key in "123"]
    absorb = [Absorption(run_id=one.id, input_message_ids=one.input_message_ids) for one in others]
    end(store, acquire(store, run), absorb=absorb)
    compact(store, "i-1", "i-2", "i-3", "a-r1")


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 6, 100])
def test_absorbed_runs_go_with_and_before_the_one_that_answered(
    alias: str, batch_size: int
) -> None:
    store = get_store(alias)
    absorbing(store)
    left: list[list[str]] = []

    steps = list(_watched(purge_runs(store, NOW, batch_size=batch_size), alias, left))

    assert sum(step.runs for step in steps) == sum(step.receipts for step in steps) == 3
    # Whenever a run is left that was absorbed, the one that its key leads to is left, too.
    assert all("r1" in runs for runs in left if runs)
    assert left[-1] == []


def _watched(steps: Iterator[RunStep], alias: str, left: list[list[str]]) -> Iterator[RunStep]:
    for step in steps:
        left.append(sorted(Run.objects.using(alias).values_list("run_id", flat=True)))
        yield step


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_run_that_answers_for_one_that_stays_stays(alias: str, *, dry_run: bool) -> None:
    store = get_store(alias)
    absorbing(store)
    # As rows from elsewhere may have it: the store ends them at one moment.
    later = F("ended_at") + HOUR
    Run.objects.using(alias).filter(run_id="r3").update(ended_at=later)

    found = purged(store, dry_run=dry_run)

    assert found == {"runs": 1, "receipts": 1, Kept.ABSORBER: 1, Kept.RECENT: 1}
    kept = {"r1", "r3"} | ({"r2"} if dry_run else set())
    assert set(Run.objects.using(alias).values_list("run_id", flat=True)) == kept
    assert duplicate(store.accept_input("c", "3", "Hello?")).run.id == "r1"


def test_a_limit_takes_absorbed_runs_first(alias: str) -> None:
    store = get_store(alias)
    absorbing(store)

    found = [purged(store, limit=1)["runs"] for _ in range(4)]

    assert found == [1, 1, 1, 0]


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("batch_size", [2, 3, 7, 100])
def test_no_transaction_deletes_more_rows_than_a_batch(alias: str, batch_size: int) -> None:
    store = get_store(alias)
    for where in "abc":
        forgettable(store, where, *(f"{where}{number}" for number in range(5)))
    deleted: list[int] = [0]

    def hook(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        found = execute(sql, *rest)
        if sql.startswith("DELETE"):
            deleted[-1] += rest[-1]["cursor"].rowcount
        elif sql.startswith("BEGIN") or "FOR NO KEY UPDATE" in sql:
            deleted.append(0)
        return found

    with connections[alias].execute_wrapper(hook):
        found = purged(store, batch_size=batch_size)

    assert found == {"runs": 15, "receipts": 15}
    assert (max(deleted) <= batch_size, sum(deleted)) == (True, 30)


@pytest.mark.parametrize(("receipts", "batch_size"), [(50, 7), (50, 51), (50, 1), (1, 1), (2, 2)])
def test_a_run_with_more_receipts_than_a_batch_loses_them_batch_by_batch(
    alias: str, receipts: int, batch_size: int
) -> None:
    store = get_store(alias)
    with_receipts(store, "c", receipts)
    left: list[tuple[int, int]] = []

    for step in purge_runs(store, NOW, batch_size=batch_size):
        if step.conversation_id:
            rows = AdmissionReceipt.objects.using(alias), Run.objects.using(alias)
            left.append((rows[0].count(), rows[1].count()))

    # The run goes with the last receipt, and not before.
    assert left[-1] == (0, 0)
    assert all(runs == 1 and number > 0 for number, runs in left[:-1])
    numbers = [receipts, *(number for number, _ in left)]
    most = max(1, batch_size - 1)
    assert all(one - other <= most for one, other in pairwise(numbers))


def test_a_batch_larger_than_a_statement_takes_is_deleted_in_parts(sqlite_alias: str) -> None:
    populate(sqlite_alias, {"old": Size(messages=10, runs=705)})
    connection: Any = connections[sqlite_alias].connection
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 500)

    found = purged(get_store(sqlite_alias), batch_size=100_000)

    connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, before)
    assert found == {"runs": 700, "receipts": 700, Kept.IN_HISTORY: 5}


@pytest.mark.parametrize("batch_size", [1_000, 100_000])
def test_a_hundred_thousand_receipts_of_one_run_go_in_batches(alias: str, batch_size: int) -> None:
    store = get_store(alias)
    forgettable(store, "c", "r")
    columns = "conversation_id, schema_version, input, run_id, assistant_message_id, created_at"
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers "
            f"WHERE n < 99999) INSERT INTO stitchkit_django_admissionreceipt ({columns}, "
            f"idempotency_key, input_message_id) SELECT {columns}, 'k' || n, 'm' || n "
            "FROM stitchkit_django_admissionreceipt, numbers"
        )

    steps = [step for step in purge_runs(store, NOW, batch_size=batch_size) if step.receipts]

    assert sum(step.receipts for step in steps) == 100_000
    assert max(step.receipts + step.runs for step in steps) <= batch_size
    assert [step.runs for step in steps] == [0] * (len(steps) - 1) + [1]
    assert not AdmissionReceipt.objects.using(alias).exists()


def test_a_purge_goes_on_where_one_was_stopped(alias: str) -> None:
    store = get_store(alias)
    with_receipts(store, "c", 10)
    forgettable(store, "d", "r1", "r2")
    steps = purge_runs(store, NOW, batch_size=4)
    assert next(steps).looked_at == 3
    assert next(steps).receipts == 3
    steps.close()  # type: ignore[attr-defined]

    found = purged(store)

    assert found == {"runs": 3, "receipts": 9}


def test_keys_alone_are_read(alias: str) -> None:
    store = get_store(alias)
    body = "x" * 500_000
    outcome = store.accept_input("c", "k", body, run_id="r")
    end(store, acquire(store, run_of(outcome)), [TextPart(text=body)], detail="d" * 4_000)
    version = store.load_snapshot("c").version
    ids = [message.id for message in store.load_snapshot("c").messages]
    store.compact_history("c", expected_version=version, message_ids=ids, summary_parts="Short.")
    sent: list[str] = []

    def hook(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        sent.append(sql)
        return execute(sql, *rest)

    with connections[alias].execute_wrapper(hook):
        assert purged(store) == {"runs": 1, "receipts": 1}

    bodies = re.compile(r'"(parts|metadata|terminal_assistant|terminal_detail|usage|input)"')
    assert len(sent) >= 6
    # The scan that tells the moment names all columns of a run, and reads none.
    assert [sql for sql in sent if bodies.search(sql) and "'clock'" not in sql] == []


def test_keys_alone_are_read_where_a_project_listens_to_deletes(alias: str) -> None:
    store = get_store(alias)
    forgettable(store, "c", "r1")
    deferred: list[set[str]] = []

    def listen(instance: Any, **_: object) -> None:
        deferred.append(instance.get_deferred_fields())

    pre_delete.connect(listen, sender=Run)
    pre_delete.connect(listen, sender=AdmissionReceipt)
    try:
        assert purged(store) == {"runs": 1, "receipts": 1}
    finally:
        pre_delete.disconnect(listen, sender=Run)
        pre_delete.disconnect(listen, sender=AdmissionReceipt)

    assert ["terminal_assistant" in deferred[1], "input" in deferred[0]] == [True, True]


# ---------------------------------------------------------------- what fails


def test_a_conversation_that_fails_hides_no_other(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    for where in "abc":
        forgettable(store, where, f"r-{where}")
    is_locked: list[bool] = []

    def hook(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        is_locked.extend(["b" in rest[0]] if "stitchkit_django_conversation" in sql else [])
        if sql.startswith("DELETE") and is_locked[-1]:
            msg = "a disk is full"
            raise OperationalError(msg)
        return execute(sql, *rest)

    with connections[alias].execute_wrapper(hook):
        found = ran(capsys, "purge_idempotency", "--database", alias, "--older-than", "0s")

    assert found.status == 1
    assert found.out.startswith("Purged 2 runs and 2 receipts; ")
    assert found.err.startswith(
        "failed: conversation b: StoreUnavailableError: the database failed"
    )
    assert list(Run.objects.using(alias).values_list("run_id", flat=True)) == ["r-b"]
    assert purged(store) == {"runs": 1, "receipts": 1}


def test_runs_without_a_head_are_told_and_stay(alias: str) -> None:
    store = get_store(alias)
    forgettable(store, "c", "r1")
    forgettable(store, "d", "r2")
    with connections[alias].cursor() as cursor:
        cursor.execute("DELETE FROM stitchkit_django_conversation WHERE conversation_id = 'c'")

    found = purged(store)

    assert (found["runs"], len(found["errors"])) == (1, 1)
    assert "conversation 'c' is corrupt: it has runs and no head" in found["errors"][0]


@pytest.mark.parametrize("moment", ["before a page", "before a conversation"])
def test_a_purge_outlives_a_connection_that_is_cut(postgres_alias: str, moment: str) -> None:
    store = get_store(postgres_alias)
    for number in range(4):
        forgettable(store, f"c{number}", f"r{number}")
    steps = purge_runs(store, NOW)
    found = [next(steps)] if moment == "before a conversation" else []
    mine = connections[postgres_alias]
    with mine.copy().cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [mine.connection.info.backend_pid])
        cursor.connection.close()

    found += steps

    assert sum(step.runs for step in found) == 4
    assert [step.error for step in found if step.error] == []


# ---------------------------------------------------------------- a run of a reused id


def test_a_run_under_the_id_of_one_that_another_purge_took_is_not_its_prey(alias: str) -> None:
    store = get_store(alias)
    forgettable(store, "c", "r1")
    slow = purge_runs(store, NOW)
    assert next(slow).looked_at == 1

    assert purged(store)["runs"] == 1
    Message.objects.using(alias).all().delete()
    run = admit(store)
    assert run.id == "r1"
    assert sum(step.runs + step.receipts for step in slow) == 0

    assert view(store).run == run
    assert duplicate(store.accept_input("c", "1", "Hello?")).run == run


def test_an_active_run_is_not_deleted_whatever_is_believed_of_it(alias: str) -> None:
    store = get_store(alias)
    admit(store)
    keys = DjangoKeys(alias)
    (run,) = keys.runs(0, 9).runs

    assert keys.receipts([run._replace(ended_at=run.created_at)]) == {}


# ---------------------------------------------------------------- one rule for all


def test_dry_run_memory_and_tables_agree(aliases: tuple[str, ...]) -> None:
    memory = AgentStore(MemoryDriver())
    stores = [memory, *map(get_store, aliases)]
    for store in stores:
        _live(store)

    foreseen = [purged(store, dry_run=True) for store in stores]
    done = [purged(store, batch_size=3) for store in stores]
    again = [purged(store) for store in stores]

    assert foreseen == done == [done[0]] * len(stores)
    assert done[0] == {
        "runs": 6,
        "receipts": 7,
        Kept.IN_HISTORY: 1,
        Kept.ACTIVE: 1,
    }
    assert again == [{"runs": 0, "receipts": 0, Kept.IN_HISTORY: 1, Kept.ACTIVE: 1}] * len(stores)
    for where in "cd":
        rows = [_names(store, where) for store in stores]
        assert rows == [rows[0]] * len(stores)


def _live(store: AgentStore) -> None:
    absorbing(store)
    answered(store, "4")
    admit(store, "5")
    forgettable(store, "d", "r1", "r2")
    run = run_of(store.accept_input("e", "k", "Hello?", run_id="r"))
    store.accept_input("e", "k2", "And?", coalesce_into=run.id)
    acquired = run_of(store.acquire_run("e", "r", expected_revision=1, owner_id="w"))
    store.commit_terminal(
        "e", "r", expected_revision=acquired.revision, owner_id="w", parts="Hi", reason="success"
    )
    version = store.load_snapshot("e").version
    ids = [message.id for message in store.load_snapshot("e").messages]
    store.compact_history("e", expected_version=version, message_ids=ids, summary_parts="Short.")


def _names(store: AgentStore, where: str) -> tuple[list[str], list[str]]:
    rows = store.driver.rows(where)
    assert rows is not None
    return [one.run.id for one in rows.runs], [one.idempotency_key for one in rows.receipts]


def test_the_keys_of_the_tables_are_those_of_the_ports(alias: str) -> None:
    store = get_store(alias)
    _live(store)
    quick, slow = DjangoKeys(alias), PortKeys(store.driver)

    pages = [[keys.runs(cursor, 4).runs for cursor in (0, 10**9)] for keys in (quick, slow)]
    first = quick.runs(0, 4)
    second = [keys.runs(first.next_cursor or 0, 99) for keys in (quick, slow)]
    runs = first.runs + second[0].runs
    ties = [[tie._replace(absorbed=()) for tie in keys.ties(runs)] for keys in (quick, slow)]
    absorbed = [
        [[one._replace(key=None) for one in tie.absorbed] for tie in keys.ties(runs)]
        for keys in (quick, slow)
    ]

    assert pages[0] == pages[1]
    assert second[0] == second[1]
    assert ties[0] == ties[1]
    assert absorbed[0] == absorbed[1]
    assert [one.run_id for one in absorbed[0][0]] == ["r2", "r3"]


# ---------------------------------------------------------------- the command


def test_a_dry_run_says_what_would_go_and_deletes_nothing(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _live(get_store(alias))
    before = tables(alias)
    command = ("purge_idempotency", "--database", alias, "--older-than", "0d")

    text = ran(capsys, *command, "--dry-run")
    would = ran(capsys, *command, "--dry-run", "--format", "json")
    after = tables(alias)
    does = ran(capsys, *command, "--format", "json")

    assert text.out == (
        "Would purge 6 runs and 7 receipts; kept: 1 active, 1 named by the active history, "
        "0 answering for a run that stays\n"
    )
    assert after == before
    assert would.document["summary"] == does.document["summary"] | {"dryRun": True}
    assert does.document == {
        "conversations": [],
        "summary": {
            "runs": 6,
            "receipts": 7,
            "kept": {"active": 1, "in_history": 1, "absorber": 0},
            "dryRun": False,
            "failed": 0,
            "endedBy": None,
        },
    }


def test_the_horizon_can_be_a_setting(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    forgettable(get_store(alias), "c", "r1")
    command = ("purge_idempotency", "--database", alias)

    unset = ran(capsys, *command)
    with override_settings(STITCHKIT={"IDEMPOTENCY_HORIZON": HOUR}):
        within = ran(capsys, *command)
        overridden = ran(capsys, *command, "--older-than", "0s")

    assert unset.status == 2
    assert "--older-than: is needed, since STITCHKIT['IDEMPOTENCY_HORIZON']" in unset.err
    assert within.out.startswith("Purged 0 runs")
    assert overridden.out.startswith("Purged 1 run and 1 receipt")


def test_a_limit_bounds_how_many_runs_go(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    for where in "ab":
        forgettable(get_store(alias), where, f"{where}1", f"{where}2")
    command = ("purge_idempotency", "--database", alias, "--older-than", "0s", "--limit", "3")

    found = [ran(capsys, *command, *more).out[:21] for more in (["--dry-run"], [], [])]

    assert found == ["Would purge 3 runs an", "Purged 3 runs and 3 r", "Purged 1 run and 1 re"]


def test_time_that_is_up_ends_a_purge_after_the_batch_in_hand(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    forgettable(get_store(alias), "c", *(f"r{number}" for number in range(4)))
    command = ("purge_idempotency", "--database", alias, "--older-than", "0s", "--format", "json")

    found = ran(capsys, *command, "--max-seconds", "0", "--batch-size", "2")

    assert (found.status, found.document["summary"]["endedBy"]) == (0, "time")
    assert found.document["summary"]["runs"] == 0
    assert ran(capsys, *command).document["summary"]["runs"] == 4


def test_options_can_be_given_as_values(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    forgettable(get_store(alias), "c", "r1")

    call_command("purge_idempotency", database=alias, older_than=NOW, batch_size=10, limit=5)

    assert capsys.readouterr().out.startswith("Purged 1 run and 1 receipt; ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--older-than", "30"),
        ("--older-than", "1w"),
        ("--older-than", ""),
        ("--older-than", "d"),
        ("--older-than", "1h2d"),
        ("--older-than", "40000d"),
        ("--max-seconds", "-1"),
        ("--max-seconds", "soon"),
        ("--batch-size", "0"),
        ("--limit", "0"),
        ("--limit", "all"),
        ("--format", "yaml"),
        ("--database", "elsewhere"),
    ],
    ids=" ".join,
)
def test_what_can_not_be_is_refused_by_its_option_before_anything_is_done(
    alias: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    forgettable(get_store(alias), "c", "r1")
    before = tables(alias)
    command = ("purge_idempotency", "--database", alias, "--older-than", "0s")

    found = ran(capsys, *command, *arguments)

    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"CommandError: {arguments[0]}: ")
    assert tables(alias) == before
