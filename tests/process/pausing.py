"""A management command that stops where it is told to: `python -m tests.process.pausing …`.

It says on stderr that it has come there, and goes on when a line comes on stdin.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import django
from django.core.management import execute_from_command_line
from django.db import connections, transaction

if TYPE_CHECKING:
    from collections.abc import Callable

COMMITTED: Final = "committed"
"""Instead of a pattern: after the first commit."""


def pause(using: str, pattern: str, *command: str) -> None:
    """Run the command, and stop once after the first statement that the pattern matches."""
    wanted = re.compile(pattern)
    paused: list[str] = []

    def stop() -> None:
        if not paused:
            paused.append(pattern)
            sys.stderr.write("paused\n")
            sys.stderr.flush()
            sys.stdin.readline()

    def hook(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        found = execute(sql, *rest)
        connection = rest[-1]["connection"]
        if pattern == COMMITTED and connection.in_atomic_block and sql.startswith("DELETE"):
            transaction.on_commit(stop, using=using)
        elif pattern != COMMITTED and wanted.search(sql):
            stop()
        return found

    with connections[using].execute_wrapper(hook):
        execute_from_command_line(["manage.py", *command])


if __name__ == "__main__":
    django.setup()
    pause(*sys.argv[1:])
