"""The filters of lists: fixed choices, each answered by an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.utils.translation import gettext_lazy as _

from stitchkit_django.admin.labels import REASONS, STATES
from stitchkit_django.core.lifecycle import ENDINGS, TerminalReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.contrib.admin import ModelAdmin
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.functional import _StrPromise


class _ChoiceFilter(SimpleListFilter):
    """One of some codes; the list keeps the rows itself, in the order of an index that has it."""

    labels: Mapping[str, _StrPromise]

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:  # noqa: ARG002 - as the base class says
        """Give the choices."""
        return list(self.labels.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002 - as the base class says
        """Leave the rows to the list, once the choice is one."""
        self.chosen()
        return queryset

    def chosen(self) -> str | None:
        """Give the chosen code.

        Raises:
            IncorrectLookupParameters: it is no choice.
        """
        value = self.value()
        if value is not None and value not in self.labels:
            raise IncorrectLookupParameters(value)
        return value


class StateFilter(_ChoiceFilter):
    """Runs of one state."""

    title = _("state")
    parameter_name = "state"
    labels = STATES

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Give none where the reason that is chosen ends a run in another state."""
        state, reason = self.chosen(), request.GET.get(ReasonFilter.parameter_name)
        if state is None or reason is None or reason not in REASONS:
            return queryset
        agrees = ENDINGS[TerminalReason(reason)].state == state
        return queryset if agrees else queryset.none()


class ReasonFilter(_ChoiceFilter):
    """Runs that ended for one reason."""

    title = _("reason of the end")
    parameter_name = "reason"
    labels = REASONS


class ActiveFilter(_ChoiceFilter):
    """Conversations that wait for an answer."""

    title = _("waiting for an answer")
    parameter_name = "active"
    labels = {"yes": _("Yes")}  # noqa: RUF012 - never changed
