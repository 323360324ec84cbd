"""Which events say that a run waits for a worker, and who is told; no queue of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core.events import InputAdmitted, RunChanged, RunEnded
from stitchkit_django.core.lifecycle import RunState

if TYPE_CHECKING:
    from stitchkit_django.core.driver import Dispatcher, Driver
    from stitchkit_django.core.events import Event


class Hints:
    """A publisher that hands each run to a dispatcher when a worker may have something to do.

    That is when the run was admitted, when it was queued again, and when the run before it ended.
    """

    def __init__(self, driver: Driver, dispatcher: Dispatcher) -> None:
        """Take where the queues are read, and who is told."""
        self._driver = driver
        self._dispatcher = dispatcher

    def __call__(self, event: Event) -> None:
        """Tell the dispatcher of the run that an event says is waiting, if it says so of one."""
        run_id = self._waiting(event)
        if run_id is not None:
            self._dispatcher(event.conversation_id, run_id)

    def __repr__(self) -> str:
        """Name the dispatcher, as a log of its failure does."""
        return f"Hints({self._dispatcher!r})"

    def _waiting(self, event: Event) -> str | None:
        match event:
            case InputAdmitted(run=run):
                # An input that joined a run has changed it; a new one has the revision 0.
                return run.id if run.revision == 0 else None
            case RunChanged(run=run):
                return run.id if run.state is RunState.QUEUED else None
            case RunEnded():
                first = self._driver.active_runs(event.conversation_id).runs[:1]
                return next((run.id for run in first if run.state is RunState.QUEUED), None)
            case _:
                return None
