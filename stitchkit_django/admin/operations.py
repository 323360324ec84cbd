"""What the operations page shows: how all runs stand, from so many rows and no more.

Counts go no further than `MOST_COUNTED`: of each active state the oldest runs are read, of each
reason of an end those that were admitted last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import Exists, OuterRef
from django.utils import formats
from django.utils.timezone import localtime, now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from stitchkit_django.admin.keyset import Kept, in_order
from stitchkit_django.admin.labels import REASONS, STATES, badge, label
from stitchkit_django.admin.plots import Series, plot
from stitchkit_django.admin.reading import RUN_FIELDS, Stored, until_now
from stitchkit_django.admin.texts import MOST_COUNTED, counted, duration, money, number
from stitchkit_django.admin.timeline import shown_run
from stitchkit_django.core.lifecycle import ENDINGS, RunState, TerminalReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.functional import _StrPromise
    from django.utils.safestring import SafeString

    from stitchkit_django.admin.plots import Plot
    from stitchkit_django.admin.reading import Row
    from stitchkit_django.admin.readonly import ReadOnlyAdmin
    from stitchkit_django.admin.timeline import ShownRun

MOST_LISTED: Final = 25
"""Of each kind of stuck runs."""
OLD_SECONDS: Final = 600
"""From when on a run that nobody takes, or that nobody writes, is worth a look."""
AGES: Final = (60, 600, 3_600, 86_400)
"""The ages, in seconds, between which active runs are counted."""
ACTIVE: Final = (RunState.QUEUED, RunState.RUNNING, RunState.INTERRUPT_REQUESTED)


class Window(NamedTuple):
    """How far back the plots go, and in which steps."""

    title: _StrPromise
    step: timedelta
    steps: int
    form: str
    """Of a step's time, as Django formats it."""


WINDOWS: Final[Mapping[str, Window]] = {
    "hour": Window(gettext_lazy("Last hour"), timedelta(minutes=5), 12, "H:i"),
    "day": Window(gettext_lazy("Last day"), timedelta(hours=1), 24, "H:i"),
    "week": Window(gettext_lazy("Last week"), timedelta(hours=6), 28, "D H:i"),
    "month": Window(gettext_lazy("Last 30 days"), timedelta(days=1), 30, "j M"),
}


class Standing(NamedTuple):
    """The active runs of one state."""

    state: SafeString | str
    told: str
    """How many there are."""
    ages: list[str]
    url: str | None
    is_cut: bool


class Ended(NamedTuple):
    """A run's end."""

    reason: str
    at: datetime
    amount: Decimal | None
    currency: str | None


def operations_context(admin: ReadOnlyAdmin, request: HttpRequest) -> dict[str, Any]:
    """Give what the operations page shows."""
    name = request.GET.get("window", "")
    window = WINDOWS.get(name, WINDOWS["day"])
    rows = admin.get_queryset(request)
    active = {state: _oldest(rows, state) for state in ACTIVE}
    acquired = [*active[RunState.RUNNING], *active[RunState.INTERRUPT_REQUESTED]]
    endings = {str(reason): _latest(rows, reason) for reason in TerminalReason}
    starts = _starts(window)
    ends = [end for found in endings.values() for end in found]
    links = admin.links

    def listed(rows: Iterable[Row]) -> list[ShownRun]:
        return [shown_run(row, links) for row in list(rows)[:MOST_LISTED]]

    return {
        "title": _("Operations"),
        "standings": [_standing(admin, state, rows) for state, rows in active.items()],
        "age_titles": list(_age_titles()),
        "lapsed": listed(_lapsed(acquired)),
        "silent": listed(_silent(acquired)),
        "old_queues": listed(_old_queues(active[RunState.QUEUED])),
        "old": duration(OLD_SECONDS),
        "most": number(MOST_COUNTED),
        "windows": [
            (links.operations(window=key), one.title, one is window) for key, one in WINDOWS.items()
        ],
        "ends": _ends_plot(starts, window, ends),
        "costs": _cost_plots(starts, window, ends),
        "cut_reasons": [
            label(REASONS, reason)
            for reason, found in endings.items()
            if len(found) > MOST_COUNTED and min(end.at for end in found) > starts[0]
        ],
        "runs_url": links.runs(),
    }


