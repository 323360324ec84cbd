"""The recorded histories of the reference implementation, on every database."""

from __future__ import annotations

from stitchkit_django import get_store
from tests.replay import histories, replay

KINDS = 26
"""Of steps: each operation with each outcome that the histories hold."""


def test_every_recorded_outcome_and_state_is_reproduced(alias: str) -> None:
    store = get_store(alias)

    kinds = {
        kind
        for number, history in enumerate(histories())
        for kind in replay(store, f"conversation-{number}", history)
    }

    assert len(kinds) == KINDS
