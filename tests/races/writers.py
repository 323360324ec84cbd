"""Writers that work on one conversation at once, and the history that their writes must make."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    Applied,
    MemoryDriver,
    MessageStatus,
    Run,
    RunState,
    ToolCallPart,
)
from tests.core.steps import owned
from tests.model.views import masked
from tests.races.threads import SECONDS

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable

    from stitchkit_django.core import Snapshot

LONGEST: Final = 12
"""Messages in the active history, about: then some are compacted."""
MOST_RUNS: Final = 4
CALL: Final = ToolCallPart(call_id="call", tool_name="search", input={})


class Call(NamedTuple):
    """An operation of the store."""

    method: str
    arguments: dict[str, Any]

    def on(self, store: AgentStore) -> object:
        """Make it."""
        return getattr(store, self.method)("c", **self.arguments)


class Writer:
    """Does whatever can be done next, and keeps what was written."""

    def __init__(self, store: AgentStore, name: str) -> None:
        """Take the store to write to, and a name for ids and as owner."""
        self._store = store
        self._name = name
        # Which operation comes next differs between writers, and not between runs of the test.
        self._random = random.Random(name)  # noqa: S311 - nothing is secret
        self._count = 0

    def write(self, begin: threading.Barrier, rounds: int) -> dict[int, Call]:
        """Make one call a round; give those that were applied by the version that they wrote."""
        written = {}
        try:
            for _ in range(rounds):
                begin.wait(SECONDS)
                call = self._next()
                outcome = call.on(self._store)
                if isinstance(outcome, Applied):
                    written[outcome.version] = call
        except BaseException:
            begin.abort()
            raise
        return written

    def _next(self) -> Call:
        self._count += 1
        active = self._store.list_active_runs("c")
        if not active:
            return self._admission()
        first = active[0]
        chance = self._random.random()
        if chance < 0.2 and len(active) < MOST_RUNS:
            return self._admission(self._random.choice((None, active[-1].id)))
        if chance > 0.85:
            return self._compaction() or self._admission()
        if first.state is RunState.QUEUED:
            return self._of_queued(first)
        return self._of_acquired(first, active[1:])

    def _admission(self, joins: str | None = None) -> Call:
        identity = f"{self._name}-{self._count}"
        arguments = {
            "idempotency_key": identity,
            "parts": "Hello?",
            "input_message_id": f"i-{identity}",
            "run_id": f"r-{identity}",
            "assistant_message_id": f"a-{identity}",
            "coalesce_into": joins,
        }
        return Call("accept_input", arguments)

    def _of_queued(self, run: Run) -> Call:
        revision = {"run_id": run.id, "expected_revision": run.revision}
        if self._random.random() < 0.1:
            return Call("cancel_run", revision)
        lease = self._random.choice((None, timedelta(hours=1)))
        return Call("acquire_run", {**revision, "owner_id": self._name, "lease": lease})

    def _of_acquired(self, run: Run, queued: Iterable[Run]) -> Call:
        claim = {"run_id": run.id, **owned(run)}
        parts = self._random.choice((f"{self._name}-{self._count}", [CALL]))
        match self._random.randrange(6):
            case 0:
                return Call("request_interrupt", {"run_id": run.id})
            case 1:
                return Call("recover_run", self._recovery(run))
            case 2:
                absorb = [
                    Absorption(run_id=one.id, input_message_ids=one.input_message_ids)
                    for one in queued
                ]
                end = {"parts": parts, "reason": "success", "absorb": absorb}
                return Call("commit_terminal", {**claim, **end})
            case 3:
                reason = self._random.choice(("interrupted", "timeout", "superseded"))
                return Call("commit_terminal", {**claim, "parts": parts, "reason": reason})
            case _:
                return Call("checkpoint_run", {**claim, "parts": parts})

    def _recovery(self, run: Run) -> dict[str, Any]:
        action = self._random.choice(("requeue", "abandon"))
        revision = {"run_id": run.id, "expected_revision": run.revision}
        return {**revision, "action": action, "replay_safe": True}

    def _compaction(self) -> Call | None:
        snapshot = self._store.load_snapshot("c")
        if len(snapshot.messages) < LONGEST:
            return None
        ids = []
        for message in snapshot.messages[1 : LONGEST // 2]:
            if message.status is MessageStatus.STREAMING:
                break
            ids.append(message.id)
        if not ids:
            return None
        arguments = {
            "expected_version": snapshot.version,
            "message_ids": ids,
            "summary_parts": "In short.",
            "summary_id": f"s-{self._name}-{self._count}",
        }
        return Call("compact_history", arguments)


def check_versions(snapshots: Iterable[Snapshot], written: dict[int, Call]) -> None:
    """Check that each snapshot is what the writes up to its version make of a memory driver.

    Args:
        snapshots: as readers took them.
        written: each call by the version that it wrote.

    Raises:
        AssertionError: a version was written twice or never, or a snapshot is another one.
    """
    assert sorted(written) == list(range(1, len(written) + 1))
    model = AgentStore(MemoryDriver())
    states = {0: masked(model.load_snapshot("c"))}
    for version in sorted(written):
        outcome = written[version].on(model)
        assert isinstance(outcome, Applied), f"version {version} is not to be had: {outcome}"
        states[version] = masked(model.load_snapshot("c"))
    for snapshot in snapshots:
        expected, found = states[snapshot.version], masked(snapshot)
        assert found == expected, f"version {snapshot.version}: {found}, and not {expected}"
