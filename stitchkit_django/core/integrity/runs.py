"""Rules of the runs among themselves: turns, the queue, owners, and who was absorbed by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity.finding import Rule
from stitchkit_django.core.integrity.indexed import run_row
from stitchkit_django.core.lifecycle import RunState, TerminalReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core.integrity.finding import Finding
    from stitchkit_django.core.integrity.indexed import Indexed
    from stitchkit_django.core.records import Run

OWNERLESS_REASONS: Final = frozenset(
    {TerminalReason.ABSORBED, TerminalReason.ABANDONED, TerminalReason.CANCELLED}
)
"""Reasons that a run without an owner may end for."""


def check_runs(found: Indexed) -> Iterator[Finding]:
    """Check the queue, and each run by itself and against its absorber."""
    yield from _check_turns(found)
    yield from _check_queue(found)
    for stored in found.rows.runs:
        yield from _check_owner(found, stored.run)
        yield from _check_revision(found, stored.run)
        yield from _check_moments(found, stored.run)
        yield from _check_absorber(found, stored.run)


def least_revision(run: Run) -> int:
    """Tell how often a run was written at least: at each acquisition, and at its end."""
    return (run.fencing_token or 0) + (not run.is_active)


def _check_turns(found: Indexed) -> Iterator[Finding]:
    by_turn: dict[int, list[Run]] = {}
    for stored in found.rows.runs:
        by_turn.setdefault(stored.run.turn, []).append(stored.run)
        turn = found.displaced(stored.run)
        if turn is not None and stored.run.turn <= found.head.version:
            detail = f"has turn {stored.run.turn}; its messages stand in turn {turn}"
            yield found.finding(Rule.TURN, run_row(stored.run), detail)
    for turn, runs in by_turn.items():
        if len(runs) > 1:
            others = ", ".join(run_row(run) for run in runs[1:])
            yield found.finding(Rule.TURN, run_row(runs[0]), f"shares turn {turn} with {others}")


def _check_queue(found: Indexed) -> Iterator[Finding]:
    active = [stored.run for stored in found.rows.runs if stored.run.is_active]
    acquired = [run for run in active if run.is_acquired]
    if len(acquired) > 1:
        others = ", ".join(run_row(run) for run in acquired[1:])
        yield found.finding(Rule.ACQUIRED, run_row(acquired[0]), f"is acquired, and so is {others}")
    elif acquired and acquired[0].turn != active[0].turn:
        detail = f"is acquired, but {run_row(active[0])} stands before it in the queue"
        yield found.finding(Rule.QUEUE, run_row(acquired[0]), detail)


def _check_owner(found: Indexed, run: Run) -> Iterator[Finding]:
    owned = run.owner_id is not None
    needs = run.terminal_reason is not None and run.terminal_reason not in OWNERLESS_REASONS
    if needs and not owned:
        detail = f"ended with the reason {run.terminal_reason}, but names no owner"
        yield found.finding(Rule.OWNER, run_row(run), detail)
    elif owned and run.fencing_token is None:
        detail = f"names the owner {shown(run.owner_id)}, but has no fence"
        yield found.finding(Rule.OWNER, run_row(run), detail)


def _check_revision(found: Indexed, run: Run) -> Iterator[Finding]:
    least = least_revision(run)
    if run.revision < least:
        detail = f"has revision {run.revision}; one of state {run.state} and fence "
        detail += f"{run.fencing_token} has {least} at least"
        yield found.finding(Rule.REVISION, run_row(run), detail)


def _check_moments(found: Indexed, run: Run) -> Iterator[Finding]:
    order = [run.created_at, run.acquired_at, run.ended_at, run.updated_at]
    given = [moment for moment in order if moment is not None]
    if given != sorted(given):
        detail = "its created_at, acquired_at, ended_at and updated_at are not in this order"
        yield found.finding(Rule.RUN_MOMENTS, run_row(run), detail)


def _check_absorber(found: Indexed, run: Run) -> Iterator[Finding]:
    if run.absorbed_into_run_id is None:
        return
    stored = found.runs.get(run.absorbed_into_run_id)
    wrong = _wrong_absorber(run, stored.run) if stored else "is missing" if found.whole else None
    if wrong:
        detail = f"was absorbed into run {shown(run.absorbed_into_run_id)}, which {wrong}"
        yield found.finding(Rule.ABSORBER, run_row(run), detail)


def _wrong_absorber(run: Run, absorber: Run) -> str | None:
    if absorber.state is not RunState.COMPLETED:
        return f"is of state {absorber.state}, not {RunState.COMPLETED}"
    if absorber.turn >= run.turn:
        return f"has turn {absorber.turn}, not an earlier one than {run.turn}"
    if not set(run.input_message_ids) <= set(absorber.input_message_ids):
        return "has not taken on its inputs"
    return None
