"""A page of a conversation's messages, by their places; what a summary replaced, likewise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stitchkit_django.admin.keyset import AFTER, BEFORE, InvalidKeyError
from stitchkit_django.admin.messages import OUTLINE
from stitchkit_django.admin.reading import Stored, is_identifier
from stitchkit_django.core.driver import LAST_SLOT, Place
from stitchkit_django.core.values import MAX_COUNT

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from stitchkit_django.admin.reading import Row

PAGE: Final = 50
"""How many messages are on a page."""
WITHIN: Final = "within"
"""The parameter of what a summary replaced: its id."""
_PLACE: Final = re.compile(r"(\d{1,19})\.(\d{1,10})", re.ASCII)


class Asked(NamedTuple):
    """Which page is asked for."""

    before: Place | None = None
    after: Place | None = None
    within: str | None = None

    @classmethod
    def of(cls, query: Any) -> Asked:  # noqa: ANN401 - a request's GET
        """Read it from a URL.

        Raises:
            InvalidKeyError: it names no place.
        """
        within = query.get(WITHIN)
        if within is not None and not is_identifier(within):
            raise InvalidKeyError(within)
        return cls(_place(query.get(BEFORE)), _place(query.get(AFTER)), within)


class Transcript(NamedTuple):
    """Messages in causal order, and the places from which older and newer ones are read."""

    rows: list[Row]
    older: str | None
    newer: str | None


def place_text(place: Place) -> str:
    """Give a place as a URL has it."""
    return f"{place.turn}.{place.slot}"


def just_after(row: Row) -> str:
    """Give the place right behind a message: the page before it ends with the message."""
    place = Place(row.turn, row.slot + 1) if row.slot < LAST_SLOT else Place(row.turn + 1, 0)
    return place_text(place)


def transcript(conversation_id: str, asked: Asked) -> Transcript:
    """Read a page of the active history: the newest one, or the one that is asked for."""
    stored = Stored("message")
    active = stored.where(conversation_id=conversation_id, active=1)
    if asked.after is not None:
        found = _beyond(stored, active, asked.after, PAGE + 1)
        return _page(found[:PAGE], older=True, newer=len(found) > PAGE)
    found = _newest(stored, active, asked.before, PAGE + 1)
    return _page(found[:PAGE][::-1], older=len(found) > PAGE, newer=asked.before is not None)


def replaced(conversation_id: str, summary_id: str, after: Place | None) -> Transcript | None:
    """Read a page of what a summary stands for: what it replaced, and what that had replaced.

    Returns:
        Messages from the oldest on; None where there is no such summary in the active history.
        Summaries that it replaced stand before what they had replaced.
    """
    stored = Stored("message")
    active = stored.where(conversation_id=conversation_id, active=1)
    summaries = stored.read(stored.where(active, message_id=summary_id), "turn", "slot")
    if not summaries:
        return None
    first = _of(summaries[0])
    following = _beyond(stored, active, first, 1)
    end = _of(following[0]) if following else None
    archived = stored.where(conversation_id=conversation_id, active__isnull=True)
    # From the first place on: the one before it comes first.
    start = Place(first.turn, first.slot - 1) if after is None else after
    rows = [
        row for row in _beyond(stored, archived, start, 2 * PAGE) if end is None or _of(row) < end
    ]
    shown, more = _whole_places(rows)
    return Transcript(shown, None, place_text(_of(shown[-1])) if more else None)


def _whole_places(rows: list[Row]) -> tuple[list[Row], bool]:
    # A summary that was replaced has the place of a message that it had replaced: a page ends
    # between two places, unless it can't.
    if len(rows) <= PAGE:
        return rows, False
    last = PAGE
    while last > 1 and _of(rows[last - 1]) == _of(rows[last]):
        last -= 1
    return rows[:last], True


def _page(rows: list[Row], *, older: bool, newer: bool) -> Transcript:
    if not rows:
        return Transcript(rows, None, None)
    return Transcript(
        rows,
        place_text(_of(rows[0])) if older else None,
        place_text(_of(rows[-1])) if newer else None,
    )


def _of(row: Row) -> Place:
    return Place(row.turn, row.slot)


# Two questions each, since a comparison of places as a whole would be one that not every database
# answers by the index: the rest of the turn, and the turns behind it.


def _newest(stored: Stored, rows: QuerySet[Any], before: Place | None, limit: int) -> list[Row]:
    order = [f"-{stored.own(name)}" for name in ("active", "turn", "slot")]
    rows = rows.order_by(*order)
    if before is None:
        return stored.read(rows[:limit], *OUTLINE)
    same = stored.where(rows, turn=before.turn, slot__lt=before.slot)
    others = stored.where(rows, turn__lt=before.turn)
    return _joined(stored, same, others, limit)


def _beyond(stored: Stored, rows: QuerySet[Any], after: Place, limit: int) -> list[Row]:
    rows = rows.order_by(*[stored.own(name) for name in ("active", "turn", "slot")])
    same = stored.where(rows, turn=after.turn, slot__gt=after.slot)
    others = stored.where(rows, turn__gt=after.turn)
    return _joined(stored, same, others, limit)


def _joined(stored: Stored, same: QuerySet[Any], others: QuerySet[Any], limit: int) -> list[Row]:
    found = stored.read(same[:limit], *OUTLINE)
    return (found + stored.read(others[:limit], *OUTLINE))[:limit]


def _place(text: str | None) -> Place | None:
    if text is None:
        return None
    found = _PLACE.fullmatch(text)
    if found is None:
        raise InvalidKeyError(text)
    place = Place(int(found[1]), int(found[2]))
    if place.turn > MAX_COUNT or place.slot > LAST_SLOT:
        raise InvalidKeyError(text)
    return place
