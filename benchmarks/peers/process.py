"""The other side of a worker: it is started, told what to do, and asked how long it took."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

from benchmarks.peers.environments import python_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]


class PeerFailedError(Exception):
    """A worker has ended before it was told to; what it said went to standard error."""


class Kind(NamedTuple):
    """A peer, and the program that drives it."""

    name: str
    module: str
    requirements: str | None = None
    """Its environment; None: this one."""
    packages: tuple[str, ...] = ()
    """Whose versions a report names."""
    windows: tuple[int | None, ...] = (100, None)
    """What it can read of a history: so many of the newest messages, all of them."""
    arguments: tuple[str, ...] = ()

    def interpreter(self, cache: Path) -> str:
        """Give the interpreter that runs it.

        Raises:
            EnvironmentMissingError: it can't be installed.
        """
        return str(python_of(self.requirements, cache)) if self.requirements else sys.executable


class Worker:
    """A running worker."""

    def __init__(self, kind: Kind, process: subprocess.Popen[str]) -> None:
        """Take the process, whose standard streams are pipes."""
        self.kind = kind
        self._process = process
        self._commands = cast("IO[str]", process.stdin)
        self._answers = cast("IO[str]", process.stdout)

    def told(self, **command: str | int | None) -> tuple[float, Any]:
        """Give a command; give the seconds that it took, and what it found.

        Raises:
            PeerFailedError: the worker has ended.
        """
        try:
            self._commands.write(json.dumps(command) + "\n")
            self._commands.flush()
        except BrokenPipeError:
            raise self._failure() from None
        return self.answer()

    def answer(self) -> tuple[float, Any]:
        """Give the answer to the last command, or to being started.

        Raises:
            PeerFailedError: the worker has ended.
        """
        line = self._answers.readline()
        if not line:
            raise self._failure()
        answer = json.loads(line)
        return answer["seconds"], answer["found"]

    def _failure(self) -> PeerFailedError:
        status = self._process.wait()
        msg = f"the worker of {self.kind.name} has ended (status {status}); what it said is above"
        return PeerFailedError(msg)


@contextmanager
def started(kind: Kind, python: str, url: str) -> Iterator[Worker]:
    """Run a worker while the block lasts.

    Raises:
        PeerFailedError: it can't begin.
    """
    command = [python, "-m", kind.module, url, *kind.arguments]
    with subprocess.Popen(  # noqa: S603 - a program of ours
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt is the command's own business
    ) as process:
        try:
            worker = Worker(kind, process)
            worker.answer()
            yield worker
        finally:
            process.kill()
