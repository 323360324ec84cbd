"""Runs as pages show them: how long each waited and worked, what it waits for, as text and bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.utils.translation import gettext as _

from stitchkit_django.admin.labels import REASONS, STATES, badge, label
from stitchkit_django.admin.reading import RUN_FIELDS, Stored, until_now
from stitchkit_django.admin.searches import halves
from stitchkit_django.admin.texts import duration, money
from stitchkit_django.core.lifecycle import ACQUIRED_STATES, ACTIVE_STATES, RunState, TerminalReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from django.utils.safestring import SafeString

    from stitchkit_django.admin.links import Links
    from stitchkit_django.admin.reading import Row

MOST_RUNS: Final = 30
"""Of one conversation on a page."""
BAR: Final = 1_000
"""How wide the longest bar is."""
_THINNEST: Final = 6
_AMOUNT: Final = ("cost_amount", "cost_currency")


class Bar(NamedTuple):
    """A run's time, as wide as the longest one's on the page allows."""

    waited: int
    worked: int


class ShownRun(NamedTuple):
    """A run as a page shows it; spans are texts."""

    row: Row
    state: SafeString | str
    reason: str
    """Of its end, where that says more than the state."""
    url: str | None
    waited: str
    worked: str
    age: str
    silent: str
    """Since its last write, while it is active."""
    lease: str
    lapsed: bool
    cost: str
    bar: Bar | None = None

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.row.state in ACTIVE_STATES

    @property
    def is_acquired(self) -> bool:
        """Whether a worker owns it."""
        return self.row.state in ACQUIRED_STATES

    @property
    def told(self) -> str:
        """What its bar says."""
        if not self.worked:
            return _("waited %(waited)s") % {"waited": self.waited}
        return _("waited %(waited)s, worked %(worked)s") % {
            "waited": self.waited,
            "worked": self.worked,
        }


def shown_run(row: Row, links: Links) -> ShownRun:
    """Give a run as a page shows it; its row has `RUN_FIELDS` and the moment."""
    waited, worked = spans(row)
    left = lease_left(row)
    return ShownRun(
        row=row,
        state=badge(STATES, row.state),
        reason="" if _says_no_more(row) else label(REASONS, row.terminal_reason),
        url=links.run(row.pk),
        waited=duration(waited),
        worked=duration(worked),
        age=duration(until_now(row.created_at, row)),
        silent=duration(until_now(row.updated_at, row)) if row.state in ACTIVE_STATES else "",
        lease=told_lease(row),
        lapsed=left is not None and left <= 0,
        cost=money(*(getattr(row, name) for name in _AMOUNT)),
    )


def _says_no_more(row: Row) -> bool:
    return row.terminal_reason in {row.state, TerminalReason.SUCCESS}


def spans(row: Row) -> tuple[float, float | None]:
    """Give how long a run waited, and how long it has worked since it was taken last; seconds.

    A run that was queued again still waits: its last attempt is over.
    """
    until = row.ended_at or row.moment
    taken: datetime | None = row.acquired_at
    if taken is None or row.state == RunState.QUEUED:
        return _seconds(row.created_at, until), None
    return _seconds(row.created_at, taken), _seconds(taken, until)


def lease_left(row: Row) -> float | None:
    """Give the seconds that a run's lease is still valid for; None where there is none."""
    if row.lease_expires_at is None:
        return None
    left: float = (row.lease_expires_at - row.moment).total_seconds()
    return left


def told_lease(row: Row) -> str:
    """Say how a run's lease stands; nothing where nobody owns the run."""
    if row.state not in ACQUIRED_STATES:
        return ""
    left = lease_left(row)
    if left is None:
        return _("none")
    if left > 0:
        return _("%(span)s left") % {"span": duration(left)}
    return _("lapsed %(span)s ago") % {"span": duration(-left)}


def runs_of_conversation(conversation_id: str, before: int | None = None) -> tuple[list[Row], bool]:
    """Read the newest runs of a conversation, or before a turn; and whether there are more."""
    stored = Stored("run")
    found: list[Row] = []
    for half in halves(stored, conversation_id):
        rows = half if before is None else stored.where(half, turn__lt=before)
        found += stored.read(rows[: MOST_RUNS + 1], *RUN_FIELDS, "moment")
    found.sort(key=lambda row: -row.turn)
    return found[:MOST_RUNS], len(found) > MOST_RUNS


def with_bars(runs: Sequence[ShownRun]) -> list[ShownRun]:
    """Give runs with bars that can be compared."""
    longest = max((sum(_known(run)) for run in runs), default=0) or 1
    return [run._replace(bar=_bar(_known(run), longest)) for run in runs]


def _known(run: ShownRun) -> tuple[float, float]:
    waited, worked = spans(run.row)
    return waited, worked or 0


def _bar(known: Iterable[float], longest: float) -> Bar:
    return Bar(*(max(_THINNEST if part else 0, round(part / longest * BAR)) for part in known))


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())


class Blocked(NamedTuple):
    """What a run waits for, in words; and the run that it waits for, if it does."""

    told: str
    by: Any = None
    is_stuck: bool = False


def blocked(run: ShownRun, first: ShownRun | None) -> Blocked | None:
    """Say what keeps a run from its end; None where nothing does.

    Args:
        run: that is asked about.
        first: in the queue of its conversation.
    """
    row = run.row
    if not run.is_active:
        return None
    if row.state == RunState.QUEUED:
        if first is None or first.row.pk == row.pk:
            return Blocked(_("It is the first of its queue: it waits for a worker."))
        return Blocked(_("It waits until the run before it has ended."), first)
    if run.lapsed:
        return Blocked(_("Its lease has lapsed: its owner is late, or gone."), is_stuck=True)
    if row.lease_expires_at is None:
        told = _("It has no lease: only its last write, %(span)s ago, tells of its owner.")
        return Blocked(told % {"span": run.silent})
    if row.state == RunState.INTERRUPT_REQUESTED:
        return Blocked(_("Its owner has been asked to stop, and hasn't yet."))
    return None
