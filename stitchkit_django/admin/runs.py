"""The admin of runs: the list, the page of one, what is done to them, and the operations page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db.models.functions import Now
from django.http import HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from stitchkit_django.admin.actions import ACTIONS
from stitchkit_django.admin.changelists import KeysetChangeList
from stitchkit_django.admin.columns import RunColumns, linked
from stitchkit_django.admin.confirming import MOST_RUNS, confirm_view
from stitchkit_django.admin.filters import ReasonFilter, StateFilter
from stitchkit_django.admin.keyset import Kept
from stitchkit_django.admin.operations import operations_context
from stitchkit_django.admin.raw import raw_response, raw_row
from stitchkit_django.admin.reading import RUN_FIELDS, Stored
from stitchkit_django.admin.readonly import ReadOnlyAdmin
from stitchkit_django.admin.run_page import BODIES, page_context
from stitchkit_django.admin.texts import brief
from stitchkit_django.admin.timeline import shown_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern

    from stitchkit_django.admin.keyset import Page


class RunChangeList(KeysetChangeList):
    """Runs, each with what its columns show."""

    def kept(self) -> Kept | None:
        """Keep runs by the reason of their end, which says more, or by their state."""
        for chosen, field in ((ReasonFilter, "terminal_reason"), (StateFilter, "state")):
            value = self.params.get(chosen.parameter_name)
            if value:
                return Kept(field, value)
        return None

    def read_page(self) -> Page[Any]:
        """Read the page, as of the database's moment."""
        self.queryset = self.queryset.annotate(moment=Now())
        page = super().read_page()
        for row in page.rows:
            row.standing = shown_run(row, self.own_admin.links)
        return page


def _chosen(name: str) -> Callable[..., HttpResponse | None]:
    action = ACTIONS[name]

    @admin.action(description=action.title, permissions=[name])
    def confirm(
        modeladmin: RunAdmin,
        request: HttpRequest,
        queryset: QuerySet[Any],  # noqa: ARG001 - as Django calls it
    ) -> HttpResponse | None:
        keys = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)
        if len(keys) > MOST_RUNS or request.POST.get("select_across") == "1":
            told = _("Choose at least one run, and at most %(most)s.") % {"most": MOST_RUNS}
            modeladmin.message_user(request, told, messages.WARNING)
            return None
        return HttpResponseRedirect(modeladmin.links.act(name, *keys) or request.path)

    confirm.__name__ = name
    return confirm


class RunAdmin(RunColumns, ReadOnlyAdmin):
    """Runs of all conversations: how each stands, and what can be done to it."""

    kind = "run"
    list_display: tuple[Any, ...] = (
        "id_shown",
        "conversation_shown",
        "state_shown",
        "owner_shown",
        "lease_shown",
        "attempts_shown",
        "age_shown",
        "cost_shown",
    )
    list_filter: ClassVar[tuple[Any, ...]] = (StateFilter, ReasonFilter)
    search_fields: ClassVar[tuple[str, ...]] = ("run_id",)
    actions = tuple(map(_chosen, ACTIONS))

    def get_changelist(self, request: HttpRequest, **_kwargs: Any) -> type[ChangeList]:  # noqa: ARG002, ANN401 - as the base class says
        """Page by key, each run with what its columns show."""
        return RunChangeList

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """List runs, with the way to the operations page."""
        context = {"operations_url": self.links.operations(), **(extra_context or {})}
        return super().changelist_view(request, context)

    # ------------------------------------------------------------ columns

    @admin.display(description=gettext_lazy("run"))
    def id_shown(self, row: Any) -> str:  # noqa: ANN401 - a run's row
        """Name it."""
        return brief(row.run_id)

    @admin.display(description=gettext_lazy("conversation"))
    def conversation_shown(self, row: Any) -> str:  # noqa: ANN401 - a run's row
        """Lead to its conversation."""
        return linked(self.links.conversation(row.conversation_id), row.conversation_id)

    # ------------------------------------------------------------ permissions

    def has_interrupt_permission(self, request: HttpRequest) -> bool:
        """Tell whether a user may ask an owner to stop."""
        return self.permits(request, "interrupt_run")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Tell whether a user may end a queued run."""
        return self.permits(request, "cancel_run")

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Tell whether a user may queue a run again."""
        return self.permits(request, "requeue_run")

    def has_abandon_permission(self, request: HttpRequest) -> bool:
        """Tell whether a user may give a run up."""
        return self.permits(request, "abandon_run")

    def may(self, request: HttpRequest, name: str) -> bool:
        """Tell whether a user may do something to runs, which is to see them, too."""
        permitted = getattr(self, f"has_{name}_permission")
        return bool(self.has_view_permission(request) and permitted(request))

    # ------------------------------------------------------------ pages

    def own_urls(self) -> list[URLPattern]:
        """Add the operations page, the actions, and the way to a run by its own id."""
        return [
            self.page_url("operations/", self.operations_view, "operations"),
            self.page_url("find/", self.find_view, "find"),
            *(
                self.page_url(f"{name}/", partial(self.act_view, name=name), f"act_{name}")
                for name in ACTIONS
            ),
            *super().own_urls(),
        ]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:  # noqa: ANN401 - a run's row
        """Give what the page of a run shows."""
        allowed = [ACTIONS[name] for name in ACTIONS if self.may(request, name)]
        return page_context(self, request, row, allowed)

    def raw_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give a run's row whole, its retained answer included.

        Raises:
            Http404: there is none.
            PermissionDenied: the user may not see it, or not its answer.
        """
        row = self.found(request, object_id)
        self.require(request, "message")
        stored = Stored("run")
        found = stored.read(stored.rows().filter(pk=row.pk), *RUN_FIELDS, *BODIES)
        return raw_response(raw_row(found[0], BODIES))

    def find_view(self, request: HttpRequest) -> HttpResponse:
        """Lead to the page of a run that is known by its ids.

        Raises:
            Http404: there is none.
        """
        return self.led_to(request, "run_id")

    def act_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Ask before something is done to runs, or do it.

        Raises:
            PermissionDenied: the user may not.
        """
        if not self.may(request, name):
            raise PermissionDenied
        return confirm_view(self, request, ACTIONS[name])

    def operations_view(self, request: HttpRequest) -> HttpResponse:
        """Show how all runs stand.

        Raises:
            PermissionDenied: the user may not see runs.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self.rendered(request, "operations.html", operations_context(self, request))
