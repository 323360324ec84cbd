"""Which ended runs may go with their receipts: a rule over keys and moments; nothing is read."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from stitchkit_django.core import values
from stitchkit_django.core.checked import Record, check


class Kept(StrEnum):
    """Why a run stays."""

    RECENT = "recent"
    """It has not ended, or had not been admitted, before the horizon."""
    ACTIVE = "active"
    """It was admitted before the horizon and has not ended."""
    IN_HISTORY = "in_history"
    """Its answer stands in the active history."""
    ABSORBER = "absorber"
    """It answers for a run that stays, whose key leads to it."""


class RetainedRun(Record, frozen=True, kw_only=True):
    """What the rule asks of a run; nothing of it changes once the run has ended, but by its going.

    Only `in_history` can: from true to false, by a compaction. So a run that may go may go for
    good, whoever else reads, writes or purges meanwhile.
    """

    created_at: datetime
    ended_at: datetime | None = None
    in_history: bool = False
    """Whether an active assistant message names it."""
    absorbed: tuple[RetainedRun, ...] = ()
    """The runs that it absorbed and that are still there."""

    def __post_init__(self) -> None:
        """Check the moments."""
        check(self, values.moment, "created_at")
        check(self, values.optional_moment, "ended_at")


def kept_because(run: RetainedRun, before: datetime) -> Kept | None:
    """Tell why a run stays.

    Args:
        run: as it is stored.
        before: the horizon, a moment: what ended at or after it is recent.

    Returns:
        The cause; None: the run and its receipts may go.
    """
    if run.ended_at is None:
        return Kept.ACTIVE if run.created_at < before else Kept.RECENT
    if run.ended_at >= before:
        return Kept.RECENT
    if run.in_history:
        return Kept.IN_HISTORY
    if any(kept_because(one, before) is not None for one in run.absorbed):
        return Kept.ABSORBER
    return None
