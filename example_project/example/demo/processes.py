"""A worker in a process of its own, which never outlives the one that started it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from example import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


class Event(NamedTuple):
    """A line that a worker has printed."""

    version: str
    revision: str
    fence: str
    what: str


class WorkerProcess:
    """`manage.py work` as a child process; used as a context manager, it is gone afterwards.

    Its standard input is a pipe that nobody writes to. Whatever ends this process, SIGKILL
    included, ends the pipe, and with it the worker.
    """

    def __init__(self, url: str, *arguments: str) -> None:
        """Start the worker.

        Args:
            url: of its database.
            arguments: of `manage.py work`.
        """
        command = [sys.executable, str(DIRECTORY / "manage.py"), "work", "--end-with-stdin"]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [*command, *arguments],
            env={**os.environ, "EXAMPLE_DATABASE_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the demo, which then ends its worker
        )
        self.pid = self._process.pid
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def events(self, seconds: float) -> Iterator[Event]:
        """Give what the worker does, as it does it, until it ends.

        Raises:
            TimeoutError: it is still there after so many seconds.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                message = f"the worker has neither gone on nor ended in {seconds:.0f} s"
                raise TimeoutError(message) from None
            if line is None:
                return
            yield Event(*line.rstrip("\n").split("\t", 3))

    def kill(self) -> int:
        """End the worker by SIGKILL if it is still there.

        Returns:
            The exit status; that of a killed process is minus the signal's number.
        """
        self._process.kill()
        return self._process.wait()

    def wait(self, seconds: float) -> int:
        """Give the exit status of a worker that ends by itself.

        Raises:
            TimeoutExpired: it is still there after so many seconds.
        """
        return self._process.wait(seconds)

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)
