"""Each operation by one client: every contender answers inputs, and each step is timed."""

from __future__ import annotations

from contextlib import ExitStack, closing
from itertools import count
from typing import TYPE_CHECKING, Final

from benchmarks.bodies import body
from benchmarks.cases import WARM_UP
from benchmarks.entries import F1, entries, one_statement
from benchmarks.filling import MESSAGE_SIZE, fill
from benchmarks.report import Measurement
from benchmarks.timing import Samples, rotated, rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.contenders import Contender
    from benchmarks.databases import Database
    from benchmarks.plan import Plan

SECTION: Final = "operations, one client"
SIZES: Final = {"2 KB": 2000, "4 KB": 4000, "8 KB": 8000}
CONVERSATIONS: Final = 10
LENGTH: Final = 100
_CHECKPOINTS: Final = tuple(f"checkpoint, {size}" for size in SIZES)
_NAMES: Final = (
    "accept",
    "acquire",
    "first checkpoint, 2 KB",
    *_CHECKPOINTS,
    "fence check",
    "end",
)


class Steps:
    """What one contender took for each step of a turn."""

    def __init__(self, contender: Contender, conversations: Sequence[str]) -> None:
        """Take the contender and where it works."""
        self._contender = contender
        self._conversations = conversations
        self._keys = count()
        self.samples = {name: Samples() for name in _NAMES}

    def answer(self, number: int) -> None:
        """Answer one input, in the next conversation."""
        contender, samples = self._contender, self.samples
        where = self._conversations[number % len(self._conversations)]
        with samples["accept"].one():
            claim = contender.accept(where, f"key-{next(self._keys)}", body(MESSAGE_SIZE))
        with samples["acquire"].one():
            contender.acquire(claim)
        with samples["first checkpoint, 2 KB"].one():
            contender.checkpoint(claim, body(SIZES["2 KB"], 1))
        for size, name in zip(SIZES.values(), _CHECKPOINTS, strict=True):
            with samples[name].one():
                contender.checkpoint(claim, body(size))
            with samples["fence check"].one():
                contender.check_fence(claim)
        with samples["end"].one():
            contender.end(claim, body(SIZES["2 KB"]))


def measure(database: Database, plan: Plan) -> Iterator[Measurement]:
    """Measure each operation in conversations that have a history."""
    taking_part = [*entries(database, plan.options), *one_statement(database)]
    with ExitStack() as opened:
        steps = [
            Steps(
                opened.enter_context(closing(entry.open())),
                fill(database, CONVERSATIONS, LENGTH),
            )
            for entry in taking_part
        ]
        database.settle()
        for number in range(WARM_UP):
            for one in steps:
                one.answer(number)
        for one in steps:
            one.samples = {name: Samples() for name in _NAMES}
        for number in rounds(plan.seconds * len(steps)):
            for one in rotated(steps, number):
                one.answer(number)
    for name in steps[0].samples:
        for entry, one in zip(taking_part, steps, strict=True):
            if entry.name != F1 or name in _CHECKPOINTS:
                yield Measurement(SECTION, name, entry.name, one.samples[name], entry.floor)
