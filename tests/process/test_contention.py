"""Processes that write at once: none loses a write, and none fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stitchkit_django import get_store
from stitchkit_django.core import RunState
from tests.core.steps import acquire, admit, checkpoint, end, view
from tests.model.invariants import check_sequence, check_snapshot
from tests.process.children import children

if TYPE_CHECKING:
    from collections.abc import Mapping

PROCESSES = 4
INPUTS = 100


def test_processes_that_admit_at_once_lose_no_input_and_end_no_run(
    alias: str, child_environment: Mapping[str, str]
) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))
    commands = [("admit_many", alias, f"process-{one}", str(INPUTS)) for one in range(PROCESSES)]

    with children(child_environment, *commands) as processes:
        assert [one.hear() for one in processes] == ["ready"] * PROCESSES
        for one in processes:
            one.tell()
        # The test's own process works on its run and reads all the while.
        kept = [run]
        snapshots = [store.load_snapshot("c")]
        while any(one.lives for one in processes):
            kept.append(checkpoint(store, kept[-1], f"So far {len(kept)}"))
            snapshots.append(store.load_snapshot("c"))
            check_snapshot(snapshots[-1])
            check_sequence(*snapshots[-2:])
        told = [json.loads(one.hear()) for one in processes]

    assert end(store, kept[-1]).state is RunState.COMPLETED
    assert [outcomes for _, outcomes in told] == [{"applied": INPUTS}] * PROCESSES
    versions = [version for some, _ in told for version in some]
    turns = [one.turn for one in store.list_active_runs("c")]
    assert sorted(versions) == turns
    assert len(set(turns)) == PROCESSES * INPUTS
    assert store.load_snapshot("c").version == len(turns) + 1 + view(store).run.revision
