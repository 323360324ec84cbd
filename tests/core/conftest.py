"""A store over a memory driver whose clock the test moves."""

from __future__ import annotations

import pytest

from stitchkit_django.core import AgentStore, MemoryDriver
from tests.core.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def driver(clock: Clock) -> MemoryDriver:
    return MemoryDriver(clock)


@pytest.fixture
def store(driver: MemoryDriver) -> AgentStore:
    return AgentStore(driver)
