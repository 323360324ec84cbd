"""Cursors and limits of the paged reads: opaque text outside, plain positions inside."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from stitchkit_django.core.driver import Place
from stitchkit_django.core.errors import InvalidValueError, shown
from stitchkit_django.core.values import MAX_COUNT

MAX_LIMIT: Final = 1_000
DEFAULT_LIMIT: Final = 100

_HISTORY: Final = "history"
_RECOVERABLE: Final = "recoverable"
_CURSOR: Final = re.compile(r"([a-z]+)((?:-(?:0|[1-9][0-9]{0,18}))+)-([0-9a-f]{8})")


def check_limit(limit: object) -> int:
    """Check how many items a page may have.

    Raises:
        InvalidValueError: not an int of 1 to 1,000.
    """
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
        raise InvalidValueError("$.limit", f"{shown(limit)} is not an int of 1 to {MAX_LIMIT}")
    return limit


def history_cursor(conversation_id: str, place: Place) -> str:
    """Name the oldest message of a page, so that the older page ends before it."""
    return _encode(_HISTORY, conversation_id, place)


def history_place(conversation_id: str, cursor: object) -> Place | None:
    """Give the place that a history cursor names; None for no cursor.

    Raises:
        InvalidValueError: not a cursor of this conversation's history.
    """
    if cursor is None:
        return None
    turn, slot = _decode("before", _HISTORY, conversation_id, cursor, 2)
    return Place(turn, slot)


def recoverable_cursor(key: int) -> str:
    """Name the last run of a page, so that the next page begins after it."""
    return _encode(_RECOVERABLE, "", (key,))


def recoverable_key(cursor: object) -> int:
    """Give the surrogate key that a scan's cursor names; 0 for no cursor.

    Raises:
        InvalidValueError: not a cursor of this scan.
    """
    if cursor is None:
        return 0
    (key,) = _decode("cursor", _RECOVERABLE, "", cursor, 1)
    return key


def _encode(kind: str, scope: str, numbers: tuple[int, ...]) -> str:
    body = "-".join([kind, *map(str, numbers)])
    return f"{body}-{_digest(body, scope)}"


def _decode(name: str, kind: str, scope: str, cursor: object, count: int) -> list[int]:
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if match is not None and match[1] == kind and match[3] == _digest(match[1] + match[2], scope):
        numbers = [int(number) for number in match[2].split("-")[1:]]
        if len(numbers) == count and max(numbers) <= MAX_COUNT:
            return numbers
    reason = f"{shown(cursor)} is not a cursor that this read has given"
    raise InvalidValueError(f"$.{name}", reason)


def _digest(body: str, scope: str) -> str:
    # Against mix-ups, not against malice: a cursor opens nothing that its caller can't read.
    text = f"{body}\0{scope}".encode()
    return hashlib.blake2s(text, digest_size=4).hexdigest()
