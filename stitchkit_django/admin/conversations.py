"""The admin of conversations: the list, and the pages of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from stitchkit_django.admin.columns import RunColumns
from stitchkit_django.admin.conversation_list import ConversationChangeList
from stitchkit_django.admin.conversation_page import page_context, raw_page
from stitchkit_django.admin.filters import ActiveFilter
from stitchkit_django.admin.keyset import InvalidKeyError
from stitchkit_django.admin.purging import purge_view
from stitchkit_django.admin.raw import HEADERS, raw_response
from stitchkit_django.admin.reading import is_identifier
from stitchkit_django.admin.readonly import ReadOnlyAdmin
from stitchkit_django.admin.texts import brief
from stitchkit_django.hosts import default_alias
from stitchkit_django.models import Conversation
from stitchkit_django.stored import StoredConversations
from stitchkit_django.transfer import export

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.urls import URLPattern

# A name that every file system takes.
_UNSAFE: Final = re.compile("[^A-Za-z0-9._-]+")
_MOST_OF_A_NAME: Final = 80


class ConversationAdmin(RunColumns, ReadOnlyAdmin):
    """Conversations by their latest inputs; the page of one shows what was said, by which runs."""

    kind = "head"
    list_display: tuple[Any, ...] = (
        "id_shown",
        "state_shown",
        "owner_shown",
        "lease_shown",
        "attempts_shown",
        "age_shown",
        "cost_shown",
        "version_shown",
        "purged_shown",
    )
    list_filter: ClassVar[tuple[Any, ...]] = (ActiveFilter,)
    search_fields: ClassVar[tuple[str, ...]] = ("conversation_id",)

    def get_changelist(self, request: HttpRequest, **_kwargs: Any) -> type[ChangeList]:  # noqa: ARG002, ANN401 - as the base class says
        """List them by their runs."""
        return ConversationChangeList

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002 - as the base class says
        queryset: QuerySet[Any],
        search_term: str,  # noqa: ARG002 - likewise
    ) -> tuple[QuerySet[Any], bool]:
        """Leave the rows as they are: the list finds conversations by all that is in them."""
        return queryset, False

    def get_object(
        self,
        request: HttpRequest,
        object_id: str,
        from_field: str | None = None,  # noqa: ARG002 - as the base class says
    ) -> Any:  # noqa: ANN401 - any host's row
        """Find a head by its conversation's id, whatever the primary key of its row is."""
        if not is_identifier(object_id):
            return None
        stored = self.stored()
        row: Any = stored.where(self.get_queryset(request), conversation_id=object_id).first()
        if row is not None:
            row.conversation_id = object_id
        return row

    # ------------------------------------------------------------ columns

    @admin.display(description=gettext_lazy("conversation"))
    def id_shown(self, row: Any) -> str:  # noqa: ANN401 - any host's row
        """Name it."""
        return brief(row.conversation_id)

    @admin.display(description=gettext_lazy("version"))
    def version_shown(self, row: Any) -> int:  # noqa: ANN401 - any host's row
        """Count its writes."""
        version: int = getattr(row, self.stored().own("version"))
        return version

    @admin.display(description=gettext_lazy("purged at"))
    def purged_shown(self, row: Any) -> Any:  # noqa: ANN401 - any host's row
        """Say when it was purged."""
        return getattr(row, self.stored().own("purged_at"))

    # ------------------------------------------------------------ pages

    def own_urls(self) -> list[URLPattern]:
        """Add the export and the purge."""
        return [
            *super().own_urls(),
            self.page_url("<path:object_id>/export/", self.export_view, "export"),
            self.page_url("<path:object_id>/purge/", self.purge_view, "purge"),
        ]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:  # noqa: ANN401 - any host's row
        """Give what the page of a conversation shows.

        Raises:
            Http404: the URL names a place or a summary that there is not.
        """
        try:
            context = page_context(self, request, row.conversation_id)
        except InvalidKeyError as error:
            raise Http404(_("There is no such page.")) from error
        return {**context, "may_purge": self.has_purge_permission(request, row)}

    def raw_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give the messages of a page as JSON.

        Raises:
            Http404: there is no such conversation, or no such page of it.
            PermissionDenied: the user may not see it, or not what it holds.
        """
        row = self.found(request, object_id)
        self.require(request, "message")
        try:
            return raw_response(raw_page(row.conversation_id, request.GET))
        except InvalidKeyError as error:
            raise Http404(_("There is no such page.")) from error

    def export_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give all that a conversation has as one document, to be kept.

        Raises:
            Http404: there is no such conversation.
            PermissionDenied: the user may not see it, or not all that it holds.
        """
        row = self.found(request, object_id)
        self.require(request, "run", "receipt", "message")
        found = export(StoredConversations(default_alias()), row.conversation_id)
        if found is None:
            raise Http404(_("There is no such conversation."))
        name = _UNSAFE.sub("_", row.conversation_id)[:_MOST_OF_A_NAME]
        attachment = {"Content-Disposition": f'attachment; filename="{name}.json"'}
        return HttpResponse(
            found.text + "\n",
            content_type="application/json; charset=utf-8",
            headers={**HEADERS, **attachment},
        )

    def purge_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Purge a conversation, once its id was typed.

        Raises:
            Http404: there is no such conversation.
            PermissionDenied: the user may not.
        """
        row = self.found(request, object_id)
        if not self.has_purge_permission(request, row):
            raise PermissionDenied
        return purge_view(self, request, row)

    def has_purge_permission(self, request: HttpRequest, row: Any | None = None) -> bool:  # noqa: ARG002, ANN401 - for subclasses
        """Tell whether a user may purge a conversation."""
        return self.permits(request, "purge_conversation")

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show what was done to a conversation, under its own id."""
        shown = Conversation(conversation_id=unquote(object_id))
        return super().history_view(request, object_id, {"object": shown, **(extra_context or {})})
