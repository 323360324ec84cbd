"""Workers that are killed at random, over and over: `python -m tests.process.crew ALIAS …`.

They are forked from a process that has no connection, so that many can live and die in a short
time; each is killed by SIGKILL, wherever it is. In the end one is left alone to finish.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import django

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core import AgentStore, Run

WORKERS: Final = 4
LEASE: Final = timedelta(seconds=0.15)
FINISH_SECONDS: Final = 60
"""How long the last one may take."""


def supervise(using: str, seed: str, seconds: str, journal: str, *conversations: str) -> None:
    """Keep four workers, kill one now and then, and let another finish the work."""
    chance = random.Random(seed)  # noqa: S311 - a test that can be run again
    crew = [_fork(using, chance.random(), journal, conversations) for _ in range(WORKERS)]
    end = time.monotonic() + float(seconds)
    kills = 0
    while time.monotonic() < end:
        # When they are killed is what this is about, so it is left to time.
        time.sleep(chance.uniform(0.01, 0.1))
        _kill(crew.pop(chance.randrange(len(crew))))
        kills += 1
        crew.append(_fork(using, chance.random(), journal, conversations))
    for pid in crew:
        _kill(pid)
    last = _fork(using, chance.random(), journal, conversations, finishes=True)
    _, status = os.waitpid(last, 0)
    sys.stdout.write(f"{kills}\n")
    sys.exit(os.waitstatus_to_exitcode(status))


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        # It had ended by itself: of an error, which stands on stderr.
        sys.exit(3)


def _fork(
    using: str,
    seed: float,
    journal: str,
    conversations: tuple[str, ...],
    *,
    finishes: bool = False,
) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            Worker(using, seed, Path(journal), conversations).work(finishes=finishes)
        except BaseException:  # noqa: BLE001 - a child must not go on as its parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return pid


class Worker:
    """Takes runs, answers some of them, and is slow at times."""

    def __init__(
        self, using: str, seed: float, journal: Path, conversations: tuple[str, ...]
    ) -> None:
        """Take where it works, and what it notes what it has done in."""
        from stitchkit_django import get_store  # noqa: PLC0415 - after Django's set-up

        self._store: AgentStore = get_store(using)
        self._chance = random.Random(seed)  # noqa: S311 - likewise
        self._conversations = conversations
        # One write a line, which is whole even of a process that is killed.
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._name = f"worker-{os.getpid()}"

    def work(self, *, finishes: bool) -> None:
        """Work until killed, or until nothing is left to do."""
        end = time.monotonic() + FINISH_SECONDS
        while not finishes or list(self._left()):
            if finishes and time.monotonic() > end:
                msg = f"still active: {list(self._left())}"
                raise TimeoutError(msg)
            where = self._chance.choice(self._conversations)
            if finishes:
                where = next(self._left(), where)
            self._visit(where)

    def _left(self) -> Iterator[str]:
        page = self._store.scan_recoverable()
        yield from (run.conversation_id for run in page.items)

    def _visit(self, where: str) -> None:
        runs = self._store.list_active_runs(where)
        if not runs:
            self._compact(where)
        elif runs[0].is_acquired:
            if self._chance.random() < 0.05:
                self._store.request_interrupt(where, runs[0].id)
        else:
            self._answer(where, runs[0], runs[1:])

    def _answer(self, where: str, run: Run, behind: tuple[Run, ...]) -> None:
        from stitchkit_django.core import Absorption, Applied  # noqa: PLC0415 - likewise

        owner: dict[str, Any] = {"owner_id": self._name}
        outcome = self._store.acquire_run(
            where, run.id, expected_revision=run.revision, lease=LEASE, **owner
        )
        for step in range(self._chance.randrange(4)):
            if not isinstance(outcome, Applied) or outcome.run is None:
                return
            if step == 0:
                self._note("acquired", where, outcome.run)
            if self._chance.random() < 0.05:
                # Longer than its lease: another may have the run by now.
                time.sleep(2 * LEASE.total_seconds())
            outcome = self._store.checkpoint_run(
                where,
                run.id,
                expected_revision=outcome.run.revision,
                fencing_token=outcome.run.fencing_token,
                parts=f"So far {step}",
                **owner,
            )
        view = self._store.load_run(where, run.id)
        if view is None or view.run.owner_id != self._name:
            return
        absorb = [
            Absorption(run_id=one.id, input_message_ids=one.input_message_ids)
            for one in behind
            if self._chance.random() < 0.2
        ]
        stops = view.run.state == "interrupt_requested"
        ended = self._store.commit_terminal(
            where,
            run.id,
            expected_revision=view.run.revision,
            fencing_token=view.run.fencing_token,
            parts="Done.",
            reason="interrupted" if stops else "success",
            absorb=() if stops else absorb,
            **owner,
        )
        if isinstance(ended, Applied) and ended.run is not None:
            self._note("ended", where, ended.run)
        if self._chance.random() < 0.3:
            self._compact(where)

    def _compact(self, where: str) -> None:
        snapshot = self._store.load_snapshot(where)
        active = {run.turn for run in snapshot.runs if run.is_active}
        first = min(active, default=snapshot.version + 1)
        ended = [
            message.id
            for message, turn in zip(snapshot.messages, snapshot.turns, strict=True)
            if turn < first
        ]
        if len(ended) > 1:
            self._store.compact_history(
                where,
                expected_version=snapshot.version,
                message_ids=ended,
                summary_parts="In short.",
            )

    def _note(self, what: str, where: str, run: Run) -> None:
        os.write(self._journal, f"{what} {where} {run.id} {run.fencing_token}\n".encode())


if __name__ == "__main__":
    django.setup()
    supervise(*sys.argv[1:])
