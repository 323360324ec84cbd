"""The store of this package, with the recommended OPTIONS, in a process of its own as its peers."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.bodies import body
from benchmarks.contenders import Store
from benchmarks.databases import ALIASES, PostgresDatabase, configure
from benchmarks.filling import fill
from benchmarks.peers.worker import MESSAGE_SIZE, serve

if TYPE_CHECKING:
    from benchmarks.contenders import Claim


class StorePeer:
    """Conversations of the store."""

    def __init__(self, url: str, *, checkpoints: int = 0) -> None:
        """Connect; the tables are there."""
        self._database = PostgresDatabase(url)
        configure(self._database)
        self._store = Store(ALIASES["recommended"])
        self._checkpoints = checkpoints

    def fill(self, length: int) -> str:
        """Make a conversation of so many messages; give its id."""
        return fill(self._database, 1, length)[0]

    def turn(self, conversation: str, window: int | None) -> None:
        """Admit an input, acquire its run, read the history, end the run with its answer."""
        claim = self._store.accept(conversation, str(uuid4()), body(MESSAGE_SIZE))
        self._store.acquire(claim)
        self.read(conversation, window)
        for number in range(self._checkpoints):
            self._keep(claim, number)
        self._store.end(claim, body(MESSAGE_SIZE, 1))

    def read(self, conversation: str, window: int | None) -> int:
        """Read the newest messages, or all; give how many there were."""
        if window is None:
            return self._store.snapshot(conversation)
        return self._store.history(conversation)

    def _keep(self, claim: Claim, number: int) -> None:
        self._store.checkpoint(claim, body(MESSAGE_SIZE, number))
        self._store.check_fence(claim)


if __name__ == "__main__":
    serve(partial(StorePeer, checkpoints=int(sys.argv[2])))
