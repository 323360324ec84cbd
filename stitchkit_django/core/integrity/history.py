"""Rules of the history: places, and the summaries that stand for what was archived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stitchkit_django.core.driver import LAST_SLOT
from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity.finding import Rule
from stitchkit_django.core.integrity.indexed import message_row, told_place
from stitchkit_django.core.lifecycle import MessageRole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core.driver import Place, PlacedMessage
    from stitchkit_django.core.integrity.finding import Finding
    from stitchkit_django.core.integrity.indexed import Indexed

# A summary takes the place of what it replaces, an answer's too.
_LAST_ROLES: Final = frozenset({MessageRole.ASSISTANT, MessageRole.SUMMARY})


def check_history(found: Indexed) -> Iterator[Finding]:
    """Check the places of the active messages, and what became of the archived ones."""
    yield from _check_places(found)
    for placed in found.rows.messages:
        if (placed.archived_at is None) is not (placed.replaced_by is None):
            detail = "says one of two: when it was archived, and which summary replaced it"
            yield found.finding(Rule.ARCHIVED, message_row(placed), detail)
        elif placed.replaced_by is not None:
            yield from _check_summary(found, placed, placed.replaced_by)


def _check_places(found: Indexed) -> Iterator[Finding]:
    taken: dict[Place, PlacedMessage] = {}
    for placed in found.active:
        first = taken.setdefault(placed.place, placed)
        if first is not placed:
            detail = f"stands in {told_place(placed.place)}, and so does {message_row(first)}"
            yield found.finding(Rule.PLACE, message_row(placed), detail)
        last = placed.place.slot == LAST_SLOT and placed.message.role not in _LAST_ROLES
        # An input's place is judged with its run's.
        if last and placed.message.id not in found.askers:
            detail = f"is of role {placed.message.role}, but stands in the last slot"
            yield found.finding(Rule.PLACE, message_row(placed), detail)


def _check_summary(found: Indexed, placed: PlacedMessage, replaced_by: str) -> Iterator[Finding]:
    summary = found.messages.get(replaced_by)
    if summary is not None:
        wrong = _wrong_summary(placed, summary)
    else:
        # It may have been replaced in its turn, and be gone.
        lost = found.whole and not found.may_be_replaced(placed.place)
        wrong = "is missing, and no other stands for it" if lost else None
    if wrong:
        detail = f"was replaced by {shown(replaced_by)}, which {wrong}"
        yield found.finding(Rule.SUMMARY, message_row(placed), detail)


def _wrong_summary(placed: PlacedMessage, summary: PlacedMessage) -> str | None:
    if summary.message.role is not MessageRole.SUMMARY:
        return f"is of role {summary.message.role}"
    if summary is placed:
        return "is the message itself"
    if summary.place > placed.place:
        return f"stands behind it, in {told_place(summary.place)}"
    if summary.message.created_at != placed.archived_at:
        return f"was made at {summary.message.created_at}, not when it was archived"
    return None
