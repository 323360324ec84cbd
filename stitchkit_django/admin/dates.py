"""The drill-down by date: a year, a month or a day is a span of keys, found without a count."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from django.db.models import BigIntegerField, IntegerField
from django.utils import formats
from django.utils.timezone import localtime, make_aware
from django.utils.translation import gettext as _

from stitchkit_django.admin.keyset import Bounds
from stitchkit_django.statements.seeking import first_key_since

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stitchkit_django.admin.reading import Stored

DATE: Final = "date"
"""The parameter: 2026, 2026-03 or 2026-03-01."""
MOST_YEARS: Final = 10
_LAST_YEAR: Final = 9_998
_PATTERN: Final = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


class InvalidDateError(ValueError):
    """A date in a URL is none."""


class Period(NamedTuple):
    """A year, a month of it or a day of that."""

    year: int
    month: int | None = None
    day: int | None = None

    @classmethod
    def asked(cls, text: str | None) -> Period | None:
        """Read a period.

        Raises:
            InvalidDateError: the text is none.
        """
        if text is None:
            return None
        found = _PATTERN.fullmatch(text)
        if found is None:
            raise InvalidDateError(text)
        period = cls(*(None if part is None else int(part) for part in found.groups()))  # type: ignore[arg-type] # a year always
        try:
            period.first_day()
        except ValueError as error:
            raise InvalidDateError(text) from error
        return period

    def __str__(self) -> str:
        """Give it as `asked` reads it."""
        parts = [f"{self.year:04}", *(f"{part:02}" for part in self[1:] if part is not None)]
        return "-".join(parts)

    def first_day(self) -> date:
        """Give its first day."""
        if not 1 < self.year <= _LAST_YEAR:
            raise ValueError(self.year)
        return date(self.year, self.month or 1, self.day or 1)

    def end(self) -> date:
        """Give the first day after it."""
        first = self.first_day()
        if self.day is not None:
            return first + timedelta(days=1)
        if self.month is not None:
            return (first + timedelta(days=32)).replace(day=1)
        return first.replace(year=first.year + 1)

    def title(self) -> str:
        """Name it in the reader's language."""
        if self.month is None:
            return str(self.year)
        form = "YEAR_MONTH_FORMAT" if self.day is None else "DATE_FORMAT"
        return formats.date_format(self.first_day(), form)

    def short_title(self) -> str:
        """Name it beside its siblings."""
        if self.month is None:
            return str(self.year)
        return formats.date_format(
            self.first_day(), "F" if self.day is None else "MONTH_DAY_FORMAT"
        )

    def wider(self) -> Period | None:
        """Give the period that it is a part of; None for a year."""
        if self.day is not None:
            return self._replace(day=None)
        return None if self.month is None else self._replace(month=None)

    def parts(self) -> Iterator[Period]:
        """Give the months of a year, or the days of a month."""
        if self.month is None:
            yield from (self._replace(month=month) for month in range(1, 13))
        elif self.day is None:
            days = (self.end() - self.first_day()).days
            yield from (self._replace(day=day) for day in range(1, days + 1))


class DateBar(NamedTuple):
    """Links to wider and to narrower periods."""

    back: tuple[str, str] | None
    """URL and title."""
    title: str
    links: list[tuple[str, str]]


def has_dates(stored: Stored) -> bool:
    """Tell whether a table's keys can rise with its moments: whole numbers, and moments at all."""
    return isinstance(stored.host.model._meta.pk, BigIntegerField | IntegerField)


def bounds_of(stored: Stored, period: Period) -> Bounds:
    """Give the keys between which the rows stand that came in a period."""
    low, high = (_key_since(stored, day) for day in (period.first_day(), period.end()))
    return Bounds(low or 0, high or 0)


def date_bar(
    stored: Stored, period: Period | None, url: Callable[[str | None], str]
) -> DateBar | None:
    """Give the bar over a list.

    Args:
        stored: whose rows are listed.
        period: that is chosen.
        url: gives the list's URL with another period, or with none.
    """
    bounds = [_days(stored, order) for order in ("pk", "-pk")]
    first, last = (found[0] if found else None for found in bounds)
    if first is None or last is None:
        return None
    parts = _years(first, last) if period is None else list(period.parts())
    links = [
        (url(str(part)), part.short_title())
        for part in parts
        if part.first_day() <= max(first, last) and part.end() > min(first, last)
    ]
    if period is None:
        return DateBar(None, "", links)
    wider = period.wider()
    back = (url(None if wider is None else str(wider)), wider.title() if wider else _("All dates"))
    return DateBar(back, period.title(), links)


def _years(first: date, last: date) -> list[Period]:
    years = range(min(first, last).year, max(first, last).year + 1)
    return [Period(year) for year in years][-MOST_YEARS:]


def _days(stored: Stored, order: str) -> list[date]:
    rows = stored.read(stored.rows().order_by(order)[:1], "created_at")
    return [localtime(row.created_at).date() for row in rows]


def _key_since(stored: Stored, day: date) -> int | None:
    since = make_aware(datetime.combine(day, datetime.min.time()))
    key = stored.host.model._meta.pk
    return first_key_since(stored.using, key, stored.host.field("created_at"), since)
