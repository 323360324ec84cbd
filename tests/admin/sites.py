"""A site of a project's own, with admins that it has subclassed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin import AdminSite, display

from stitchkit_django.admin import (
    AdmissionReceiptAdmin,
    ConversationAdmin,
    MessageAdmin,
    RunAdmin,
)
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


class SupportSite(AdminSite):
    """Another site than Django's own."""

    site_header = "Support"


class OwnConversationAdmin(ConversationAdmin):
    """Shows the conversations of one tenant alone."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Leave out what belongs to others."""
        return super().get_queryset(request).exclude(conversation_id__startswith="other")


class OwnRunAdmin(RunAdmin):
    """Has a column more, and none of the others' runs."""

    list_display = (*RunAdmin.list_display, "shout")

    @display(description="shouted")
    def shout(self, row: Run) -> str:
        """Shout the run's id."""
        return str(row.run_id).upper()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Leave out what belongs to others."""
        return super().get_queryset(request).exclude(conversation_id__startswith="other")


support = SupportSite(name="support")
support.register(Conversation, OwnConversationAdmin)
support.register(Run, OwnRunAdmin)
support.register(AdmissionReceipt, AdmissionReceiptAdmin)
support.register(Message, MessageAdmin)
