"""Exact searches: by the id of a conversation, a run or a message, or by a key; each by an index.

What can't be an id (it holds NUL, it has 10,000 characters) finds nothing, and nothing is asked.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q

from stitchkit_django.admin.reading import Stored, is_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django.db.models import QuerySet

MOST_FOUND: Final = 100
"""Of rows that one index gives for one id: an id can be used in many conversations."""


def keys_found(kind: str, text: str) -> set[Any]:
    """Give the primary keys of the rows of a kind that an id leads to.

    Args:
        kind: run, receipt or message.
        text: as somebody typed it.
    """
    sought = text.strip()
    if not is_identifier(sought):
        return set()
    return {"run": _runs, "receipt": _receipts, "message": _messages}[kind](sought)


def conversations_found(text: str) -> list[str]:
    """Give the ids of the conversations that an id may lead to."""
    sought = text.strip()
    if not is_identifier(sought):
        return []
    found = [sought]
    for kind, field in (
        ("run", "run_id"),
        ("message", "message_id"),
        ("receipt", "idempotency_key"),
    ):
        found += [row.conversation_id for row in _read(kind, field, sought, "conversation_id")]
    return list(dict.fromkeys(found))


def halves(stored: Stored, conversation_id: str) -> Iterator[QuerySet[Any]]:
    """Give the active runs of a conversation, then its other ones, the newest first.

    An index has either half in order, but not both together.
    """
    turn, active = stored.own("turn"), stored.own("active")
    rows = stored.where(conversation_id=conversation_id)
    yield stored.where(rows, active=1).order_by(f"-{turn}")
    # The column is null in all of these; named, it lets the index give them in order.
    yield stored.where(rows, active__isnull=True).order_by(f"-{active}", f"-{turn}")


def _runs(sought: str) -> set[Any]:
    run = Stored("run")
    found = {row.pk for row in _read("run", "run_id", sought, "pk")}
    for half in halves(run, sought):
        found.update(row.pk for row in run.read(half[:MOST_FOUND], "pk"))
    said = _read("message", "message_id", sought, "conversation_id", "run_id")
    named = [*_read("receipt", "idempotency_key", sought, "conversation_id", "run_id"), *said]
    # What a user said names no run; its receipt does.
    asked = [(row.conversation_id, sought) for row in said if row.run_id is None]
    named += _of_pairs("receipt", "input_message_id", asked, "conversation_id", "run_id")
    pairs = [(row.conversation_id, row.run_id) for row in named if row.run_id is not None]
    return found | {row.pk for row in _of_pairs("run", "run_id", pairs, "pk")}


def _receipts(sought: str) -> set[Any]:
    found = [*_read("receipt", "idempotency_key", sought, "pk")]
    # Those of a conversation's newest runs: its receipts have no order that an index knows.
    run = Stored("run")
    newest = [
        row.run_id for half in halves(run, sought) for row in run.read(half[:MOST_FOUND], "run_id")
    ]
    runs = _read("run", "run_id", sought, "conversation_id")
    pairs = [(row.conversation_id, sought) for row in runs] + [(sought, one) for one in newest]
    found += _of_pairs("receipt", "run_id", pairs, "pk")
    said = _read("message", "message_id", sought, "conversation_id")
    pairs = [(row.conversation_id, sought) for row in said]
    return {row.pk for row in [*found, *_of_pairs("receipt", "input_message_id", pairs, "pk")]}


def _messages(sought: str) -> set[Any]:
    message = Stored("message")
    found = [*_read("message", "message_id", sought, "pk")]
    for half in halves(message, sought):
        found += message.read(half[:MOST_FOUND], "pk")
    runs = _read("run", "run_id", sought, "conversation_id", "assistant_message_id")
    answers = [(row.conversation_id, row.assistant_message_id) for row in runs]
    receipts = _read("receipt", "idempotency_key", sought, "conversation_id", "input_message_id")
    answers += [(row.conversation_id, row.input_message_id) for row in receipts]
    return {row.pk for row in [*found, *_of_pairs("message", "message_id", answers, "pk")]}


def _read(kind: str, field: str, sought: str, *wanted: str) -> list[Any]:
    stored = Stored(kind)
    # A range of one, in the order of the index: a planner that thinks the id common would read on
    # in another order until it has found so many.
    own = stored.own(field)
    rows = stored.rows().filter(**{f"{own}__gte": sought, f"{own}__lte": sought})
    rows = rows.order_by(own, stored.own("conversation_id"))
    return stored.read(rows[:MOST_FOUND], *wanted)


def _of_pairs(kind: str, field: str, pairs: Iterable[tuple[str, str]], *wanted: str) -> list[Any]:
    stored = Stored(kind)
    named = (stored.own("conversation_id"), stored.own(field))
    either = [Q(**dict(zip(named, pair, strict=True))) for pair in dict.fromkeys(pairs)]
    if not either:
        return []
    return stored.read(stored.rows().filter(reduce(or_, either))[: 2 * MOST_FOUND], *wanted)
