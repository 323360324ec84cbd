"""Message bodies of a given size, of words that compress as an answer's do."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import accumulate
from typing import Final, NamedTuple

_LETTERS: Final = "etaoinshrdlucmfwypvbgk"
_WORDS: Final = 2000


class Body(NamedTuple):
    """A message of one text part."""

    text: str
    parts: str
    """The same as the JSON text that is stored."""


@cache
def body(size: int, seed: int = 0) -> Body:
    """Give a body whose text has a number of characters; always the same one for a seed."""
    text = _prose(size, random.Random(seed))  # noqa: S311 - text, not a secret
    return Body(text, json.dumps([{"type": "text", "text": text}], separators=(",", ":")))


def _prose(size: int, chance: random.Random) -> str:
    words = chance.choices(_vocabulary(), cum_weights=_frequencies(), k=size)
    return " ".join(words)[:size]


@cache
def _vocabulary() -> tuple[str, ...]:
    chance = random.Random(1)  # noqa: S311 - likewise
    return tuple("".join(chance.choices(_LETTERS, k=chance.randint(2, 10))) for _ in range(_WORDS))


@cache
def _frequencies() -> tuple[float, ...]:
    # As in a language: the tenth word is about a tenth as frequent as the first.
    return tuple(accumulate(1 / (rank + 2) for rank in range(_WORDS)))
