"""How a signal ends a command: after the batch in hand, and at the second one at once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether a signal has asked the command to end, and which one."""

    def __init__(self) -> None:
        """Begin without one."""
        self.signal: signal.Signals | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Note the first signal, and leave a second one to the system, which ends the process.

        So it does even where Python waits for a database and would not come to a handler.
        """
        self.signal = signal.Signals(number)
        for ending in ENDING:
            signal.signal(ending, signal.SIG_DFL)

    @property
    def status(self) -> int | None:
        """The exit status of a process that the signal has ended; None without one."""
        return None if self.signal is None else 128 + self.signal


@contextmanager
def noted() -> Iterator[Stop]:
    """Note the signals that would end the process, while the block runs."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may take signals; `call_command` can be called from any.
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in ENDING}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
