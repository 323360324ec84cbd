"""Laws of the reads: runs, active runs, pages and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core import MessageStatus, RunState
from stitchkit_django.testing.claims import expect
from stitchkit_django.testing.conversation import opened, opened_pair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core import Message
    from stitchkit_django.testing.conversation import Conversation, MakeStore


def check_a_live_run_is_loaded_without_an_answer(make_store: MakeStore) -> None:
    """A run that has not ended is read as it was written last, and without an answer."""
    with opened(make_store) as conversation:
        written = [conversation.admit()]
        views = [conversation.view()]
        written.append(conversation.acquire(written[-1]))
        views.append(conversation.view())
        written.append(conversation.checkpoint(written[-1], metadata={"step": 1}))
        views.append(conversation.view())

        expect("runs", [view.run for view in views], written)
        expect("answers", [view.assistant for view in views], [None, None, None])
        expect("versions", [view.snapshot_version for view in views], [1, 2, 3])


def check_an_ended_run_is_loaded_with_its_answer(make_store: MakeStore) -> None:
    """A run that has ended is read with its answer, whatever else has happened since."""
    with opened(make_store) as conversation:
        ended = conversation.end(conversation.acquire(conversation.admit("1")), detail="done")
        answer = conversation.message("a-r1")
        conversation.answered("2")

        view = conversation.view("r1")

        expect("run", view.run, ended)
        expect("answer", view.assistant, answer)
        expect("status", answer.status, MessageStatus.COMPLETED)
        expect("version", view.snapshot_version, 6)


def check_an_unknown_run_is_not_loaded(make_store: MakeStore) -> None:
    """A run that isn't there is None, in a conversation that is there and in one that isn't."""
    with opened_pair(make_store) as (conversation, empty):
        run = conversation.admit()

        expect("run that is there", conversation.view().run, run)
        expect("run", conversation.store.load_run(conversation.id, "r2"), None)
        expect("run of an empty conversation", empty.store.load_run(empty.id, "r1"), None)
        expect("active runs", empty.store.list_active_runs(empty.id), ())
        expect("version", empty.version, 0)
        expect("history", empty.history(), [])
        page = empty.store.load_history(empty.id)
        expect("page", (page.version, page.messages, page.before), (0, (), None))


def check_a_run_is_of_one_conversation(make_store: MakeStore) -> None:
    """A run is not found by the id of another conversation."""
    with opened_pair(make_store) as (conversation, other):
        run = conversation.admit("1")
        other.admit("2")

        expect("run", other.store.load_run(other.id, run.id), None)
        expect("run of its own", conversation.view().run, run)


def check_active_runs_are_listed_by_turn(make_store: MakeStore) -> None:
    """Active runs come in the order of their inputs, and leave the list as they end."""
    with opened(make_store) as conversation:
        runs = [conversation.admit(key) for key in ("2", "3", "1")]
        store = conversation.store
        expect("active runs", store.list_active_runs(conversation.id), tuple(runs))

        taken = conversation.acquire(runs[0])
        conversation.cancel(runs[1])
        expect("one less", store.list_active_runs(conversation.id), (taken, runs[2]))

        conversation.end(taken)
        expect("one left", store.list_active_runs(conversation.id), (runs[2],))
        conversation.abandon(runs[2])
        expect("none", store.list_active_runs(conversation.id), ())


def check_pages_make_up_the_history(make_store: MakeStore) -> None:
    """The pages of a history, of whatever size, are the history."""
    with opened(make_store) as conversation:
        for key in "123":
            conversation.answered(key)
        conversation.admit("4", joins=conversation.admit("5").id)
        snapshot = conversation.store.load_snapshot(conversation.id)

        for limit in (1, 3, 8, 9):
            pages = list(_pages(conversation, limit))
            sizes = {len(page) for page in pages[:-1]} - {limit}
            expect(f"sizes of pages but {limit}", sizes, set())
            found = [message for page in reversed(pages) for message in page]
            expect(f"pages of {limit}", found, list(snapshot.messages))


def check_pages_are_stable_under_compaction(make_store: MakeStore) -> None:
    """A walk over the pages goes on where it was while the history before it is compacted."""
    with opened(make_store) as conversation:
        for key in "1234":
            conversation.answered(key)
        # After the first page the message that its cursor names is compacted, among others.
        ranges = [("a-r2", "i-3", "a-r3"), ("i-1", "a-r1")]
        found = []

        for page in _pages(conversation, 3):
            found.append([message.id for message in page])
            if ranges:
                conversation.compact(*ranges.pop(0), summary_id=f"s{len(ranges) + 1}")

        pages = [["a-r3", "i-4", "a-r4"], ["a-r1", "i-2", "s2"], ["s1"]]
        expect("pages", found, pages)


def check_a_snapshot_is_of_the_latest_version(make_store: MakeStore) -> None:
    """After each write a snapshot has its version, its message and its run, and no others."""
    with opened(make_store) as conversation:
        run = conversation.admit("1")
        _check_snapshot(conversation, 1, {"r1": RunState.QUEUED}, ["i-1"])
        run = conversation.acquire(run)
        _check_snapshot(conversation, 2, {"r1": RunState.RUNNING}, ["i-1"])
        run = conversation.checkpoint(run)
        _check_snapshot(conversation, 3, {"r1": RunState.RUNNING}, ["i-1", "a-r1"])
        conversation.end(run)
        _check_snapshot(conversation, 4, {"r1": RunState.COMPLETED}, ["i-1", "a-r1"])
        conversation.admit("2")
        states = {"r1": RunState.COMPLETED, "r2": RunState.QUEUED}
        _check_snapshot(conversation, 5, states, ["i-1", "a-r1", "i-2"])
        conversation.compact("a-r1")
        # A run that has ended is told as long as the active history names it.
        _check_snapshot(conversation, 6, {"r2": RunState.QUEUED}, ["i-1", "s", "i-2"])


def _pages(conversation: Conversation, limit: int) -> Iterator[tuple[Message, ...]]:
    before = None
    while True:
        page = conversation.store.load_history(conversation.id, before=before, limit=limit)
        yield page.messages
        assert page.before is None or page.before != before, "a page is its own older one"
        before = page.before
        if before is None:
            return


def _check_snapshot(
    conversation: Conversation, version: int, states: dict[str, RunState], history: list[str]
) -> None:
    snapshot = conversation.store.load_snapshot(conversation.id)
    expect("version of the snapshot", snapshot.version, version)
    expect("runs of the snapshot", {run.id: run.state for run in snapshot.runs}, states)
    expect("messages of the snapshot", [message.id for message in snapshot.messages], history)
    for run in snapshot.runs:
        expect(f"run {run.id}", run, conversation.view(run.id).run)
