"""A snapshot is the conversation as of one version, whatever is written while it is read."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from stitchkit_django import get_store
from stitchkit_django.core import AgentStore, RunState
from stitchkit_django.driver import DjangoDriver
from tests.core.steps import acquire, admit, checkpoint, end
from tests.model.invariants import check_sequence, check_snapshot
from tests.races.threads import SECONDS, workers
from tests.races.writers import Writer, check_versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core.driver import ConversationView

WRITERS = 4
SNAPSHOTS = 1_000
ROUNDS = 100


def test_a_snapshot_is_never_torn_by_writers(alias: str) -> None:
    store = get_store(alias)
    # In rounds, since on SQLite writers and a reader that never pause starve each other.
    begin = threading.Barrier(WRITERS + 1)
    snapshots = [store.load_snapshot("c")]

    with workers(WRITERS) as threads:
        writers = [Writer(store, f"writer-{number}") for number in range(WRITERS)]
        writing = [threads.start(partial(one.write, begin, ROUNDS)) for one in writers]
        try:
            for _ in range(ROUNDS):
                begin.wait(SECONDS)
                for _ in range(SNAPSHOTS // ROUNDS):
                    snapshots.append(store.load_snapshot("c"))
                    check_snapshot(snapshots[-1])
                    check_sequence(*snapshots[-2:])
        except BaseException:
            # Not at the good end: a writer may not have left the last round's barrier yet.
            begin.abort()
            raise
        written = [future.result(SECONDS) for future in writing]

    calls = {version: call for some in written for version, call in some.items()}
    assert len(calls) == sum(map(len, written)), "a version was written twice"
    check_versions([*snapshots, store.load_snapshot("c")], calls)
    assert len({snapshot.version for snapshot in snapshots}) > ROUNDS


class TornDriver(DjangoDriver):
    """Takes a snapshot's messages and its runs by two statements, and lets a writer between."""

    def __init__(self, using: str, between: Callable[[], object]) -> None:
        super().__init__(using)
        self._between = between

    def snapshot(self, conversation_id: str) -> ConversationView:
        """Read twice."""
        earlier = super().snapshot(conversation_id)
        self._between()
        later = super().snapshot(conversation_id)
        return type(later)(head=later.head, messages=earlier.messages, runs=later.runs)


def test_a_snapshot_of_two_statements_would_be_seen_to_be_torn(alias: str) -> None:
    store = get_store(alias)
    run = checkpoint(store, acquire(store, admit(store)), "So far")
    torn = AgentStore(TornDriver(alias, partial(end, store, run)))

    with pytest.raises(AssertionError, match="its run ended"):
        check_snapshot(torn.load_snapshot("c"))

    check_snapshot(store.load_snapshot("c"))
    assert store.load_snapshot("c").runs[0].state is RunState.COMPLETED
