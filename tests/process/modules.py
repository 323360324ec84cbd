"""Modules that a test runs as processes of their own, with what they say on stdout and stderr."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, NamedTuple

from tests.process.children import ROOT, SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Ended(NamedTuple):
    """A process that has ended."""

    status: int
    out: str
    err: str


@contextmanager
def module(environment: Mapping[str, str], *command: str) -> Iterator[subprocess.Popen[str]]:
    """Run `python -m` with a module; it outlives neither the block nor its time."""
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        timer = Timer(SECONDS, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            process.kill()


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process to end."""
    out, err = process.communicate(timeout=SECONDS)
    return Ended(process.returncode, out, err)


def managed(environment: Mapping[str, str], *command: str) -> Ended:
    """Run a management command to its end."""
    with module(environment, "django", *command) as process:
        return ended(process)
