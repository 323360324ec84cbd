"""Two that want the same run: one gets its way, the other is told, and no field is clobbered."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import pytest

from stitchkit_django import get_store
from stitchkit_django.core import (
    Applied,
    Conflict,
    ConflictReason,
    Cost,
    Provenance,
    RunState,
    TextPart,
    Usage,
)
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
from tests.races.threads import SECONDS, racing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stitchkit_django.core import AgentStore, Outcome, Run

LAPSED = timedelta(microseconds=1)


def won_and_lost(outcomes: Iterable[Outcome]) -> tuple[Applied, list[Conflict]]:
    """Tell who won and who lost, where one alone can win."""
    found = list(outcomes)
    (won,) = [one for one in found if isinstance(one, Applied)]
    lost = [one for one in found if isinstance(one, Conflict)]
    assert len(lost) == len(found) - 1
    return won, lost


def test_of_many_that_acquire_a_run_one_owns_it(alias: str) -> None:
    store = get_store(alias)
    run = admit(store)
    owners = [f"worker-{number}" for number in range(8)]

    outcomes = racing(
        alias,
        *(
            partial(store.acquire_run, "c", run.id, expected_revision=0, owner_id=owner)
            for owner in owners
        ),
    )

    won, lost = won_and_lost(outcomes)
    assert won.run == view(store).run
    assert won.run.owner_id in owners
    assert (won.run.fencing_token, won.run.revision, won.version) == (1, 1, 2)
    for conflict in lost:
        assert (conflict.reason, conflict.run) == (ConflictReason.REVISION, won.run)


def test_of_two_ends_one_wins_and_the_other_is_told(alias: str) -> None:
    store = get_store(alias)
    acquire(store, admit(store))
    both_have_read = threading.Barrier(2)

    def end_as(reason: str, cents: int) -> Outcome:
        read = view(store).run
        both_have_read.wait(SECONDS)
        return store.commit_terminal(
            "c", read.id, **owned(read), parts=reason, reason=reason, usage=spent(cents)
        )

    outcomes = racing(alias, partial(end_as, "success", 1), partial(end_as, "timeout", 2))

    won, (lost,) = won_and_lost(outcomes)
    kept = view(store)
    assert won.run == kept.run == lost.run
    assert lost.reason is ConflictReason.REVISION
    assert lost.version == won.version == 3
    cents = {"success": 1, "timeout": 2}[str(kept.run.terminal_reason)]
    assert kept.run.usage == spent(cents)
    assert kept.assistant is not None
    assert kept.assistant.parts == (TextPart(text=str(kept.run.terminal_reason)),)
    assert store.load_snapshot("c").messages[-1] == kept.assistant


def test_an_end_and_an_interrupt_at_once_are_both_told_what_is(alias: str) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))

    ended, interrupted = racing(
        alias, partial(finish, store, run), partial(store.request_interrupt, "c", run.id)
    )

    kept = view(store).run
    if isinstance(ended, Applied):
        assert interrupted == Conflict(reason=ConflictReason.STATE, version=3, run=kept)
        assert ended.run == kept
        assert kept.state is RunState.COMPLETED
    else:
        assert ended == Conflict(reason=ConflictReason.REVISION, version=3, run=kept)
        assert run_of(interrupted) == kept
        assert end(store, kept, reason="interrupted").state is RunState.INTERRUPTED


def test_an_interrupt_never_loses_to_a_checkpoint(alias: str) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))

    kept, interrupted = racing(
        alias,
        partial(store.checkpoint_run, "c", run.id, **owned(run), parts="So far"),
        partial(store.request_interrupt, "c", run.id),
    )

    assert run_of(interrupted).state is RunState.INTERRUPT_REQUESTED
    assert view(store).run == run_of(interrupted)
    if isinstance(kept, Applied):
        assert [one.id for one in store.load_snapshot("c").messages] == ["i-1", "a-r1"]
    else:
        now = run_of(interrupted)
        assert kept == Conflict(reason=ConflictReason.REVISION, version=3, run=now)


def test_what_a_worker_loaded_before_another_ended_the_run_writes_nothing(alias: str) -> None:
    store = get_store(alias)
    loaded = acquire(store, admit(store))
    ended = end(store, loaded)
    before = store.load_snapshot("c")

    outcomes = [
        finish(store, loaded, "timeout"),
        store.checkpoint_run("c", loaded.id, **owned(loaded), parts="So far"),
        store.request_interrupt("c", loaded.id),
    ]

    assert [reason_of(one) for one in outcomes] == ["revision", "revision", "state"]
    assert view(store).run == ended
    assert store.load_snapshot("c") == before


@pytest.mark.parametrize("revision", ["its own", "the current"])
def test_an_owner_that_took_its_run_again_is_refused_with_its_old_token(
    alias: str, revision: str
) -> None:
    store = get_store(alias)
    old = acquire(store, admit(store), lease=LAPSED)
    queued = store.recover_run(
        "c",
        old.id,
        expected_revision=old.revision,
        action="requeue",
        replay_safe=True,
        require_expired_lease=True,
    )
    new = acquire(store, run_of(queued))
    claim = owned(old) if revision == "its own" else {**owned(new), "fencing_token": 1}

    outcomes = [
        store.checkpoint_run("c", old.id, **claim, parts="Late"),
        store.commit_terminal("c", old.id, **claim, parts="Late", reason="success"),
        store.renew_lease("c", old.id, owner_id="worker", fencing_token=1, lease=LAPSED),
    ]

    told = "revision" if revision == "its own" else "fence"
    assert [reason_of(one) for one in outcomes] == [told, told, "fence"]
    assert (new.owner_id, new.fencing_token) == (old.owner_id, 2)
    assert view(store).run == new


def test_a_run_goes_round_between_workers_without_a_lost_write(alias: str) -> None:
    store = get_store(alias)
    admit(store)

    def take_turns(owner: str) -> int:
        kept = 0
        for _ in range(20):
            read = view(store).run
            outcome = store.acquire_run(
                "c", read.id, expected_revision=read.revision, owner_id=owner
            )
            if isinstance(outcome, Applied):
                kept += 1
                requeue(store, checkpoint(store, run_of(outcome), owner))
        return kept

    counts = racing(alias, *(partial(take_turns, f"worker-{number}") for number in range(4)))

    run = view(store).run
    assert run.fencing_token == sum(counts)
    assert run.revision == 3 * sum(counts)
    assert store.load_snapshot("c").version == 1 + run.revision


def finish(store: AgentStore, run: Run, reason: str = "success") -> Outcome:
    return store.commit_terminal("c", run.id, **owned(run), parts=reason, reason=reason)


def spent(cents: int) -> Usage:
    amount = Decimal(cents) / 100
    return Usage(cost=Cost(amount=amount, currency="USD", provenance=Provenance.COMPUTED))
