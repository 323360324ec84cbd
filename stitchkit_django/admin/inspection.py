"""The admins of messages and of receipts: lists to search, and the page of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from stitchkit_django.admin.columns import linked
from stitchkit_django.admin.labels import ROLES, STATUSES, badge, label
from stitchkit_django.admin.messages import OUTLINE, shown_messages, shown_retained
from stitchkit_django.admin.raw import raw_response, raw_row
from stitchkit_django.admin.reading import Stored
from stitchkit_django.admin.readonly import ReadOnlyAdmin
from stitchkit_django.admin.texts import brief
from stitchkit_django.admin.transcript import just_after

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern

_MESSAGE_BODIES: Final = {"parts": "parts", "metadata": "metadata"}
_RECEIPT: Final = (
    "pk",
    "conversation_id",
    "idempotency_key",
    "schema_version",
    "input_message_id",
    "run_id",
    "assistant_message_id",
    "created_at",
)


class MessageAdmin(ReadOnlyAdmin):
    """Messages of all conversations, archived ones too; the page of one shows it alone."""

    kind = "message"
    list_display: tuple[Any, ...] = (
        "id_shown",
        "role_shown",
        "status_shown",
        "run_shown",
        "created_shown",
        "conversation_shown",
    )
    search_fields: ClassVar[tuple[str, ...]] = ("message_id",)

    # ------------------------------------------------------------ columns

    def value(self, row: Any, name: str) -> Any:  # noqa: ANN401 - any host's row and field
        """Give a field of a row, by the name that the store knows it by."""
        return getattr(row, self.stored().own(name))

    @admin.display(description=gettext_lazy("message"))
    def id_shown(self, row: Any) -> str:  # noqa: ANN401 - any host's row
        """Name it."""
        return brief(self.value(row, "message_id"))

    @admin.display(description=gettext_lazy("role"))
    def role_shown(self, row: Any) -> str:  # noqa: ANN401 - any host's row
        """Say who speaks."""
        return label(ROLES, self.value(row, "role"))

    @admin.display(description=gettext_lazy("status"))
    def status_shown(self, row: Any) -> str:  # noqa: ANN401 - any host's row
        """Say how far it has come."""
        return badge(STATUSES, self.value(row, "status"))

    @admin.display(description=gettext_lazy("run"))
    def run_shown(self, row: Any) -> str:  # noqa: ANN401 - any host's row
        """Lead to the run whose answer it is."""
        run_id = self.value(row, "run_id")
        if run_id is None:
            return ""
        return linked(self.links.run_named(self.value(row, "conversation_id"), run_id), run_id)

    @admin.display(description=gettext_lazy("created at"))
    def created_shown(self, row: Any) -> Any:  # noqa: ANN401 - any host's row
        """Say when it came."""
        return self.value(row, "created_at")

    @admin.display(description=gettext_lazy("conversation"))
    def conversation_shown(self, row: Any) -> str:  # noqa: ANN401 - any host's row
        """Lead to its conversation."""
        where = self.value(row, "conversation_id")
        return linked(self.links.conversation(where), where)

    # ------------------------------------------------------------ pages

    def own_urls(self) -> list[URLPattern]:
        """Add the way to a message by its own id."""
        return [self.page_url("find/", self.find_view, "find"), *super().own_urls()]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:  # noqa: ANN401, ARG002 - as the base class says
        """Give what the page of a message shows."""
        stored = Stored("message")
        outline = stored.read(stored.rows().filter(pk=row.pk), *OUTLINE)[0]
        where = outline.conversation_id
        links = self.links
        if outline.archived_at is None:
            context_url = links.conversation(where, before=just_after(outline))
        else:
            context_url = links.message_named(where, outline.replaced_by)
        return {
            "title": _("Message %(id)s") % {"id": brief(outline.message_id)},
            "message": shown_messages([outline], links)[0],
            "row": outline,
            "context_url": context_url,
            "conversation_url": links.conversation(where),
            "run_url": links.run_named(where, outline.run_id) if outline.run_id else None,
            "raw_url": links.message(outline.pk, "raw"),
        }

    def raw_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give a message's row whole.

        Raises:
            Http404: there is none.
            PermissionDenied: the user may not see it.
        """
        row = self.found(request, object_id)
        stored = Stored("message")
        rows = stored.rows().filter(pk=row.pk)
        found = stored.read(rows, *OUTLINE, *_MESSAGE_BODIES)[0]
        return raw_response(raw_row(found, _MESSAGE_BODIES, left_out=("size_of_parts",)))

    def find_view(self, request: HttpRequest) -> HttpResponse:
        """Lead to the page of a message that is known by its ids.

        Raises:
            Http404: there is none.
        """
        return self.led_to(request, "message_id")


class AdmissionReceiptAdmin(ReadOnlyAdmin):
    """Receipts of all conversations; the page of one shows the input as it was admitted."""

    kind = "receipt"
    list_display: tuple[Any, ...] = ("id_shown", "run_shown", "created_shown", "conversation_shown")
    search_fields: ClassVar[tuple[str, ...]] = ("idempotency_key",)

    # ------------------------------------------------------------ columns

    @admin.display(description=gettext_lazy("key"))
    def id_shown(self, row: Any) -> str:  # noqa: ANN401 - a receipt's row
        """Name it."""
        return brief(row.idempotency_key)

    @admin.display(description=gettext_lazy("run"))
    def run_shown(self, row: Any) -> str:  # noqa: ANN401 - a receipt's row
        """Lead to the run that the input was given to."""
        return linked(self.links.run_named(row.conversation_id, row.run_id), row.run_id)

    @admin.display(description=gettext_lazy("created at"))
    def created_shown(self, row: Any) -> Any:  # noqa: ANN401 - a receipt's row
        """Say when the input came."""
        return row.created_at

    @admin.display(description=gettext_lazy("conversation"))
    def conversation_shown(self, row: Any) -> str:  # noqa: ANN401 - a receipt's row
        """Lead to its conversation."""
        return linked(self.links.conversation(row.conversation_id), row.conversation_id)

    # ------------------------------------------------------------ pages

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:  # noqa: ANN401 - as the base class says
        """Give what the page of a receipt shows."""
        found = self._read(row.pk, "input")
        where = found.conversation_id
        links = self.links
        sees = self.may_see(request, "message")
        return {
            "title": _("Receipt of key %(key)s") % {"key": brief(found.idempotency_key)},
            "row": found,
            "message": shown_retained(found.input, found, links) if sees else None,
            "conversation_url": links.conversation(where),
            "run_url": links.run_named(where, found.run_id),
            "raw_url": links.receipt(found.pk, "raw"),
        }

    def raw_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give a receipt's row whole.

        Raises:
            Http404: there is none.
            PermissionDenied: the user may not see it, or not its input.
        """
        row = self.found(request, object_id)
        self.require(request, "message")
        return raw_response(raw_row(self._read(row.pk, "input"), {"input": "message"}))

    def _read(self, key: object, *bodies: str) -> Any:  # noqa: ANN401 - a receipt's row
        stored = Stored("receipt")
        return stored.read(stored.rows().filter(pk=key), *_RECEIPT, *bodies)[0]
