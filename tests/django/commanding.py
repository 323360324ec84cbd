"""Runs management commands as their users do: in this process, and in one of their own."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management import CommandError, call_command

from tests.django.commands import Ran

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
SECONDS = 120


def called(name: str, *arguments: str, **options: Any) -> Ran:
    """Call a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    status, said = 0, ""
    try:
        call_command(name, *arguments, stdout=out, stderr=err, **options)
    except CommandError as error:
        status, said = error.returncode, f"CommandError: {error}\n"
    return Ran(status, out.getvalue(), err.getvalue() + said)


def ran(environment: Mapping[str, str], name: str, *arguments: str, stdin: bytes = b"") -> Ran:
    """Run a command in a process of its own; what it says is read as UTF-8."""
    done = subprocess.run(
        [sys.executable, "-m", "django", name, *arguments],
        cwd=ROOT,
        env=dict(environment),
        input=stdin,
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def started(
    environment: Mapping[str, str], name: str, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a process of its own, which doesn't outlive the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "django", name, *arguments],
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
