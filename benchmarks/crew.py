"""Threads of one contender, each with its own connection; crews work in turns, a slice each."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from threading import Barrier, BrokenBarrierError, Thread
from typing import TYPE_CHECKING, Final, Self

from benchmarks.timing import Samples, rotated, rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from benchmarks.contenders import Contender, Entry

LONGEST_SLICE_SECONDS: Final = 0.5
SLICES: Final = 10
"""As many a contender at the least."""


class Crew:
    """Threads that work while a slice lasts, and wait in between."""

    def __init__(
        self, entry: Entry, threads: int, work: Callable[[Contender, int], object]
    ) -> None:
        """Take what each thread does over and over, given its contender and its number."""
        self.samples = Samples()
        self._entry = entry
        self._work = work
        self._gate = Barrier(threads + 1)
        self._seconds: float | None = None
        self._failures: list[Exception] = []
        self._threads = [Thread(target=self._run, args=(number,)) for number in range(threads)]

    def __enter__(self) -> Self:
        """Start the threads, which connect."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let the threads close their connections and end."""
        self._seconds = None
        if kind is None:
            self._gate.wait()
        else:
            self._gate.abort()
        for thread in self._threads:
            thread.join()

    def slice(self, seconds: float) -> None:
        """Let all threads work for so long.

        Raises:
            Exception: what one of them has raised.
        """
        self._seconds = seconds
        try:
            self._gate.wait()
            start = time.perf_counter()
            self._gate.wait()
        except BrokenBarrierError:
            raise self._failures[0] from None
        self.samples.elapsed += time.perf_counter() - start

    def forget(self) -> None:
        """Count what was done so far as a warm-up."""
        self.samples = Samples()

    def _run(self, number: int) -> None:
        try:
            with closing(self._entry.open()) as contender:
                self._gate.wait()
                while self._seconds is not None:
                    self._work_until(time.perf_counter() + self._seconds, contender, number)
                    self._gate.wait()
                    self._gate.wait()
        except BrokenBarrierError:
            pass  # another thread has failed
        except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
            self._failures.append(error)
            self._gate.abort()

    def _work_until(self, deadline: float, contender: Contender, number: int) -> None:
        while True:
            with self.samples.one():
                self._work(contender, number)
            if time.perf_counter() >= deadline:
                return


def in_slices(crews: Sequence[Crew], seconds: float) -> None:
    """Let the crews work for so many seconds each, in short slices, one crew at a time."""
    length = min(LONGEST_SLICE_SECONDS, seconds / SLICES)
    with ExitStack() as working:
        for crew in crews:
            working.enter_context(crew)
            crew.slice(length)
            crew.forget()
        for number in rounds(seconds * len(crews)):
            for crew in rotated(crews, number):
                crew.slice(length)
