"""Reads tell what was written, page by page, whatever happens in between."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    CorruptRecordError,
    HistoryPage,
    InvalidIdentifierError,
    InvalidValueError,
    RecoverablePage,
    RunView,
    Snapshot,
    paging,
)
from stitchkit_django.core.driver import Place
from tests.core.drivers import UnreadableDriver
from tests.core.steps import (
    abandon,
    acquire,
    admit,
    answer,
    answered,
    checkpoint,
    compact,
    end,
    history,
    run_of,
    view,
)
from tests.factories import MOMENT

if TYPE_CHECKING:
    from tests.core.clock import Clock


def pages(store: AgentStore, limit: int) -> list[list[str]]:
    """Page through a history from its end; give the ids of each page."""
    page = store.load_history("c", limit=limit)
    found = [[one.id for one in page.messages]]
    while page.before is not None:
        page = store.load_history("c", before=page.before, limit=limit)
        found.append([one.id for one in page.messages])
    return found


# ---------------------------------------------------------------- whole


def test_an_unknown_conversation_has_version_0_and_nothing(store: AgentStore) -> None:
    assert store.load_snapshot("c") == Snapshot(conversation_id="c", version=0)
    assert store.load_run("c", "r1") is None
    assert store.list_active_runs("c") == ()
    assert store.load_history("c") == HistoryPage(version=0)
    assert store.scan_recoverable() == RecoverablePage(moment=MOMENT)


def test_a_snapshot_holds_active_runs_and_those_that_an_active_answer_names(
    store: AgentStore,
) -> None:
    answered(store, "1")
    second = answered(store, "2")
    third = admit(store, "3")
    compact(store, "i-1", "a-r1")

    snapshot = store.load_snapshot("c")

    assert (snapshot.version, snapshot.turns) == (8, (1, 4, 4, 7))
    assert [one.id for one in snapshot.messages] == ["s", "i-2", "a-r2", "i-3"]
    assert snapshot.runs == (second, third)


def test_an_answer_stands_with_its_turn_though_it_came_after_the_next_input(
    store: AgentStore,
) -> None:
    first = acquire(store, admit(store, "1"))
    admit(store, "2")

    end(store, first)

    assert history(store) == ["i-1", "a-r1", "i-2"]


def test_a_run_is_read_with_its_answer_once_it_has_ended(store: AgentStore) -> None:
    run = checkpoint(store, acquire(store, admit(store)), "Hel")
    assert store.load_run("c", "r1") == RunView(snapshot_version=3, run=run)

    run = end(store, run)

    assert store.load_run("c", "r1") == RunView(
        snapshot_version=4, run=run, assistant=answer(store)
    )
    assert store.load_run("c", "r2") is None


def test_active_runs_are_listed_by_turn(store: AgentStore) -> None:
    runs = [admit(store, key) for key in "321"]
    abandon(store, runs.pop(1))

    assert store.list_active_runs("c") == tuple(runs)


# ---------------------------------------------------------------- history


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7, 1_000])
def test_a_history_is_paged_from_its_end_without_gap_or_repeat(
    store: AgentStore, limit: int
) -> None:
    for key in "123":
        answered(store, key)

    found = pages(store, limit)

    assert [one for page in reversed(found) for one in page] == history(store)
    assert all(len(page) == limit for page in found[:-1])
    assert 0 < len(found[-1]) <= limit


def test_pages_stay_whole_while_older_messages_are_compacted(store: AgentStore) -> None:
    for key in "1234":
        answered(store, key)
    newest = store.load_history("c", limit=2)

    compact(store, "i-1", "a-r1", "i-2", "a-r2")
    older = store.load_history("c", before=newest.before, limit=2)
    oldest = store.load_history("c", before=older.before, limit=2)

    assert [one.id for one in newest.messages] == ["i-4", "a-r4"]
    assert [one.id for one in older.messages] == ["i-3", "a-r3"]
    assert [one.id for one in oldest.messages] == ["s"]
    assert oldest.before is None
    assert (newest.version, oldest.version) == (12, 13)


def test_a_cursor_survives_the_compaction_of_the_message_that_it_names(
    store: AgentStore,
) -> None:
    for key in "123":
        answered(store, key)
    newest = store.load_history("c", limit=1)

    compact(store, "i-2", "a-r2", "i-3", "a-r3")

    older = store.load_history("c", before=newest.before)
    assert [one.id for one in older.messages] == ["i-1", "a-r1", "s"]


def test_an_absorption_may_show_an_input_again_in_an_older_page(store: AgentStore) -> None:
    first, second = acquire(store, admit(store, "1")), admit(store, "2")
    newest = store.load_history("c", limit=1)
    named = Absorption(run_id="r2", input_message_ids=second.input_message_ids)

    end(store, first, absorb=[named])

    older = store.load_history("c", before=newest.before)
    assert [one.id for one in newest.messages] == ["i-2"]
    assert [one.id for one in older.messages] == ["i-1", "i-2", "a-r1"]


# ---------------------------------------------------------------- recoverable runs


def test_a_scan_visits_each_active_run_of_every_conversation_once(
    store: AgentStore, clock: Clock
) -> None:
    expected = set()
    for conversation_id in ("XeLu", "XGeU", "a_z", "ab", "é"):
        expected.add(run_of(store.accept_input(conversation_id, "1", "x")).id)
    answered(store)
    clock.move(by=timedelta(seconds=1))

    found = []
    cursor = None
    while True:
        page = store.scan_recoverable(cursor=cursor, limit=2)
        assert page.moment == clock.moment
        found.append([run.id for run in page.items])
        cursor = page.next_cursor
        if cursor is None:
            break

    assert [len(ids) for ids in found] == [2, 2, 1]
    assert {one for ids in found for one in ids} == expected


def test_a_scan_goes_on_after_the_run_that_its_cursor_names_has_ended(store: AgentStore) -> None:
    for key in "1234":
        admit(store, key)
    page = store.scan_recoverable(limit=2)

    for run in page.items:
        store.cancel_run("c", run.id)

    rest = store.scan_recoverable(cursor=page.next_cursor, limit=2)
    assert [run.id for run in rest.items] == ["r3", "r4"]
    assert rest.next_cursor is None


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_scan_tells_once_of_a_run_that_it_can_not_read_and_goes_on_behind_it(
    limit: int,
) -> None:
    store = AgentStore(UnreadableDriver())
    for key in "123":
        admit(store, key)

    first = store.scan_recoverable(limit=limit)
    with pytest.raises(CorruptRecordError) as told:
        store.scan_recoverable(cursor=first.next_cursor, limit=limit)
    rest = store.scan_recoverable(cursor=told.value.next_cursor, limit=limit)

    assert [run.id for run in first.items] == ["r1"]
    assert [run.id for run in rest.items] == ["r3"]
    assert rest.next_cursor is None


def test_a_scan_tells_of_leases(store: AgentStore) -> None:
    run = acquire(store, admit(store), lease=timedelta(minutes=1))

    assert store.scan_recoverable().items == (run,)


# ---------------------------------------------------------------- limits and cursors


@pytest.mark.parametrize("limit", [0, -1, True, 1_001, 10**9, 10**30, 1.0, "10", None], ids=repr)
def test_a_page_has_1_to_1000_items(store: AgentStore, limit: Any) -> None:
    for read in (
        lambda: store.load_history("c", limit=limit),
        lambda: store.scan_recoverable(limit=limit),
    ):
        with pytest.raises(InvalidValueError) as refused:
            read()
        assert refused.value.path == "$.limit"


def history_cursors(store: AgentStore) -> tuple[str, str]:
    """Give a history's cursor and a scan's, of a store that has more than one page of each."""
    for key in "12":
        admit(store, key)
        store.accept_input("d", key, "x")
    before = store.load_history("c", limit=1).before
    cursor = store.scan_recoverable(limit=1).next_cursor
    assert before is not None
    assert cursor is not None
    return before, cursor


def test_a_cursor_is_good_for_the_read_that_gave_it_alone(store: AgentStore) -> None:
    before, cursor = history_cursors(store)
    others = store.load_history("d", limit=1).before

    for wrong in (cursor, others):
        with pytest.raises(InvalidValueError) as refused:
            store.load_history("c", before=wrong)
        assert refused.value.path == "$.before"
    with pytest.raises(InvalidValueError) as refused:
        store.scan_recoverable(cursor=before)
    assert refused.value.path == "$.cursor"


TURN_ALONE = paging.history_cursor("c", (1,))  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda cursor: cursor + "!", id="a character more"),
        pytest.param(lambda cursor: cursor + "\n", id="a line feed more"),
        pytest.param(lambda cursor: cursor[:-1], id="a character less"),
        pytest.param(lambda cursor: cursor.upper(), id="capitals"),
        pytest.param(lambda cursor: " " + cursor, id="a space before"),
        pytest.param(lambda cursor: re.sub(r"-\d", "-9", cursor, count=1), id="another place"),
        pytest.param(lambda cursor: re.sub("-", "-0", cursor, count=1), id="another spelling"),
        pytest.param(
            lambda cursor: re.sub(r"-\d", "-\u0661", cursor, count=1), id="digits of another script"
        ),
        pytest.param(lambda _: "", id="empty"),
        pytest.param(lambda _: "x" * 10_000, id="long"),
        pytest.param(lambda _: "\x00\ud83d", id="hostile"),
        pytest.param(lambda _: 7, id="a number"),
        pytest.param(lambda cursor: cursor.encode(), id="bytes"),
        pytest.param(lambda _: paging.recoverable_cursor(2**63), id="over a database's numbers"),
        pytest.param(lambda _: paging.history_cursor("c", Place(2**63, 0)), id="a turn over them"),
        pytest.param(lambda _: paging.history_cursor("c", Place(1, 2**63)), id="a slot over them"),
        pytest.param(lambda _: TURN_ALONE, id="a turn without its slot"),
    ],
)
def test_a_forged_cursor_is_refused(store: AgentStore, forge: Any) -> None:
    before, cursor = history_cursors(store)

    with pytest.raises(InvalidValueError) as refused:
        store.load_history("c", before=forge(before))
    assert refused.value.path == "$.before"
    with pytest.raises(InvalidValueError) as refused:
        store.scan_recoverable(cursor=forge(cursor))
    assert refused.value.path == "$.cursor"
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("conversation_id", ["a\x00b", "x" * 10_000, "", " c", None], ids=ascii)
def test_a_read_checks_the_ids_that_it_is_given(store: AgentStore, conversation_id: Any) -> None:
    for read in (
        lambda: store.load_snapshot(conversation_id),
        lambda: store.load_run(conversation_id, "r"),
        lambda: store.load_run("c", conversation_id),
        lambda: store.list_active_runs(conversation_id),
        lambda: store.load_history(conversation_id),
    ):
        with pytest.raises(InvalidIdentifierError):
            read()


def test_a_read_of_an_unknown_run_among_known_ones_finds_nothing(store: AgentStore) -> None:
    admit(store)

    assert store.load_run("c", "nobody") is None
    assert view(store, "r1").snapshot_version == 1