# ---------------------------------------------------------------- active runs


def _oldest(rows: QuerySet[Any], state: RunState) -> list[Row]:
    stored = Stored("run")
    oldest = in_order(rows, Kept("state", str(state)))[: MOST_COUNTED + 1]
    earlier = stored.where(
        conversation_id=OuterRef("conversation_id"), active=1, turn__lt=OuterRef("turn")
    )
    return stored.read(oldest, *RUN_FIELDS, "moment", waits=Exists(earlier))


def _standing(admin: ReadOnlyAdmin, state: RunState, rows: Sequence[Row]) -> Standing:
    ages = Counter(_age_index(until_now(row.created_at, row) or 0) for row in rows)
    return Standing(
        state=badge(STATES, state),
        told=counted(len(rows)),
        ages=[number(ages[index]) for index in range(len(AGES) + 1)],
        url=admin.links.runs(state=str(state)),
        is_cut=len(rows) > MOST_COUNTED,
    )


def _age_index(seconds: float) -> int:
    return sum(seconds >= age for age in AGES)


def _age_titles() -> Iterable[str]:
    for age in AGES:
        yield _("under %(age)s") % {"age": duration(age)}
    yield _("older")


def _lapsed(acquired: Iterable[Row]) -> list[Row]:
    late = [row for row in acquired if row.lease_expires_at and row.lease_expires_at <= row.moment]
    return sorted(late, key=lambda row: row.lease_expires_at)


def _silent(acquired: Iterable[Row]) -> list[Row]:
    silent = [
        row
        for row in acquired
        if row.lease_expires_at is None and (until_now(row.updated_at, row) or 0) >= OLD_SECONDS
    ]
    return sorted(silent, key=lambda row: row.updated_at)


def _old_queues(queued: Iterable[Row]) -> list[Row]:
    return [
        row
        for row in queued
        if not row.waits and (until_now(row.created_at, row) or 0) >= OLD_SECONDS
    ]


# ---------------------------------------------------------------- ends


def _latest(rows: QuerySet[Any], reason: TerminalReason) -> list[Ended]:
    kept = Kept("terminal_reason", str(reason))
    newest = in_order(rows, kept, newest_first=True)[: MOST_COUNTED + 1]
    fields = ("terminal_reason", "ended_at", "cost_amount", "cost_currency")
    return [Ended(*row) for row in newest.values_list(*fields)]


def _starts(window: Window) -> list[datetime]:
    end = now()
    return [end - window.step * left for left in range(window.steps, 0, -1)]


def _bucket(starts: Sequence[datetime], window: Window, at: datetime) -> int | None:
    index = (at - starts[0]) // window.step
    return index if 0 <= index < len(starts) else None


def _times(starts: Iterable[datetime], window: Window) -> list[str]:
    return [formats.date_format(localtime(start), window.form) for start in starts]


def _ends_plot(starts: Sequence[datetime], window: Window, ends: Iterable[Ended]) -> Plot:
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * len(starts))
    for end in ends:
        index = _bucket(starts, window, end.at)
        if index is not None:
            counts[end.reason][index] += 1
    series: list[Series] = []
    for reason in TerminalReason:
        if reason in counts:
            code = str(ENDINGS[reason].state)
            shade = sum(one.code == code for one in series)
            series.append(Series(code, label(REASONS, reason), counts[reason], shade))
    return plot(_times(starts, window), series, number)


def _cost_plots(
    starts: Sequence[datetime], window: Window, ends: Iterable[Ended]
) -> list[tuple[str, str, Plot]]:
    # One for each currency, and their sums: amounts of two can't be added.
    sums: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * len(starts))
    for end in ends:
        index = _bucket(starts, window, end.at)
        if index is not None and end.amount is not None and end.currency is not None:
            sums[end.currency][index] += end.amount
    return [
        (
            currency,
            money(sum(amounts, Decimal(0)), currency),
            plot(
                _times(starts, window),
                [Series("cost", currency, amounts)],
                lambda value, currency=currency: money(Decimal(value), currency),  # type: ignore[misc] # a default binds it
            ),
        )
        for currency, amounts in sorted(sums.items())
    ]
