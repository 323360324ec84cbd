"""Which runs may go is decided by what they are and what holds them, and by the horizon."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import AgentStore, InvalidValueError, MemoryDriver
from stitchkit_django.core.keys import KeyPage, PortKeys
from stitchkit_django.core.operations import Absorption
from stitchkit_django.core.retention import Kept, RetainedRun, kept_because
from tests.core.drivers import UnreadableDriver
from tests.core.steps import acquire, admit, answered, compact, end, view
from tests.factories import MOMENT

if TYPE_CHECKING:
    from tests.core.clock import Clock

TICK = timedelta(microseconds=1)
OLD = RetainedRun(created_at=MOMENT - TICK, ended_at=MOMENT - TICK)


def retained(**fields: Any) -> RetainedRun:
    return RetainedRun(**({"created_at": MOMENT - TICK, "ended_at": MOMENT - TICK} | fields))


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        (OLD, None),
        (retained(ended_at=MOMENT), Kept.RECENT),
        (retained(ended_at=None), Kept.ACTIVE),
        (retained(ended_at=None, in_history=True), Kept.ACTIVE),
        (retained(created_at=MOMENT, ended_at=None), Kept.RECENT),
        (retained(in_history=True), Kept.IN_HISTORY),
        (retained(absorbed=(OLD, OLD)), None),
        (retained(absorbed=(OLD, retained(ended_at=MOMENT))), Kept.ABSORBER),
        (retained(absorbed=(retained(ended_at=None),)), Kept.ABSORBER),
        (retained(absorbed=(retained(in_history=True),)), Kept.ABSORBER),
        (retained(in_history=True, absorbed=(retained(ended_at=MOMENT),)), Kept.IN_HISTORY),
    ],
)
def test_a_run_stays_for_the_first_cause_that_holds(run: RetainedRun, cause: Kept | None) -> None:
    assert kept_because(run, MOMENT) is cause


@pytest.mark.parametrize("field", ["created_at", "ended_at"])
def test_moments_are_checked(field: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        retained(**{field: MOMENT.replace(tzinfo=None)})

    assert refused.value.path == f"$.{field}"


# ---------------------------------------------------------------- keys, by the ports


def pages(keys: PortKeys, limit: int) -> list[KeyPage]:
    found = [keys.runs(0, limit)]
    while (cursor := found[-1].next_cursor) is not None:
        found.append(keys.runs(cursor, limit))
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_pages_give_active_and_ended_runs_once_and_in_order(
    store: AgentStore, driver: MemoryDriver, limit: int
) -> None:
    for key in "135":
        answered(store, key)
    for key in "24":
        admit(store, key)

    found = pages(PortKeys(driver), limit)

    runs = [run for page in found for run in page.runs]
    assert [run.run_id for run in runs] == ["r1", "r3", "r5", "r2", "r4"]
    assert [run.ended_at is None for run in runs] == [False, False, False, True, True]
    assert max(len(page.runs) for page in found) <= limit


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_a_run_that_can_not_be_read_is_left_out_and_hides_none(limit: int) -> None:
    driver = UnreadableDriver()
    store = AgentStore(driver)
    for key in "1234":
        admit(store, key)
    for ended in ("r3", "r1"):
        store.cancel_run("c", ended)

    found = pages(PortKeys(driver), limit)

    assert [run.run_id for page in found for run in page.runs] == ["r1", "r3", "r4"]


def test_ties_tell_what_holds_a_run(store: AgentStore, driver: MemoryDriver) -> None:
    run, joined, queued = admit(store, "1"), admit(store, "2"), admit(store, "3")
    absorb = [
        Absorption(run_id=one.id, input_message_ids=one.input_message_ids)
        for one in (joined, queued)
    ]
    end(store, acquire(store, run), absorb=absorb)
    keys = PortKeys(driver)

    first, *others = keys.ties(keys.runs(0, 9).runs)
    compact(store, "i-1", "i-2", "i-3", "a-r1")
    (compacted, *_) = keys.ties(keys.runs(0, 9).runs)

    assert (first.facts.in_history, compacted.facts.in_history) == (True, False)
    assert [one.run_id for one in first.absorbed] == ["r2", "r3"]
    assert len(first.facts.absorbed) == 2
    assert [tie.facts.absorbed for tie in others] == [(), ()]
    assert {tie.receipts for tie in (first, *others)} == {1}


def test_a_run_with_the_id_of_one_that_is_gone_is_not_that_one(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    answered(store)
    compact(store, "i-1", "a-r1")
    keys = PortKeys(driver)
    runs = keys.runs(0, 9).runs
    driver.transaction(lambda current: keys.delete(current, keys.receipts(runs)))
    clock.move(by=TICK)
    end(store, acquire(store, admit(store, input_message_id="i-2", assistant_message_id="a-2")))

    found = keys.receipts(runs)

    assert found == {}
    assert view(store).run.ended_at == MOMENT + TICK


def test_nothing_is_tied_in_an_unknown_conversation(driver: MemoryDriver) -> None:
    store = AgentStore(MemoryDriver())
    answered(store)
    runs = PortKeys(store.driver).runs(0, 9).runs

    assert PortKeys(driver).ties(runs) == []
