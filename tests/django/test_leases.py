"""A renewal moves the lease beside the head's lock, and whatever it meets there is told right."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from stitchkit_django import get_store
from stitchkit_django.core import (
    AgentStore,
    Applied,
    Conflict,
    ConflictReason,
    RunState,
    StoreUnavailableError,
)
from stitchkit_django.models import Conversation
from stitchkit_django.models import Run as RunRow
from tests.core.steps import (
    acquire,
    admit,
    checkpoint,
    end,
    owned,
    reason_of,
    requeue,
    run_of,
    view,
)
from tests.django.hooks import tables
from tests.races.threads import RUN_WRITE, aside, before

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from stitchkit_django.core import Outcome, Run

LAPSED = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def store(alias: str) -> AgentStore:
    return get_store(alias)


def renew(store: AgentStore, run: Run, lease: timedelta | None = HOUR) -> Outcome:
    return store.renew_lease("c", run.id, owner_id="worker", fencing_token=1, lease=lease)


def recover(store: AgentStore, run: Run, action: str = "abandon", **fields: Any) -> Outcome:
    return store.recover_run(
        "c", run.id, expected_revision=run.revision, action=action, replay_safe=True, **fields
    )


def in_between(alias: str, act: Callable[[], object]) -> AbstractContextManager[None]:
    """Act between an operation's read and its write.

    On PostgreSQL on another connection. SQLite has one writer at a time, so there nothing can come
    in between but in the same transaction.
    """
    return before(alias, RUN_WRITE, act if alias == "default" else partial(aside, act))


# ---------------------------------------------------------------- a renewal in between


@pytest.mark.parametrize("action", ["abandon", "requeue"])
def test_a_renewal_between_the_read_and_the_write_of_a_recovery_is_told_to_it(
    alias: str, store: AgentStore, action: str
) -> None:
    run = checkpoint(store, acquire(store, admit(store), lease=LAPSED), "So far")

    with in_between(alias, partial(renew, store, run)):
        outcome = recover(store, run, action, require_expired_lease=True)

    assert reason_of(outcome) is ConflictReason.LEASE
    kept = view(store).run
    assert isinstance(outcome, Conflict)
    assert outcome.run == kept
    assert kept.lease_seconds == HOUR.total_seconds()
    assert (kept.state, kept.owner_id, kept.revision) == (RunState.RUNNING, "worker", run.revision)
    assert store.load_snapshot("c").version == 3
    assert end(store, kept).state is RunState.COMPLETED


def test_a_recovery_that_asks_for_no_lapsed_lease_goes_on_after_a_renewal(
    alias: str, store: AgentStore
) -> None:
    run = acquire(store, admit(store), lease=LAPSED)

    with in_between(alias, partial(renew, store, run)):
        recovered = run_of(recover(store, run))

    assert recovered.state is RunState.ABANDONED
    assert recovered.lease_expires_at is None
    assert view(store).run == recovered


def test_a_longer_lease_that_came_in_between_is_not_shortened_by_a_checkpoint(
    alias: str, store: AgentStore
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)

    with in_between(alias, partial(renew, store, run, HOUR)):
        kept = checkpoint(store, run, "So far")

    found = view(store).run
    assert found.lease_expires_at is not None
    assert found.lease_expires_at > kept.updated_at + HOUR / 2
    assert found.lease_seconds == HOUR.total_seconds()
    assert found == kept


def test_a_shorter_lease_that_came_in_between_is_the_one_that_a_checkpoint_extends(
    alias: str, store: AgentStore
) -> None:
    run = acquire(store, admit(store), lease=HOUR)

    with in_between(alias, partial(renew, store, run, LAPSED)):
        kept = checkpoint(store, run, "So far")

    assert kept.lease_expires_at is not None
    assert kept.lease_expires_at < kept.updated_at + MINUTE
    assert kept.lease_seconds == LAPSED.total_seconds()
    assert view(store).run == kept


def test_a_lease_that_was_taken_away_in_between_is_not_given_back_by_a_checkpoint(
    alias: str, store: AgentStore
) -> None:
    run = acquire(store, admit(store), lease=HOUR)

    with in_between(alias, partial(renew, store, run, None)):
        kept = checkpoint(store, run, "So far")

    assert (kept.lease_seconds, kept.lease_expires_at) == (None, None)
    assert view(store).run == kept


@pytest.mark.parametrize("lease", [None, LAPSED, HOUR * 2])
def test_an_interrupt_leaves_the_lease_alone(
    alias: str, store: AgentStore, lease: timedelta | None
) -> None:
    run = acquire(store, admit(store), lease=HOUR)

    with in_between(alias, partial(renew, store, run, lease)):
        kept = run_of(store.request_interrupt("c", run.id))

    assert view(store).run == kept
    assert kept.state is RunState.INTERRUPT_REQUESTED
    assert kept.lease_seconds == (None if lease is None else lease.total_seconds())


def test_an_end_clears_a_lease_that_came_in_between(alias: str, store: AgentStore) -> None:
    run = acquire(store, admit(store))

    with in_between(alias, partial(renew, store, run)):
        ended = end(store, run)

    assert (ended.lease_seconds, ended.lease_expires_at) == (None, None)
    assert view(store).run == ended


# ---------------------------------------------------------------- a run that moved in between


@pytest.mark.parametrize(
    ("move", "told"),
    [
        pytest.param(end, "state", id="ended"),
        pytest.param(requeue, "state", id="queued again"),
        pytest.param(recover, "state", id="abandoned"),
        pytest.param(lambda store, run: taken(store, run, "another"), "owner", id="taken"),
        pytest.param(lambda store, run: taken(store, run, "worker"), "fence", id="taken again"),
    ],
)
def test_a_renewal_whose_run_was_lost_in_between_is_told_how_and_writes_nothing(
    store: AgentStore, alias: str, move: Callable[[AgentStore, Run], object], told: str
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)
    moved: list[dict[str, list[tuple[Any, ...]]]] = []

    def act() -> None:
        move(store, run)
        moved.append(tables(alias))

    # A renewal takes no lock before its write, so that another writer is never in its way.
    with before(alias, RUN_WRITE, partial(aside, act)):
        outcome = renew(store, run)

    assert reason_of(outcome) == told
    assert tables(alias) == moved[0]


def test_a_renewal_whose_run_was_interrupted_in_between_tells_of_it(
    store: AgentStore, alias: str
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)

    with before(alias, RUN_WRITE, partial(aside, lambda: store.request_interrupt("c", run.id))):
        renewed = run_of(renew(store, run))

    assert renewed.state is RunState.INTERRUPT_REQUESTED
    assert renewed.lease_seconds == HOUR.total_seconds()
    assert view(store).run == renewed


def test_a_renewal_leaves_what_a_checkpoint_wrote_in_between(store: AgentStore, alias: str) -> None:
    run = acquire(store, admit(store), lease=MINUTE)

    with before(alias, RUN_WRITE, partial(aside, lambda: checkpoint(store, run, "So far"))):
        renewed = renew(store, run)

    assert isinstance(renewed, Applied)
    kept = view(store).run
    assert kept.revision == run.revision + 1
    assert kept.lease_seconds == HOUR.total_seconds()


def test_a_renewal_that_always_finds_its_run_moved_is_given_up(
    store: AgentStore, alias: str
) -> None:
    run = acquire(store, admit(store), lease=MINUTE)

    with (
        changing_states(alias) as changes,
        pytest.raises(StoreUnavailableError, match="moved 3 times"),
    ):
        renew(store, run)

    assert len(changes) == 3
    assert view(store).run.lease_seconds == MINUTE.total_seconds()


# ---------------------------------------------------------------- a lease that has lapsed


def test_a_lapsed_lease_still_lets_its_owner_go_on(store: AgentStore) -> None:
    run = acquire(store, admit(store), lease=LAPSED)

    kept = checkpoint(store, run, "So far")
    renewed = renew(store, kept, LAPSED)
    ended = end(store, kept)

    assert kept.lease_expires_at == kept.updated_at + LAPSED
    assert isinstance(renewed, Applied)
    assert ended.state is RunState.COMPLETED


@pytest.mark.parametrize("action", ["abandon", "requeue"])
def test_a_run_whose_lease_has_lapsed_is_recovered(store: AgentStore, action: str) -> None:
    run = acquire(store, admit(store), lease=LAPSED)

    recovered = run_of(recover(store, run, action, require_expired_lease=True))

    assert (recovered.owner_id, recovered.lease_expires_at) == (None, None)
    assert view(store).run == recovered


@pytest.mark.parametrize("lease", [None, HOUR])
def test_a_run_without_a_lapsed_lease_is_not_recovered_where_one_is_required(
    alias: str, store: AgentStore, lease: timedelta | None
) -> None:
    run = acquire(store, admit(store), lease=lease)
    untouched = tables(alias)

    outcome = recover(store, run, require_expired_lease=True)

    assert reason_of(outcome) is ConflictReason.LEASE
    assert tables(alias) == untouched


def test_a_lease_is_judged_by_the_clock_that_a_scan_tells(store: AgentStore) -> None:
    run = acquire(store, admit(store), lease=LAPSED)

    page = store.scan_recoverable()

    assert page.items == (run,)
    assert run.lease_expires_at is not None
    assert run.lease_expires_at <= page.moment
    recovered = recover(store, page.items[0], require_expired_lease=True)
    assert run_of(recovered).state is RunState.ABANDONED


def test_the_fence_and_not_the_name_proves_who_owns_a_run(alias: str, store: AgentStore) -> None:
    old = acquire(store, admit(store), lease=LAPSED)
    queued = run_of(recover(store, old, "requeue", require_expired_lease=True))
    new = acquire(store, queued, lease=HOUR)
    untouched = tables(alias)
    claim = owned(new) | {"fencing_token": old.fencing_token}

    outcomes = [
        store.checkpoint_run("c", new.id, **claim, parts="Stale"),
        store.commit_terminal("c", new.id, **claim, parts="Stale", reason="success"),
        renew(store, old),
    ]

    assert [reason_of(one) for one in outcomes] == [ConflictReason.FENCE] * 3
    assert (old.fencing_token, new.fencing_token) == (1, 2)
    assert tables(alias) == untouched
    assert end(store, new).state is RunState.COMPLETED


# ---------------------------------------------------------------- a renewal and transactions


def test_a_renewal_moves_neither_version_nor_revision(alias: str, store: AgentStore) -> None:
    run = acquire(store, admit(store))
    untouched = tables(alias)

    renewed = renew(store, run)

    assert isinstance(renewed, Applied)
    assert (renewed.version, run_of(renewed).revision) == (2, run.revision)
    moved = tables(alias)
    assert {name for name, rows in moved.items() if rows != untouched[name]} == {"Run"}
    assert view(store).run == renewed.run


def test_a_renewal_never_waits_for_the_lock_of_the_head(postgres_alias: str) -> None:
    store = get_store(postgres_alias)
    run = acquire(store, admit(store))

    with transaction.atomic(using=postgres_alias):
        Conversation.objects.using(postgres_alias).select_for_update().get()
        renewed = aside(partial(renew, store, run))

    assert isinstance(renewed, Applied)


def test_a_renewal_goes_with_the_callers_transaction(alias: str, store: AgentStore) -> None:
    run = acquire(store, admit(store), lease=MINUTE)

    with transaction.atomic(using=alias):
        renew(store, run)
        inside = view(store).run
        transaction.set_rollback(True, using=alias)

    assert inside.lease_seconds == HOUR.total_seconds()
    assert view(store).run == run


# ---------------------------------------------------------------- what the tests do


def taken(store: AgentStore, run: Run, owner_id: str) -> Run:
    return acquire(store, requeue(store, run), owner_id)


@contextmanager
def changing_states(alias: str) -> Iterator[list[str]]:
    """Change the run's state past the store before each write to it."""
    states = cycle((RunState.INTERRUPT_REQUESTED, RunState.RUNNING))
    changes: list[str] = []

    def hook(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if RUN_WRITE.search(sql) and not changing:
            changes.append(sql)
            changing.append(True)
            RunRow.objects.using(alias).update(state=next(states))
            changing.clear()
        return execute(sql, *rest)

    changing: list[bool] = []
    with connections[alias].execute_wrapper(hook):
        yield changes
