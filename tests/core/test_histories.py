"""The recorded histories of the reference implementation, replayed on the memory driver."""

from __future__ import annotations

from typing import Any

import pytest

from stitchkit_django.core import AgentStore, MemoryDriver
from tests.replay import histories, replay

HISTORIES = histories()
OUTCOMES = {
    "accept": {"applied", "duplicate", "conflict", "not_found", "error"},
    "acquire": {"applied", "conflict", "not_found"},
    "checkpoint": {"applied", "conflict", "not_found"},
    "compact": {"applied", "conflict", "not_found", "error"},
    "interrupt": {"applied", "conflict", "not_found"},
    "recover": {"applied", "conflict", "not_found", "error"},
    "terminal": {"applied", "conflict", "not_found", "error"},
}


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: f"seed {history['seed']}")
def test_a_recorded_history_takes_the_same_course(history: dict[str, Any]) -> None:
    replay(AgentStore(MemoryDriver()), "c", history)


def test_the_recorded_histories_take_every_kind_of_step() -> None:
    taken = {
        f"{step['op']} {step['result']['outcome']}"
        for history in HISTORIES
        for step in history["steps"]
    }

    assert taken == {f"{op} {one}" for op, outcomes in OUTCOMES.items() for one in outcomes}
    assert len(taken) == 26
    assert len(HISTORIES) == 148
