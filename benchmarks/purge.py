"""Batches of a purge of ended runs, in conversations whose history has been compacted."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import stitchkit_django
from benchmarks.databases import ALIASES
from benchmarks.filling import fill
from benchmarks.report import Measurement

if TYPE_CHECKING:
    from benchmarks.databases import Database
    from benchmarks.plan import Plan

BATCH_SIZE: Final = 500
_CONVERSATIONS: Final = 2


def measure(database: Database, plan: Plan) -> list[Measurement]:
    """Measure each transaction that deletes, of as many runs as the longest conversation has."""
    # Models can't be imported before Django is set up.
    from stitchkit_django.retention import purge_runs  # noqa: PLC0415

    fill(database, _CONVERSATIONS, max(plan.lengths), archived=True)
    database.settle()
    section = f"purge_runs, batches of {BATCH_SIZE} rows"
    one = Measurement(section, "batch", f"store ({plan.options[0]})")
    store = stitchkit_django.get_store(ALIASES[plan.options[0]])
    start = time.perf_counter()
    for step in purge_runs(store, timedelta(0), batch_size=BATCH_SIZE):
        now = time.perf_counter()
        if step.error is not None:
            msg = f"a purge that is measured must succeed, but failed: {step.error}"
            raise RuntimeError(msg)
        if step.runs:
            one.samples.seconds.append(now - start)
        start = time.perf_counter()
    return [one] if one.samples.seconds else []
