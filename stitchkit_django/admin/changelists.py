"""Lists that are paged by their key and never counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList

from stitchkit_django.admin.dates import (
    DATE,
    InvalidDateError,
    Period,
    bounds_of,
    date_bar,
    has_dates,
)
from stitchkit_django.admin.keyset import AFTER, BEFORE, Bounds, InvalidKeyError, Kept, Page, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet
    from django.http import HttpRequest

    from stitchkit_django.admin.dates import DateBar
    from stitchkit_django.admin.reading import Stored
    from stitchkit_django.admin.readonly import ReadOnlyAdmin

PLACES: Final = (BEFORE, AFTER)


class SearchForm(forms.Form):
    """Takes whatever was typed: what can't be an id finds nothing, which is no mistake."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the base's own
        """Make the field, whose name is Django's."""
        super().__init__(*args, **kwargs)
        self.fields = {SEARCH_VAR: forms.Field(required=False)}


class KeysetChangeList(ChangeList):
    """A list in the order of its keys, the newest row first."""

    search_form_class = SearchForm
    dates: DateBar | None = None
    page: Page[Any]
    span: Span
    period: Period | None

    def __init__(self, request: HttpRequest, *args: Any) -> None:  # noqa: ANN401 - the base's own
        """Read the place and the period of the URL, and make the list.

        Raises:
            IncorrectLookupParameters: they are none.
        """
        try:
            self.span = Span.asked(request.GET)
            self.period = Period.asked(request.GET.get(DATE))
        except (InvalidKeyError, InvalidDateError) as error:
            raise IncorrectLookupParameters(error) from error
        super().__init__(request, *args)
        self.pk_attname = "pk"
        # A search begins anew.
        for place in (*PLACES, DATE):
            self.params.pop(place, None)

    @property
    def own_admin(self) -> ReadOnlyAdmin:
        """The admin whose list it is."""
        admin: Any = self.model_admin
        return admin  # type: ignore[no-any-return] # it has made this list

    @property
    def dated(self) -> Stored:
        """Whose keys and moments the list is in the order of."""
        return self.own_admin.stored()

    def get_filters_params(self, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Leave out what says which page it is."""
        found: dict[str, Any] = super().get_filters_params(params)
        return {key: value for key, value in found.items() if key not in {*PLACES, DATE}}

    def get_query_string(
        self, new_params: dict[str, Any] | None = None, remove: Iterable[str] | None = None
    ) -> str:
        """Give the list's own URL with other parameters: its beginning, unless they say where."""
        left = [place for place in PLACES if place not in (new_params or {})]
        return super().get_query_string(new_params, [*(remove or []), *left])

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:  # noqa: ARG002 - as the base class says
        """Leave the order to the page."""
        return []

    def apply_select_related(self, qs: QuerySet[Any]) -> QuerySet[Any]:
        """Leave the rows as they are: none has a relation."""
        return qs

    def get_results(self, request: HttpRequest) -> None:  # noqa: ARG002 - as the base class says
        """Read the page."""
        self.page = self.read_page()
        self.result_list = self.page.rows
        self.result_count = len(self.page.rows)
        self.full_result_count = None
        self.show_full_result_count = False
        self.show_admin_actions = bool(self.page.rows)
        self.can_show_all = True
        self.multi_page = False
        self.paginator = None
        if not self.query and has_dates(self.dated):
            self.dates = date_bar(
                self.dated, self.period, lambda period: self.get_query_string({DATE: period})
            )

    def read_page(self) -> Page[Any]:
        """Read the rows of the page."""
        kept = self.kept()
        if self.query and kept is not None:
            # What a search has found is less than any other index would give.
            rows = self.queryset.filter(**{kept.field: kept.value})
            return self.span.page(rows, self.list_per_page, list)
        return self.span.page(
            self.queryset, self.list_per_page, list, kept=kept, bounds=self.bounds()
        )

    def kept(self) -> Kept | None:
        """Give what the list's own filters keep, for an index to find."""
        return None

    def bounds(self) -> Bounds:
        """Give the keys of the period."""
        if self.period is None or self.query or not has_dates(self.dated):
            return Bounds()
        return bounds_of(self.dated, self.period)

    @property
    def ends(self) -> tuple[int, int] | None:
        """The keys of the newest and of the oldest row of the page; None where it has none."""
        rows = self.page.rows
        return (rows[0].pk, rows[-1].pk) if rows else None

    @property
    def older_url(self) -> str | None:
        """Where older rows are; None at the end."""
        if not self.page.has_older or self.ends is None:
            return None
        return self.get_query_string({BEFORE: self.ends[1], AFTER: None})

    @property
    def newer_url(self) -> str | None:
        """Where newer rows are; None at the beginning."""
        if not self.page.has_newer or self.ends is None:
            return None
        return self.get_query_string({AFTER: self.ends[0], BEFORE: None})

    @property
    def newest_url(self) -> str | None:
        """Where the list begins; None there."""
        return None if self.span == Span() else self.get_query_string()
