"""What the four admins share: rows that no form changes, read past what can't be decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import django
from django import forms
from django.contrib import admin
from django.contrib.admin import ShowFacets
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from stitchkit_django.admin.changelists import KeysetChangeList
from stitchkit_django.admin.keyset import CappedPaginator
from stitchkit_django.admin.links import Links
from stitchkit_django.admin.reading import Stored, is_identifier
from stitchkit_django.admin.searches import keys_found
from stitchkit_django.admin.texts import brief
from stitchkit_django.fields import RecordField
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.admin.views.main import ChangeList
    from django.db.models import Model, QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern

    _ModelAdmin = admin.ModelAdmin[Any]
else:
    # Django's class is generic for the type checker alone.
    _ModelAdmin = admin.ModelAdmin

# Django draws breadcrumbs as a list from 6.1 on.
BREADCRUMBS_ARE_A_LIST: Final = django.VERSION >= (6, 1)
STYLE: Final = "stitchkit_django/admin.css"


class ReadOnlyAdmin(_ModelAdmin):
    """Rows for reading: what is done to them goes through the store, on pages of its own."""

    kind: ClassVar[str]
    """Of the rows: head, run, receipt or message."""
    list_per_page = 50
    show_facets = ShowFacets.NEVER
    show_full_result_count = False
    sortable_by = ()
    paginator = CappedPaginator
    change_list_template = "stitchkit_django/admin/change_list.html"
    search_help_text = gettext_lazy(
        "The exact id of a conversation, a run or a message, or an idempotency key"
    )

    # ------------------------------------------------------------ permissions

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - as the base class says
        """Let nobody add a row."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002 - likewise
        """Let nobody change a row."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002 - likewise
        """Let nobody delete a row."""
        return False

    def permits(self, request: HttpRequest, codename: str) -> bool:
        """Tell whether a user has a permission of this app."""
        return bool(request.user.has_perm(f"stitchkit_django.{codename}"))

    def may_see(self, request: HttpRequest, kind: str) -> bool:
        """Tell whether a user may see rows of another kind, as their own admin says."""
        own = {"head": Conversation, "run": Run, "receipt": AdmissionReceipt, "message": Message}
        model = self.links.registered(kind, own[kind])
        if self.admin_site.is_registered(model):
            return bool(self.admin_site.get_model_admin(model).has_view_permission(request))
        return self.permits(request, f"view_{own[kind]._meta.model_name}")

    def require(self, request: HttpRequest, *kinds: str) -> None:
        """Let only those go on who may see rows of all these kinds.

        Raises:
            PermissionDenied: the user may not.
        """
        if not all(self.may_see(request, kind) for kind in kinds):
            raise PermissionDenied

    # ------------------------------------------------------------ rows

    def stored(self) -> Stored:
        """Give the rows of this kind."""
        return Stored(self.kind)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Give the rows of the store's database that a user may see: all, unless you say less."""
        stored = self.stored()
        if stored.host.model is not self.model:
            return self.short(stored.rows())
        return self.short(super().get_queryset(request).using(stored.using))

    def short(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Leave the bodies where they are: they can be long, and unreadable."""
        return rows.defer(*self._bodies(rows.model))

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:  # noqa: ANN401 - any row
        """Find a row by the id of its URL; None where there is none, or it can't be one."""
        if not object_id.isascii() or "\0" in object_id:
            return None
        return super().get_object(request, object_id, from_field)

    def found(self, request: HttpRequest, object_id: str) -> Any:  # noqa: ANN401 - any row
        """Find the row of a page.

        Raises:
            Http404: there is none.
            PermissionDenied: the user may not see it.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404(_("There is no %(name)s %(id)s.") % self._named(object_id))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        return row

    # ------------------------------------------------------------ lists

    def get_changelist(self, request: HttpRequest, **_kwargs: Any) -> type[ChangeList]:  # noqa: ARG002, ANN401 - as the base class says
        """Page by key."""
        return KeysetChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:  # noqa: ARG002 - as the base class says
        """Allow what a filter asks for, and nothing that a URL makes up: no index answers it."""
        names = []
        for one in self.get_list_filter(request):
            first = one[0] if isinstance(one, tuple | list) else one
            names.append(getattr(first, "parameter_name", first))
        return any(lookup == name or lookup.startswith(f"{name}__") for name in names)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by an exact id."""
        if not search_term.strip():
            return super().get_search_results(request, queryset, "")
        return queryset.filter(pk__in=keys_found(self.kind, search_term)), False

    # ------------------------------------------------------------ pages

    @property
    def media(self) -> forms.Media:
        """Add the pages' own style."""
        return super().media + forms.Media(css={"all": [STYLE]})

    @property
    def links(self) -> Links:
        """The pages of this site."""
        return Links(self.admin_site)

    def get_urls(self) -> list[URLPattern]:
        """Put the pages of this kind before Django's own."""
        return [*self.own_urls(), *super().get_urls()]

    def own_urls(self) -> list[URLPattern]:
        """Give the pages that Django doesn't have."""
        return [self.page_url("<path:object_id>/raw/", self.raw_view, "raw")]

    def page_url(self, route: str, view: Callable[..., HttpResponse], name: str) -> URLPattern:
        """Give a page a URL and its name, behind the site's log-in."""
        full_name = f"{self.opts.app_label}_{self.opts.model_name}_{name}"
        return path(route, self.admin_site.admin_view(view), name=full_name)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002 - as the base class says
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show a row on its page.

        Raises:
            PermissionDenied: something was posted, or the user may not see it.
        """
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        row = self.found(request, object_id)
        context = {**self.page_context(request, row), **(extra_context or {})}
        return self.rendered(request, f"{self.kind}.html", context)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:  # noqa: ANN401 - any row
        """Give what a row's page shows."""
        raise NotImplementedError

    def raw_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give a row whole, as JSON."""
        raise NotImplementedError

    def led_to(self, request: HttpRequest, name: str) -> HttpResponse:
        """Lead to a row's page by its conversation and its own id there.

        Args:
            request: its GET has `conversation` and `id`.
            name: of the id's field.

        Raises:
            Http404: there is no such row.
            PermissionDenied: the user may not see it.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        ids = [request.GET.get("conversation", ""), request.GET.get("id", "")]
        if not all(map(is_identifier, ids)):
            raise Http404(_("There is no such page."))
        rows = self.get_queryset(request)
        row = self.stored().where(rows, **dict(zip(("conversation_id", name), ids, strict=True)))
        found = row.first()
        if found is None:
            raise Http404(_("There is no %(name)s %(id)s.") % self._named(ids[1]))
        url = reverse(
            f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_change",
            args=(found.pk,),
        )
        return HttpResponseRedirect(url)

    def rendered(
        self, request: HttpRequest, template: str, context: dict[str, Any]
    ) -> TemplateResponse:
        """Fill a template in the way of the site's other pages."""
        request.current_app = self.admin_site.name  # for the URLs of templates
        return TemplateResponse(
            request,
            f"stitchkit_django/admin/{template}",
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "media": self.media,
                "breadcrumbs_are_a_list": BREADCRUMBS_ARE_A_LIST,
                **context,
            },
        )

    def log(
        self, request: HttpRequest, key: object, name: str, told: str, flag: int = CHANGE
    ) -> None:
        """Write down what a user has done to a row, beside what Django writes down."""
        LogEntry.objects.create(
            user_id=request.user.pk or 0,
            content_type=ContentType.objects.get_for_model(self.model, for_concrete_model=False),
            object_id=str(key),
            object_repr=name[:200],
            action_flag=flag,
            change_message=told,
        )

    def _bodies(self, model: type[Model]) -> list[str]:
        return [one.attname for one in model._meta.concrete_fields if isinstance(one, RecordField)]

    def _named(self, object_id: str) -> dict[str, object]:
        return {"name": self.opts.verbose_name, "id": brief(unquote(object_id))}
