"""The conformance kit, run against the driver."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from stitchkit_django.core import AgentStore
from stitchkit_django.testing import CHECKS, RACES
from tests.sqlite3_driver import SQLiteDriver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from stitchkit_django.testing import Check, MakeStore, Race


@pytest.fixture
def make_store(tmp_path: Path) -> MakeStore:
    """Give what makes a store over the driver; each test has a file of its own."""

    @contextmanager
    def make(conversation_ids: Sequence[str]) -> Iterator[AgentStore]:
        assert conversation_ids
        yield AgentStore(SQLiteDriver(tmp_path / "conversations.sqlite3"))

    return make


@pytest.mark.parametrize("check", CHECKS)
def test_the_driver_keeps_a_law(check: Check, make_store: MakeStore) -> None:
    check(make_store)


@pytest.mark.parametrize("race", RACES)
def test_the_driver_keeps_a_law_when_threads_race(race: Race, make_store: MakeStore) -> None:
    race(make_store)
