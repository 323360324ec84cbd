"""A worker's side: commands come in as lines of JSON, timings go out; no peer is known here."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

MESSAGE_SIZE: Final = 1000


class Peer(Protocol):
    """A library's way to keep conversations."""

    def fill(self, length: int) -> str:
        """Make a conversation of so many messages; give its name."""

    def turn(self, conversation: str, window: int | None) -> None:
        """Read the history and append what a user and an assistant say.

        Args:
            conversation: as `fill` named it.
            window: how many of the newest messages are read; None: all.
        """

    def read(self, conversation: str, window: int | None) -> int:
        """Read the history alone; give how many messages there were."""


def serve(make: Callable[[str], Peer]) -> None:
    """Do what the lines of standard input say, until they end.

    Args:
        make: makes the peer, with its tables, of the database's URL.
    """
    commands, answers = sys.stdin, _own_output()

    def answer(work: Callable[[], object]) -> None:
        start = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - start
        answers.write(json.dumps({"seconds": seconds, "found": found}) + "\n")
        answers.flush()

    peer = make(sys.argv[1])
    answer(lambda: "ready")
    for line in commands:
        command: dict[str, Any] = json.loads(line)
        answer(partial(getattr(peer, command.pop("do")), **command))


def roles(length: int) -> Iterator[str]:
    """Give who says each message of a history."""
    for number in range(length):
        yield "assistant" if number % 2 else "user"


def _own_output() -> IO[str]:
    # What a library prints must not come among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers
