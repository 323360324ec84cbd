"""The few forms of Markdown that the reference is made of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def code(text: object) -> str:
    """Give a text as inline code."""
    return f"`{text}`"


def codes(texts: Iterable[object]) -> str:
    """Give texts as inline code, with commas between them."""
    return ", ".join(map(code, texts))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a table; what a cell has of lines and bars is kept from breaking it."""
    lines = [_row(titles), _row(["---"] * len(titles)), *map(_row, rows)]
    return "\n".join(lines)


def paragraphs(*texts: str) -> str:
    """Give texts that stand apart; an empty one is left out."""
    return "\n\n".join(text for text in texts if text)


def one_line(text: str) -> str:
    """Give a text without its line breaks."""
    return re.sub(r"\s+", " ", text).strip()


def capital(text: str) -> str:
    """Give a text with its first letter in capitals, as a sentence begins."""
    return text[:1].upper() + text[1:]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(one_line(cell).replace('|', chr(92) + '|') for cell in cells)} |"
