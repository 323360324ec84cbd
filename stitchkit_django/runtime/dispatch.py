"""Dispatchers: how a run comes to a worker; no task queue."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class _Waiting(threading.local):
    """The runs that a thread has yet to execute; None while it executes none."""

    runs: deque[tuple[str, str]] | None = None


class InlineDispatcher:
    """Executes a run at once, in the thread that committed: for tests, scripts and small sites.

    What an execution commits may have other runs dispatched. They wait until it has returned, so
    that a long queue is worked off one after another instead of one inside the other.
    """

    def __init__(self, execute: Callable[[str, str], object]) -> None:
        """Take what executes a run.

        Args:
            execute: called with the ids of the conversation and the run. It acquires the run, and
                does nothing where it doesn't get it.
        """
        self._execute = execute
        self._waiting = _Waiting()

    def __call__(self, conversation_id: str, run_id: str) -> None:
        """Execute a run, and what is dispatched meanwhile.

        Raises:
            Exception: what an execution has raised, once all that waited were executed; an
                ExceptionGroup where several have.
        """
        waiting = self._waiting
        if waiting.runs is not None:
            waiting.runs.append((conversation_id, run_id))
            return
        waiting.runs = deque([(conversation_id, run_id)])
        try:
            errors = self._work_off(waiting.runs)
        finally:
            waiting.runs = None
        if len(errors) > 1:
            msg = f"{len(errors)} executions failed"
            raise ExceptionGroup(msg, errors)
        if errors:
            raise errors[0]

    def _work_off(self, runs: deque[tuple[str, str]]) -> list[Exception]:
        errors: list[Exception] = []
        while runs:
            conversation_id, run_id = runs.popleft()
            try:
                self._execute(conversation_id, run_id)
            except Exception as error:  # noqa: BLE001 - one that fails must not keep the next from its turn
                errors.append(error)
        return errors
