"""Laws of the scans over all conversations: each run once, in one order, and the cursor holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from stitchkit_django.core import AgentStore, MemoryDriver
from stitchkit_django.testing.claims import expect
from stitchkit_django.testing.conversation import Conversation, opened, opened_pair

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from stitchkit_django.core import Driver, Run
    from stitchkit_django.core.driver import KeyedRun
    from stitchkit_django.testing.conversation import MakeStore

LIMITS: Final = (1, 2, 3, 1_000)
FUTURE: Final = datetime(2999, 1, 1, tzinfo=UTC)


def check_a_scan_finds_every_active_run_once(make_store: MakeStore) -> None:
    """Pages of whatever size give each active run of all conversations, by its admission."""
    with opened_pair(make_store) as (one, other):
        ended = one.answered("1")
        taken = one.acquire(one.admit("5"))
        runs = [taken, other.admit("2"), one.admit("4"), other.admit("3")]
        runs[2] = one.admit("6", joins="r4")
        other.cancel(other.admit("7"))

        for limit in LIMITS:
            found = list(_active(one.store, limit, (one.id, other.id)))
            expect(f"active runs by pages of {limit}", found, runs)
            assert ended not in found, "a run that has ended is told to be active"


def check_a_cursor_survives_its_run(make_store: MakeStore) -> None:
    """A scan goes on behind a run that has ended since its page was read."""
    for limit in (1, 2):
        with opened_pair(make_store) as (one, other):
            runs = [one.admit("1"), other.admit("1"), one.admit("2"), other.admit("2")]

            found = []
            for run in _active(one.store, limit, (one.id, other.id)):
                one.store.cancel_run(run.conversation_id, run.id)
                found.append(run)

            expect(f"runs by pages of {limit}", found, runs)


def check_a_run_that_comes_during_a_scan_is_found(make_store: MakeStore) -> None:
    """A run that is admitted behind the cursor is found by the same scan."""
    with opened_pair(make_store) as (one, other):
        runs = [one.admit("1"), one.admit("2")]
        scan = _active(one.store, 1, (one.id, other.id))

        found: list[Run] = []
        for run in scan:
            if not found:
                runs.append(other.admit("1"))
            found.append(run)

        expect("runs", found, runs)


def check_restored_runs_are_scanned(make_store: MakeStore) -> None:
    """Runs of a conversation that was restored are found like any others, by both scans."""
    with opened_pair(make_store) as (one, other):
        model = Conversation(AgentStore(MemoryDriver()), other.id)
        ended = model.answered("1")
        runs = [one.admit("1"), model.admit("2"), model.admit("3")]
        held = model.rows()

        other.driver.transaction(lambda transaction: transaction.restore(held))

        runs.append(one.admit("2"))
        found = list(_active(one.store, 1, (one.id, other.id)))
        expect("active runs", found, runs)
        scanned = [keyed.run for keyed in _ended(one.driver, FUTURE, 1, other.id)]
        expect("ended runs", scanned, [ended])


def check_a_key_is_not_used_again(make_store: MakeStore) -> None:
    """A later run has a higher key, also than runs that were forgotten: no cursor skips it."""
    with opened(make_store) as conversation:
        ended = conversation.cancel(conversation.admit("1"))
        first = list(_ended(conversation.driver, FUTURE, 1_000, conversation.id))
        conversation.driver.transaction(
            lambda transaction: transaction.forget(conversation.id, ended.id, limit=9)
        )

        later = conversation.cancel(conversation.admit("2"))

        second = list(_ended(conversation.driver, FUTURE, 1_000, conversation.id))
        expect("runs", [keyed.run for keyed in (*first, *second)], [ended, later])
        keys = [keyed.key for keyed in (*first, *second)]
        expect("keys", keys, sorted(set(keys)))


def check_ended_runs_are_scanned_in_order(make_store: MakeStore) -> None:
    """`Driver.scan_ended` gives the runs that ended before a moment, once each, by their keys."""
    with opened(make_store) as conversation:
        runs = [conversation.answered(key) for key in "321"]
        conversation.admit("4")
        bound = max(_ended_at(run) for run in runs)

        for limit in LIMITS:
            for before in (bound, bound + timedelta(microseconds=1), FUTURE):
                expected = [run for run in runs if _ended_at(run) < before]
                scanned = _ended(conversation.driver, before, limit, conversation.id)
                found = [keyed.run for keyed in scanned]
                expect(f"runs that ended before {before}, by {limit}", found, expected)


def _active(store: AgentStore, limit: int, ids: Collection[str]) -> Iterator[Run]:
    # Other conversations may be there: their runs are passed over.
    cursor = None
    while True:
        page = store.scan_recoverable(cursor=cursor, limit=limit)
        assert len(page.items) <= limit, f"{len(page.items)} runs in a page of {limit}"
        yield from [run for run in page.items if run.conversation_id in ids]
        assert page.next_cursor is None or page.next_cursor != cursor, "a page leads to itself"
        cursor = page.next_cursor
        if cursor is None:
            return


def _ended(
    driver: Driver, before: datetime, limit: int, conversation_id: str
) -> Iterator[KeyedRun]:
    cursor = 0
    while True:
        page = driver.scan_ended(before, cursor, limit)
        assert len(page.runs) <= limit, f"{len(page.runs)} runs in a page of {limit}"
        keys = [keyed.key for keyed in page.runs]
        expect("keys", keys, sorted(set(keys)))
        assert not keys or keys[0] > cursor, f"key {keys[0]} is not over the cursor {cursor}"
        yield from [one for one in page.runs if one.run.conversation_id == conversation_id]
        if len(keys) < limit:
            return
        cursor = keys[-1]


def _ended_at(run: Run) -> datetime:
    assert run.ended_at is not None, f"run {run.id!r} has not ended"
    return run.ended_at
