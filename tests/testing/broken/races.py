"""Drivers that break laws only when threads race, and one that keeps nothing at all."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from stitchkit_django.core import MemoryDriver
from stitchkit_django.core.driver import ConversationView
from stitchkit_django.core.memory import MemoryTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import Facts, ReadSet, Run

T = TypeVar("T")

SECONDS: Final = 1
"""How long a thread waits for another one to have read."""


class UnlockedDriver(MemoryDriver):
    """Lets transactions of several threads begin from the same rows; the last to end is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._home = threading.get_ident()
        self._both_have_read = threading.Barrier(2)

    def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
        current = _Reading(self._conversations, self._clock, self._last_key)
        current.meet = self.meet
        result = work(current)
        self._conversations, self._last_key = current.conversations, current.last_key
        for callback in current.callbacks:
            callback()
        return result

    def meet(self) -> None:
        """Let no thread of a race write before another one has read."""
        if threading.get_ident() != self._home:
            with suppress(threading.BrokenBarrierError):
                self._both_have_read.wait(SECONDS)


class _Reading(MemoryTransaction):
    meet: Callable[[], None]

    def read(self, wanted: ReadSet) -> Facts:
        facts = super().read(wanted)
        self.meet()
        return facts


class TearingDriver(MemoryDriver):
    """Reads a snapshot's messages some time before its runs."""

    def __init__(self) -> None:
        super().__init__()
        self._earlier = ConversationView()

    def snapshot(self, conversation_id: str) -> ConversationView:
        earlier, self._earlier = self._earlier, super().snapshot(conversation_id)
        return replace(self._earlier, messages=earlier.messages)


class ForgetfulDriver(MemoryDriver):
    """Says that all is well, and keeps nothing."""

    def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
        return work(MemoryTransaction({}, self._clock, 0))

    def renew(self, expected: Run, renewed: Run) -> bool:
        del expected, renewed
        return True
