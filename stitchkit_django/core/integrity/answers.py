"""Rules of the answers: whose they are, where they stand, how they ended, and what is retained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity.finding import Rule
from stitchkit_django.core.integrity.indexed import (
    answer_place,
    is_absorbed,
    message_row,
    run_row,
    told_place,
)
from stitchkit_django.core.lifecycle import ENDINGS, MessageStatus
from stitchkit_django.core.parts import close_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core.driver import PlacedMessage
    from stitchkit_django.core.integrity.finding import Finding
    from stitchkit_django.core.integrity.indexed import Indexed
    from stitchkit_django.core.records import Run, StoredRun


def check_answers(found: Indexed) -> Iterator[Finding]:
    """Check each run's answer, and each assistant message's run."""
    for stored in found.rows.runs:
        run = stored.run
        placed = found.answer(run)
        if placed is not None:
            yield from _check_place(found, run, placed)
            yield from _check_status(found, stored, placed)
        elif found.whole:
            yield from _check_there(found, run)
        yield from _check_calls(found, stored)
    for placed in found.rows.messages:
        if placed.message.run_id is not None:
            yield from _check_run(found, placed, placed.message.run_id)


def _check_place(found: Indexed, run: Run, placed: PlacedMessage) -> Iterator[Finding]:
    expected = answer_place(run)
    if placed.place != expected and found.has_known_turn(run):
        detail = f"stands in {told_place(placed.place)}, not in {told_place(expected)}"
        yield found.finding(Rule.ANSWER_PLACE, message_row(placed), detail)


def _check_status(found: Indexed, stored: StoredRun, placed: PlacedMessage) -> Iterator[Finding]:
    wrong = _wrong_status(stored.run, placed)
    if wrong:
        yield found.finding(Rule.ANSWER_STATUS, message_row(placed), wrong)
    elif not stored.run.is_active and placed.message != stored.terminal_assistant:
        detail = "has retained another answer than the one in the history"
        yield found.finding(Rule.RETAINED, run_row(stored.run), detail)


def _wrong_status(run: Run, placed: PlacedMessage) -> str | None:
    status = placed.message.status
    if is_absorbed(run):
        return f"is the answer of {run_row(run)}, which was absorbed and has none"
    if run.is_active and run.fencing_token is None:
        return f"is the answer of {run_row(run)}, which was never acquired"
    if run.is_active and placed.archived_at is not None:
        return f"is archived, but its {run_row(run)} is active"
    reason = run.terminal_reason
    expected = MessageStatus.STREAMING if reason is None else ENDINGS[reason].status
    if status is not expected:
        return f"has status {status}, but its {run_row(run)} is {run.state}: {expected}"
    return None


def _check_there(found: Indexed, run: Run) -> Iterator[Finding]:
    expected = not run.is_active and not is_absorbed(run)
    known = run.assistant_message_id in found.messages
    if expected and not known and not found.may_be_replaced(answer_place(run)):
        identity = shown(run.assistant_message_id)
        detail = f"has the answer {identity}, which is neither there nor replaced by a summary"
        yield found.finding(Rule.ANSWER_MESSAGE, run_row(run), detail)


def _check_calls(found: Indexed, stored: StoredRun) -> Iterator[Finding]:
    answer = stored.terminal_assistant
    if answer is not None and len(close_calls(answer.parts)) != len(answer.parts):
        detail = "has ended, but its answer holds a tool call without a result"
        yield found.finding(Rule.OPEN_CALL, run_row(stored.run), detail)


def _check_run(found: Indexed, placed: PlacedMessage, run_id: str) -> Iterator[Finding]:
    stored = found.runs.get(run_id)
    if stored is not None:
        if stored.run.assistant_message_id != placed.message.id:
            identity = shown(stored.run.assistant_message_id)
            detail = f"is said to be the answer of {run_row(stored.run)}, which has "
            yield found.finding(
                Rule.ANSWER_RUN, message_row(placed), f"{detail}reserved {identity}"
            )
    elif found.whole and placed.archived_at is None:
        detail = f"is the answer of run {shown(run_id)}, which is missing"
        yield found.finding(Rule.ANSWER_RUN, message_row(placed), detail)
    elif found.whole and placed.message.status is MessageStatus.STREAMING:
        # One that had ended may be gone, while its archived answer is not.
        detail = f"has status {MessageStatus.STREAMING}, but was archived, and its run is gone"
        yield found.finding(Rule.ANSWER_STATUS, message_row(placed), detail)
