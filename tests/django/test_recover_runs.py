"""`recover_runs` finds every run that waits or was lost, and settles it once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connections
from django.test import override_settings

from stitchkit_django import get_store
from stitchkit_django.core import (
    AgentStore,
    MemoryDriver,
    RecoveryAction,
    Run,
    RunState,
)
from stitchkit_django.core.recovery import Abandon, Dispatch, Requeue, Skip, StandardPolicy
from stitchkit_django.models import Run as RunRow
from stitchkit_django.recovery import Result, recover
from stitchkit_django.statements import dialects
from tests.core.steps import (
    abandon,
    acquire,
    admit,
    checkpoint,
    end,
    owned,
    requeue,
    run_of,
    view,
)
from tests.django.commands import ran
from tests.django.hooks import counted, tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core.recovery import Decision, Policy

LAPSED = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
ABANDON_EXPIRED = StandardPolicy(expired=True, action=RecoveryAction.ABANDON)
REQUEUE_EXPIRED = StandardPolicy(expired=True, action=RecoveryAction.REQUEUE, replay_safe=True)
REQUEUE = ("--expired", "--action", "requeue", "--replay-safe")
ABANDON = ("--expired", "--action", "abandon")

told: list[tuple[str, str]] = []
"""What the dispatcher of the setting was told."""


def dispatch(conversation_id: str, run_id: str) -> None:
    """Stand for a project's dispatcher."""
    told.append((conversation_id, run_id))


def fail_to_dispatch(conversation_id: str, run_id: str) -> None:
    """Stand for one whose broker is gone."""
    msg = f"no broker for {run_id} of {conversation_id}"
    raise ConnectionError(msg)


def abandon_all(_run: Run, _moment: datetime) -> Decision:
    """Stand for a project's policy."""
    return Abandon(detail="as the project says")


DISPATCHING = override_settings(STITCHKIT={"DISPATCHER": f"{__name__}.dispatch"})


@pytest.fixture(autouse=True)
def _nothing_told() -> None:
    told.clear()


def queue(store: AgentStore, conversation_id: str, *run_ids: str) -> list[Run]:
    """Admit inputs to a conversation, each for a run of its own."""
    return [
        run_of(store.accept_input(conversation_id, f"k-{one}", "Hello?", run_id=one))
        for one in run_ids
    ]


def take(store: AgentStore, run: Run, lease: timedelta | None = LAPSED) -> Run:
    """Let a worker take a run; by default its lease has lapsed at once."""
    return run_of(
        store.acquire_run(
            run.conversation_id,
            run.id,
            expected_revision=run.revision,
            owner_id="worker",
            lease=lease,
        )
    )


def results(store: AgentStore, policy: Policy, **options: Any) -> list[tuple[str, str]]:
    """Make a pass; give what became of each run."""
    return [
        (outcome.run.id if outcome.run else outcome.row, str(outcome.result))
        for outcome in recover(store, policy, **options)
    ]


# ---------------------------------------------------------------- what waits


@pytest.mark.parametrize("page_size", [1, 2, 3, 100])
def test_the_first_of_each_queue_is_dispatched_whatever_the_page_boundaries(
    alias: str, page_size: int
) -> None:
    store = get_store(alias)
    queue(store, "c1", "r1", "r2", "r3")
    queue(store, "c2", "r4")
    take(store, queue(store, "c3", "r5", "r6")[0])
    queue(store, "c1", "r7")

    found = results(store, StandardPolicy(), dispatcher=dispatch, page_size=page_size)

    assert told == [("c1", "r1"), ("c2", "r4")]
    assert [run_id for run_id, _ in found] == ["r1", "r2", "r3", "r4", "r5", "r6", "r7"]
    assert {run_id for run_id, result in found if result == "dispatched"} == {"r1", "r4"}
    assert {result for _, result in found} == {"dispatched", "skipped"}


def test_a_long_queue_costs_no_look_for_each_run(alias: str) -> None:
    store = get_store(alias)
    queue(store, "c", *(f"r{number}" for number in range(20)))

    with counted(alias) as sent:
        list(recover(store, StandardPolicy(), dispatcher=dispatch))

    # A page, and for the first two runs the lock and the facts.
    assert len(sent) == 5


