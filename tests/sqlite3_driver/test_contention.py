"""Threads that write one conversation at once: each write is there, whole, in one order."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from stitchkit_django.core import AgentStore
from tests.model.invariants import check_snapshot
from tests.races.threads import SECONDS, workers
from tests.races.writers import Writer, check_versions
from tests.sqlite3_driver import SQLiteDriver

if TYPE_CHECKING:
    from pathlib import Path

WRITERS = 4
ROUNDS = 30


def test_what_threads_wrote_is_what_one_would_have_written(tmp_path: Path) -> None:
    store = AgentStore(SQLiteDriver(tmp_path / "conversations.sqlite3"))
    begin = threading.Barrier(WRITERS + 1)
    snapshots = []

    with workers(WRITERS) as threads:
        writers = [Writer(store, f"writer-{number}") for number in range(WRITERS)]
        writing = [threads.start(partial(one.write, begin, ROUNDS)) for one in writers]
        try:
            for _ in range(ROUNDS):
                begin.wait(SECONDS)
                snapshots.append(store.load_snapshot("c"))
                check_snapshot(snapshots[-1])
        except BaseException:
            begin.abort()
            raise
        written = [future.result(SECONDS) for future in writing]

    calls = {version: call for some in written for version, call in some.items()}
    assert len(calls) == sum(map(len, written)), "a version was written twice"
    check_versions([*snapshots, store.load_snapshot("c")], calls)
    assert len(calls) > ROUNDS
