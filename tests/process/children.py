"""Processes that a test starts, talks to and ends; none is left over."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SECONDS: Final = 120
"""How long a process may live; it is ended then, and the test fails."""
ROOT: Final = Path(__file__).parents[2]


class Child:
    """A process of `tests.process`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take a process that has just begun."""
        self._process = process

    def hear(self) -> str:
        """Wait for the next line that the process says; empty when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def tell(self) -> None:
        """Let the process go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    @property
    def lives(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process as a crash would: it can do nothing about it, nor after it."""
        assert self.lives
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait(SECONDS) == -signal.SIGKILL


@contextmanager
def children(environment: Mapping[str, str], *commands: Sequence[str]) -> Iterator[Sequence[Child]]:
    """Run a process for each command; none of them outlives the block, or its time."""
    with ExitStack() as stack:
        started = []
        for command in commands:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.process", *command],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            timer = Timer(SECONDS, process.kill)
            timer.start()
            stack.callback(timer.cancel)
            started.append(Child(process))
        yield started