@DISPATCHING
def test_a_run_whose_hint_was_lost_is_dispatched(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with override_settings(STITCHKIT={}):
        admit(get_store(alias))

    found = ran(capsys, "recover_runs", "--database", alias)

    assert told == [("c", "r1")]
    assert found == (
        0,
        (
            "dispatched: run r1 in conversation c\n"
            "1 dispatched, 0 requeued, 0 abandoned, 0 reported, 0 skipped, 0 failed\n"
        ),
        "",
    )


def test_without_a_dispatcher_a_run_that_waits_is_reported(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admit(get_store(alias))

    found = ran(capsys, "recover_runs", "--database", alias)

    why = "it waits for a worker, and no dispatcher is configured"
    assert (found.status, found.lines[0]) == (0, f"queued: run r1 in conversation c: {why}")
    assert "1 reported" in found.lines[1]


def test_a_dispatcher_is_called_outside_any_transaction(alias: str) -> None:
    store = get_store(alias)
    admit(store)
    inside: list[bool] = []

    list(
        recover(
            store,
            StandardPolicy(),
            dispatcher=lambda *_: inside.append(connections[alias].in_atomic_block),
        )
    )

    assert inside == [False]


def test_a_run_that_an_inline_dispatcher_has_ended_makes_the_next_one_the_first(
    alias: str,
) -> None:
    store = get_store(alias)
    for key in "12":
        admit(store, key)

    def execute(_conversation_id: str, run_id: str) -> None:
        end(store, acquire(store, view(store, run_id).run))

    found = results(store, StandardPolicy(), dispatcher=execute)

    assert found == [("r1", "dispatched"), ("r2", "dispatched")]
    assert store.list_active_runs("c") == ()


# ---------------------------------------------------------------- what was lost


def test_a_run_whose_lease_has_lapsed_is_requeued_and_dispatched(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with DISPATCHING:
        store = get_store(alias)
        take(store, admit(store))
        told.clear()

        found = ran(capsys, "recover_runs", "--database", alias, *REQUEUE)

    run = view(store).run
    assert (run.state, run.fencing_token, run.owner_id) == (RunState.QUEUED, 1, None)
    assert told == [("c", "r1")]
    assert found.lines[0] == "requeued: run r1 in conversation c"


@pytest.mark.parametrize("arguments", [REQUEUE, ABANDON])
def test_a_run_in_time_is_left_to_its_owner(
    alias: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    store = get_store(alias)
    take(store, admit(store), HOUR)
    before = tables(alias)

    found = ran(capsys, "recover_runs", "--database", alias, *arguments)

    assert (found.status, "1 skipped" in found.out) == (0, True)
    assert tables(alias) == before


def test_a_run_without_a_lease_is_found_by_its_age(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    take(store, admit(store), lease=None)
    command = ("recover_runs", "--database", alias, "--action", "abandon")

    by_lease = ran(capsys, *command, "--expired")
    too_young = ran(capsys, *command, "--stale-after", "1h")
    by_age = ran(capsys, *command, "--stale-after", "0s")

    assert ["1 skipped" in found.out for found in (by_lease, too_young, by_age)] == [
        True,
        True,
        False,
    ]
    run = view(store).run
    assert run.state is RunState.ABANDONED
    assert "it has no lease and was last written at" in str(run.terminal_detail)


def test_a_run_that_was_to_stop_is_abandoned_by_a_requeue_too(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    take(store, admit(store))
    store.request_interrupt("c", "r1")

    ran(capsys, "recover_runs", "--database", alias, *REQUEUE)

    assert view(store).run.state is RunState.ABANDONED


def test_a_run_that_is_lost_again_and_again_is_abandoned_with_the_reason(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    admit(store)
    command = ("recover_runs", "--database", alias, *REQUEUE, "--max-attempts", "3")

    for attempt in (1, 2, 3):
        assert take(store, view(store).run).fencing_token == attempt
        assert ran(capsys, *command).status == 0

    run = view(store).run
    assert (run.state, run.fencing_token) == (RunState.ABANDONED, 3)
    assert run.terminal_detail == "it was acquired 3 times, of at most 3"


def test_the_limit_of_attempts_can_be_a_setting(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    requeue(store, take(store, admit(store)))

    with override_settings(STITCHKIT={"MAX_ATTEMPTS": 1}):
        ran(capsys, "recover_runs", "--database", alias)

    assert view(store).run.state is RunState.ABANDONED


def test_every_recovery_moves_the_version_by_one(alias: str) -> None:
    store = get_store(alias)
    take(store, admit(store, "1"))
    admit(store, "2")
    before = store.load_snapshot("c").version

    results(store, REQUEUE_EXPIRED)
    between = store.load_snapshot("c").version
    take(store, view(store).run)
    results(store, ABANDON_EXPIRED)

    assert (between - before, store.load_snapshot("c").version - between) == (1, 2)


def test_the_next_of_a_queue_is_dispatched_in_the_pass_that_ends_the_first(alias: str) -> None:
    store = get_store(alias)
    take(store, admit(store, "1"))
    admit(store, "2")

    found = results(store, ABANDON_EXPIRED, dispatcher=dispatch)

    assert found == [("r1", "abandoned"), ("r2", "dispatched")]
    assert told == [("c", "r2")]


# ---------------------------------------------------------------- lost races


def racing(policy: Policy, act: Callable[[Run], object]) -> Policy:
    """Give a policy after whose decision somebody else is faster."""

    def decide(run: Run, moment: datetime) -> Decision:
        decision = policy(run, moment)
        act(run)
        return decision

    return decide


@pytest.mark.parametrize("policy", [REQUEUE_EXPIRED, ABANDON_EXPIRED])
def test_a_run_whose_lease_is_renewed_before_it_is_recovered_stays_with_its_owner(
    alias: str, policy: StandardPolicy
) -> None:
    store = get_store(alias)
    run = take(store, admit(store))

    def renew(_run: Run) -> None:
        store.renew_lease("c", "r1", owner_id="worker", fencing_token=1, lease=HOUR)

    (outcome,) = recover(store, racing(policy, renew))

    assert (outcome.result, outcome.detail) == (
        Result.SKIPPED,
        "its lease was renewed meanwhile",
    )
    assert view(store).run.state is RunState.RUNNING
    assert checkpoint(store, run, "Still here").revision == 2


def test_a_run_that_gets_a_lease_after_it_was_found_stale_stays_with_its_owner(
    alias: str,
) -> None:
    store = get_store(alias)
    run = take(store, admit(store), lease=None)
    policy = StandardPolicy(stale_after=timedelta(), action=RecoveryAction.ABANDON)

    def renew(_run: Run) -> None:
        store.renew_lease("c", "r1", owner_id="worker", fencing_token=1, lease=HOUR)

    (outcome,) = recover(store, racing(policy, renew))

    assert outcome.detail == "its lease was renewed meanwhile"
    assert end(store, run).state is RunState.COMPLETED


@pytest.mark.parametrize("lease", [LAPSED, None])
@pytest.mark.parametrize("action", [checkpoint, end])
def test_a_run_that_its_owner_writes_before_it_is_recovered_is_skipped(
    alias: str, lease: timedelta | None, action: Callable[..., Run]
) -> None:
    store = get_store(alias)
    run = take(store, admit(store), lease=lease)
    policy = StandardPolicy(expired=True, stale_after=timedelta(), action=RecoveryAction.ABANDON)

    (outcome,) = recover(store, racing(policy, lambda _: action(store, run, "So far")))

    assert (outcome.result, outcome.detail) == (Result.SKIPPED, "it was written meanwhile")
    assert view(store).run.state is not RunState.ABANDONED


@pytest.mark.parametrize(
    ("policy", "detail"),
    [
        (StandardPolicy(), "it is not queued"),
        (abandon_all, "its conversation was purged meanwhile"),
    ],
)
def test_a_run_whose_conversation_is_purged_meanwhile_is_skipped(
    alias: str, policy: Policy, detail: str
) -> None:
    store = get_store(alias)
    admit(store)

    def purge(run: Run) -> None:
        abandon(store, run)
        store.purge_conversation("c")

    (outcome,) = recover(store, racing(policy, purge), dispatcher=dispatch)

    assert (outcome.result, outcome.detail, told) == (Result.SKIPPED, detail, [])


def test_a_run_that_is_gone_meanwhile_is_skipped(alias: str) -> None:
    store = get_store(alias)
    admit(store)
    delete = RunRow.objects.using(alias).filter(run_id="r1").delete

    (outcome,) = recover(store, racing(abandon_all, lambda _: delete()))

    assert (outcome.result, outcome.detail) == (Result.SKIPPED, "it is gone")


def test_only_a_queued_run_is_dispatched(alias: str) -> None:
    store = get_store(alias)
    take(store, admit(store))

    (outcome,) = recover(store, lambda *_: Dispatch(), dispatcher=dispatch)

    assert (outcome.result, outcome.detail, told) == (Result.SKIPPED, "it is not queued", [])


# ---------------------------------------------------------------- whose clock


class Skewed(datetime):
    """A process's clock that is wrong."""

    by = timedelta()

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + cls.by


@pytest.mark.parametrize("by", [timedelta(minutes=10), timedelta(minutes=-10)])
def test_a_lease_is_judged_by_the_clock_of_the_database(
    postgres_alias: str, monkeypatch: pytest.MonkeyPatch, by: timedelta
) -> None:
    store = get_store(postgres_alias)
    take(store, admit(store), timedelta(minutes=5))
    take(store, queue(store, "d", "r2")[0])
    monkeypatch.setattr(Skewed, "by", by)
    monkeypatch.setattr(dialects, "datetime", Skewed)
    moments: list[datetime] = []

    def decide(run: Run, moment: datetime) -> Decision:
        moments.append(moment)
        return ABANDON_EXPIRED(run, moment)

    found = results(store, decide)

    assert found == [("r1", "skipped"), ("r2", "abandoned")]
    assert all(abs(datetime.now(UTC) - moment) < timedelta(minutes=2) for moment in moments)


# ---------------------------------------------------------------- what fails


def test_one_run_that_fails_hides_no_other(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = get_store(alias)
    for number in range(10):
        take(store, queue(store, f"c{number}", f"r{number}")[0])
    RunRow.objects.using(alias).filter(run_id="r4").update(schema_version=2)

    found = ran(capsys, "recover_runs", "--database", alias, *ABANDON, "--batch-size", "3")

    states = dict(RunRow.objects.using(alias).values_list("run_id", "state"))
    assert found.status == 1
    assert states.pop("r4") == "running"
    assert set(states.values()) == {"abandoned"}
    assert "9 abandoned, 0 reported, 0 skipped, 1 failed" in found.lines[-1]
    assert found.err.startswith("failed: run 'r4' in conversation 'c4' has schema version 2")
    assert "upgrade stitchkit_django" in found.err


def test_a_run_whose_dispatch_fails_is_found_by_the_next_pass(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queue(get_store(alias), "c1", "r1")
    queue(get_store(alias), "c2", "r2")

    with override_settings(STITCHKIT={"DISPATCHER": f"{__name__}.fail_to_dispatch"}):
        failed = ran(capsys, "recover_runs", "--database", alias)
    with DISPATCHING:
        found = ran(capsys, "recover_runs", "--database", alias)

    assert failed.status == 1
    assert failed.err.splitlines()[:2] == [
        "failed: run r1 in conversation c1: ConnectionError: no broker for r1 of c1",
        "failed: run r2 in conversation c2: ConnectionError: no broker for r2 of c2",
    ]
    assert (found.status, told) == (0, [("c1", "r1"), ("c2", "r2")])


def test_a_policy_that_raises_or_answers_nonsense_fails_its_run_alone(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = get_store(alias)
    for run_id in ("r1", "r2", "r3"):
        queue(store, f"c-{run_id}", run_id)
    answers: dict[str, Any] = {"r1": None, "r3": Skip(reason="not today")}

    found = list(recover(store, lambda run, _: answers[run.id]))

    assert [(outcome.result, outcome.detail) for outcome in found] == [
        (Result.FAILED, "TypeError: the policy answered None, which is no decision"),
        (Result.FAILED, "KeyError: 'r2'"),
        (Result.SKIPPED, "not today"),
    ]
    assert [record.run_id for record in caplog.records] == ["r1", "r2"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_policy_that_requeues_without_evidence_fails_its_run(
    alias: str, *, dry_run: bool
) -> None:
    store = get_store(alias)
    take(store, admit(store))

    (outcome,) = recover(store, lambda *_: Requeue(), dry_run=dry_run)

    assert outcome.result is Result.FAILED
    assert str(outcome.detail).startswith("ReplayNotSafeError: run 'r1'")
    assert view(store).run.state is RunState.RUNNING


@pytest.mark.parametrize("moment", ["before a page", "before a write", "before a look"])
def test_a_pass_outlives_a_connection_that_is_cut(postgres_alias: str, moment: str) -> None:
    store = get_store(postgres_alias)
    for number in range(4):
        take(store, queue(store, f"c{number}", f"r{number}", f"s{number}")[0])
    mine = connections[postgres_alias]

    def cut() -> None:
        with mine.copy().cursor() as cursor:
            pid = mine.connection.info.backend_pid
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            cursor.connection.close()

    def decide(run: Run, at: datetime) -> Decision:
        if run.id == {"before a write": "r2", "before a look": "s2"}.get(moment):
            cut()
        return ABANDON_EXPIRED(run, at)

    outcomes = recover(store, decide, dispatcher=dispatch, page_size=4)
    found = [next(outcomes) for _ in range(4)]
    if moment == "before a page":
        cut()
    found += outcomes

    assert [outcome.result for outcome in found] == [Result.ABANDONED, Result.DISPATCHED] * 4


@pytest.mark.parametrize("begun", [False, True])
def test_a_database_that_is_gone_ends_the_pass_and_blames_no_run(
    alias: str, capsys: pytest.CaptureFixture[str], *, begun: bool
) -> None:
    store = get_store(alias)
    for number in range(4):
        take(store, queue(store, f"c{number}", f"r{number}")[0])
    gone = [not begun]

    def refuse(execute: Callable[..., Any], *call: Any) -> Any:
        gone[0] = gone[0] or "c1" in (call[1] or ())
        if gone[0]:
            msg = "the server closed the connection"
            raise OperationalError(msg)
        return execute(*call)

    with connections[alias].execute_wrapper(refuse):
        found = ran(capsys, "recover_runs", "--database", alias, *ABANDON, "--format", "json")

    assert found.status == (1 if begun else 2)
    assert "the server closed the connection" in found.err
    if begun:
        assert found.document["summary"]["endedBy"] == "database"
    again = ran(capsys, "recover_runs", "--database", alias, *ABANDON)
    assert again.status == 0
    assert not RunRow.objects.using(alias).active().exists()


# ---------------------------------------------------------------- which runs, and how many


@pytest.mark.parametrize("run_ids", [("XeLu", "XGeU", "a_z", "ab"), tuple("54321")])
@pytest.mark.parametrize("page_size", [1, 2])
def test_each_run_is_visited_once_whatever_its_id(
    alias: str, run_ids: tuple[str, ...], page_size: int
) -> None:
    store = get_store(alias)
    for run_id in run_ids:
        queue(store, f"c-{run_id}", run_id)
    one_moment = datetime(2026, 3, 1, tzinfo=UTC)
    RunRow.objects.using(alias).update(created_at=one_moment, updated_at=one_moment)

    found = results(store, StandardPolicy(), page_size=page_size)

    assert found == [(run_id, "reported") for run_id in run_ids]


def test_a_limit_counts_what_is_acted_on_and_not_what_is_in_its_way(alias: str) -> None:
    store = get_store(alias)
    for number in range(6):
        run = queue(store, f"c{number}", f"r{number}")[0]
        take(store, run, HOUR if number % 2 else LAPSED)
    RunRow.objects.using(alias).filter(run_id="r0").update(schema_version=2)

    found = results(store, ABANDON_EXPIRED, limit=1)

    assert found == [
        ("run 'r0' in conversation 'c0'", "failed"),
        ("r1", "skipped"),
        ("r2", "abandoned"),
    ]


def test_one_conversation_can_be_recovered_alone(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    for where in "de":
        take(store, queue(store, where, "r1", "r2")[0])

    found = ran(capsys, "recover_runs", "--database", alias, "--conversation", "e", *ABANDON)

    assert (found.status, found.lines[0].startswith("abandoned: run r1 in conversation e")) == (
        0,
        True,
    )
    assert [run.id for run in store.list_active_runs("d")] == ["r1", "r2"]
    assert [run.id for run in store.list_active_runs("e")] == ["r2"]


def test_a_conversation_that_can_not_be_read_is_told(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admit(get_store(alias))
    RunRow.objects.using(alias).update(schema_version=2)

    found = ran(capsys, "recover_runs", "--database", alias, "--conversation", "c")

    assert (found.status, found.err.startswith("failed: run 'r1' in conversation 'c'")) == (1, True)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_dry_run_says_what_would_be_and_changes_nothing(
    alias: str, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    with override_settings(STITCHKIT={}):
        store = get_store(alias)
        take(store, queue(store, "c1", "r1", "r2", "r3")[0])
        take(store, queue(store, "c2", "r4")[0], HOUR)
        queue(store, "c3", "r5")
    before = tables(alias)
    command = ("recover_runs", "--database", alias, *ABANDON, "--format", form)

    with DISPATCHING:
        would = ran(capsys, *command, "--dry-run")
        after, hints = tables(alias), list(told)
        does = ran(capsys, *command)

    assert (after, hints) == (before, [])
    if form == "json":
        runs = [(run["runId"], run["result"]) for run in would.document["runs"]]
        assert runs == [("r1", "abandoned"), ("r2", "dispatched"), ("r5", "dispatched")]
        assert would.document["summary"] == does.document["summary"] | {"dryRun": True}
        assert would.document["runs"] == does.document["runs"]
    else:
        assert [line.split(":")[0] for line in would.lines] == [
            "would be abandoned",
            "would be dispatched",
            "would be dispatched",
            "Would be",
        ]


# ---------------------------------------------------------------- the policy, and bad input


def test_the_policy_of_the_setting_decides(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = get_store(alias)
    admit(store)

    with override_settings(STITCHKIT={"RECOVERY_POLICY": f"{__name__}.abandon_all"}):
        ran(capsys, "recover_runs", "--database", alias)

    assert view(store).run.terminal_detail == "as the project says"


@pytest.mark.parametrize("arguments", [ABANDON, ("--max-attempts", "9")])
def test_an_option_takes_the_place_of_the_policy_of_the_setting(
    alias: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    store = get_store(alias)
    admit(store)

    with override_settings(STITCHKIT={"RECOVERY_POLICY": f"{__name__}.abandon_all"}):
        ran(capsys, "recover_runs", "--database", alias, *arguments)

    assert view(store).run.state is RunState.QUEUED


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("--action", "--expired"),
        ("--action", "--stale-after 1h"),
        ("--action", "--action abandon"),
        ("--action", "--expired --action rescue"),
        ("--replay-safe", "--expired --action requeue"),
        ("--stale-after", "--stale-after soon --action abandon"),
        ("--stale-after", "--stale-after=-1h --action abandon"),
        ("--stale-after", "--stale-after 1h30 --action abandon"),
        ("--stale-after", "--stale-after 999999d --action abandon"),
        ("--max-attempts", "--max-attempts 0"),
        ("--batch-size", "--batch-size 0"),
        ("--batch-size", "--batch-size -1"),
        ("--batch-size", "--batch-size True"),
        ("--batch-size", "--batch-size 1000000000"),
        ("--limit", "--limit -1"),
        ("--limit", "--limit 1.5"),
        ("--database", "--database elsewhere"),
        ("--format", "--format xml"),
        ("--conversation", "--conversation="),
        ("--conversation", f"--conversation {'x' * 10_000}"),
    ],
)
def test_what_can_not_be_is_refused_by_its_option_before_anything_is_done(
    alias: str, capsys: pytest.CaptureFixture[str], option: str, arguments: str
) -> None:
    store = get_store(alias)
    take(store, admit(store), lease=None)
    before = tables(alias)

    found = ran(capsys, "recover_runs", "--database", alias, *arguments.split())

    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"CommandError: {option}: ")
    assert len(found.err) < 300
    assert tables(alias) == before


@pytest.mark.parametrize("key", ["RECOVERY_POLICY", "DISPATCHER"])
def test_a_path_that_leads_nowhere_is_told_before_anything_is_done(
    alias: str, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    with override_settings(STITCHKIT={key: "nowhere.at_all"}):
        found = ran(capsys, "recover_runs", "--database", alias)

    assert (found.status, found.out) == (2, "")
    assert f"STITCHKIT['{key}'] names 'nowhere.at_all'" in found.err


# ---------------------------------------------------------------- any store


def test_a_pass_works_on_a_store_over_any_driver() -> None:
    store = AgentStore(MemoryDriver())
    take(store, admit(store, "1"))
    admit(store, "2")
    answered_elsewhere = owned(take(store, queue(store, "d", "r3")[0], HOUR))

    found = results(store, REQUEUE_EXPIRED, dispatcher=dispatch, page_size=1)

    assert found == [("r1", "requeued"), ("r2", "skipped"), ("r3", "skipped")]
    store.commit_terminal("d", "r3", **answered_elsewhere, parts="Hi", reason="success")


def test_a_page_size_that_is_none_is_refused() -> None:
    with pytest.raises(Exception, match=r"\$\.limit: 0 is not an int of 1 to 1000"):
        next(recover(AgentStore(MemoryDriver()), StandardPolicy(), page_size=0))
