"""Rules of the head: its version, its moment, its purge, and that every row is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity.finding import Rule
from stitchkit_django.core.integrity.indexed import message_row, receipt_row, run_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from stitchkit_django.core.driver import PlacedMessage
    from stitchkit_django.core.integrity.finding import Finding
    from stitchkit_django.core.integrity.indexed import Indexed
    from stitchkit_django.core.records import AdmissionReceipt, StoredRun

_HEAD: Final = "the head"


def check_head(found: Indexed) -> Iterator[Finding]:
    """Check the head against all that belongs to it."""
    yield from _check_version(found)
    yield from _check_moment(found)
    yield from _check_purge(found)
    yield from _check_conversation(found)


def _check_version(found: Indexed) -> Iterator[Finding]:
    version = found.head.version
    turns = [(stored.run.turn, run_row(stored.run)) for stored in found.rows.runs]
    turns += [
        (placed.place.turn, message_row(placed))
        for placed in found.rows.messages
        if not _has_run(found, placed)
    ]
    turn, row = max(turns, default=(0, ""))
    if turn > version:
        yield found.finding(Rule.VERSION, row, f"has turn {turn}; the head's version is {version}")


def _has_run(found: Indexed, placed: PlacedMessage) -> bool:
    # The turn of a message that has a run is compared with the run's.
    return placed.message.run_id in found.runs or placed.message.id in found.askers


def _check_moment(found: Indexed) -> Iterator[Finding]:
    head = found.head
    moment, row = max(_moments(found), default=(head.updated_at, ""))
    if moment > head.updated_at:
        detail = f"carries the moment {moment}; the head was last updated at {head.updated_at}"
        yield found.finding(Rule.UPDATED_AT, row, detail)


def _moments(found: Indexed) -> Iterator[tuple[datetime, str]]:
    if found.head.purged_at is not None:
        yield found.head.purged_at, _HEAD
    for stored in found.rows.runs:
        yield _latest_of_run(stored), run_row(stored.run)
    for receipt in found.rows.receipts:
        yield _latest_of_receipt(receipt), receipt_row(receipt)
    for placed in found.rows.messages:
        archived_at = placed.archived_at or placed.message.updated_at
        yield max(placed.message.updated_at, archived_at), message_row(placed)


def _latest_of_run(stored: StoredRun) -> datetime:
    run, answer = stored.run, stored.terminal_assistant
    moments = [run.updated_at, run.acquired_at, run.ended_at, answer and answer.updated_at]
    return max(moment for moment in moments if moment)


def _latest_of_receipt(receipt: AdmissionReceipt) -> datetime:
    return max(receipt.created_at, receipt.input.updated_at)


def _check_purge(found: Indexed) -> Iterator[Finding]:
    rows = found.rows
    left = len(rows.runs) + len(rows.receipts) + len(rows.messages)
    if found.head.purged_at is not None and left:
        detail = (
            f"is purged, but has {len(rows.runs)} runs, {len(rows.receipts)} receipts and "
            f"{len(rows.messages)} messages"
        )
        yield found.finding(Rule.PURGED, _HEAD, detail)


def _check_conversation(found: Indexed) -> Iterator[Finding]:
    expected = found.head.conversation_id
    named = [
        *((run_row(stored.run), stored.run.conversation_id) for stored in found.rows.runs),
        *((receipt_row(receipt), receipt.conversation_id) for receipt in found.rows.receipts),
        *((message_row(placed), placed.message.conversation_id) for placed in found.rows.messages),
    ]
    for row, conversation_id in named:
        if conversation_id != expected:
            detail = f"names conversation {shown(conversation_id)}, not {shown(expected)}"
            yield found.finding(Rule.CONVERSATION, row, detail)
