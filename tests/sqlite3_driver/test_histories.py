"""The recorded histories of the reference implementation, replayed on the driver."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from stitchkit_django.core import AgentStore
from tests.replay import histories, replay
from tests.sqlite3_driver import SQLiteDriver

if TYPE_CHECKING:
    from pathlib import Path

KINDS = 26
"""Of steps: each operation with each outcome that the histories hold."""


def test_every_recorded_outcome_and_state_is_reproduced(tmp_path: Path) -> None:
    path = tmp_path / "conversations.sqlite3"
    store = AgentStore(SQLiteDriver(path))

    # The last connection to close moves the log into the file, which takes long each time.
    with closing(sqlite3.connect(path)) as open_connection:
        open_connection.execute("SELECT * FROM head")
        kinds = {
            kind
            for number, history in enumerate(histories())
            for kind in replay(store, f"conversation-{number}", history)
        }

    assert len(kinds) == KINDS
