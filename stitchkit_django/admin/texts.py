"""Texts, numbers and durations as a page shows them: printable, cut, in the reader's language."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from stitchkit_django.core.errors import SHOWN_CHARACTERS

if TYPE_CHECKING:
    from decimal import Decimal

MOST_CHARACTERS: Final = 4_000
"""Of one text on a page; the whole stands in the raw view."""
MOST_COUNTED: Final = 1_000
SAFE_SCHEMES: Final = frozenset({"http", "https", "mailto"})

# A page would show nothing of these, and an encoder refuses a lone surrogate.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_FEWEST_PLACES: Final = 2
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Cut(NamedTuple):
    """The beginning of a text, and how long the whole is."""

    shown: str
    length: int

    @property
    def is_cut(self) -> bool:
        """Whether something is left out."""
        return self.length > MOST_CHARACTERS

    @property
    def told_length(self) -> str:
        """The whole's length, to be read."""
        return number(self.length)


def printable(text: str) -> str:
    """Give a text with all that can't be shown written as an escape."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def cut(text: str) -> Cut:
    """Give the printable beginning of a text."""
    return Cut(printable(text[:MOST_CHARACTERS]), len(text))


def cut_json(value: object) -> Cut:
    """Give the beginning of a JSON value, indented unless it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= MOST_CHARACTERS:
        text = json.dumps(value, ensure_ascii=False, default=str, indent=2)
    return cut(text)


def brief(text: str) -> str:
    """Give a text for a heading or a cell, where it may not push all else away."""
    shown = printable(text[: SHOWN_CHARACTERS + 1])
    return shown if len(text) <= SHOWN_CHARACTERS else f"{shown[:SHOWN_CHARACTERS]}…"


def safe_url(text: str | None) -> str | None:
    """Give a URL that a link may lead to; None for any other text."""
    if text is None or _UNPRINTABLE.search(text):
        return None
    try:
        scheme = urlsplit(text.strip()).scheme.lower()
    except ValueError:
        return None
    return text.strip() if scheme in SAFE_SCHEMES else None


def number(value: int | Decimal) -> str:
    """Give a number with its thousands apart, as the reader's language writes it."""
    return number_format(value, force_grouping=True)


def counted(value: int) -> str:
    """Give a count that was taken no further than to one over `MOST_COUNTED`."""
    return f"{number(MOST_COUNTED)}+" if value > MOST_COUNTED else number(value)


def money(amount: Decimal | None, currency: str | None) -> str:
    """Give an amount of money, without zeros that say nothing."""
    if amount is None:
        return ""
    _whole, _point, places = format(amount.normalize(), "f").partition(".")
    told = number_format(amount, max(_FEWEST_PLACES, len(places)), force_grouping=True)
    return f"{told}\u00a0{currency}" if currency else told


def duration(span: timedelta | float | None) -> str:
    """Give a span in its two largest units; a negative one as none."""
    if span is None:
        return ""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 1:
        return _unit("ms", max(0, round(seconds * 1_000)))
    if seconds < 10:  # noqa: PLR2004 - a tenth is worth telling below
        return _("%(count)s\u00a0s") % {"count": number_format(round(seconds, 1))}
    rest = round(seconds)
    told: list[tuple[str, int]] = []
    for size, unit in _UNITS:
        if rest >= size or told:
            told.append((unit, rest // size))
            rest %= size
    return "\u00a0".join(
        _unit(unit, count) for unit, count in told[:2] if count or unit == told[0][0]
    )


def _unit(unit: str, count: int) -> str:
    return {
        "d": _("%(count)s\u00a0d"),
        "h": _("%(count)s\u00a0h"),
        "min": _("%(count)s\u00a0min"),
        "s": _("%(count)s\u00a0s"),
        "ms": _("%(count)s\u00a0ms"),
    }[unit] % {"count": number(count)}
