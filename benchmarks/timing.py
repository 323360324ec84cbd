"""Samples and what they come to; contenders take turns, so that noise hits all alike."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import quantiles
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")

_HUNDREDTHS: Final = 100


@dataclass
class Samples:
    """What one contender took for one thing, in seconds."""

    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0
    """How long all of it took, where several threads did it at once."""

    def percentile(self, percent: int) -> float:
        """Give a percentile, 1 to 99."""
        if len(self.seconds) == 1:
            return self.seconds[0]
        return quantiles(self.seconds, n=_HUNDREDTHS, method="inclusive")[percent - 1]

    def per_second(self) -> float:
        """Give how many were done in a second."""
        return len(self.seconds) / (self.elapsed or sum(self.seconds))

    @contextmanager
    def one(self) -> Iterator[None]:
        """Time what the block does."""
        start = time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - start)


def rounds(seconds: float, *, least: int = 2) -> Iterator[int]:
    """Count rounds until the seconds have passed, and at least as many as are wanted."""
    deadline = time.perf_counter() + seconds
    number = 0
    while number < least or time.perf_counter() < deadline:
        yield number
        number += 1


def rotated(items: Sequence[T], number: int) -> Sequence[T]:
    """Give the items in another order each round, so that none always follows the same one."""
    start = number % len(items)
    return [*items[start:], *items[:start]]
