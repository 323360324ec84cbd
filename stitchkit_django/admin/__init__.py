"""The admin: conversations, runs, receipts and messages to read, and actions through the store.

The four classes are registered with Django's own site. Register them with a site of yours, or
subclass them; they show the rows of the store's database, whichever models host them.
"""

from __future__ import annotations

from django.contrib import admin

from stitchkit_django.admin.conversations import ConversationAdmin
from stitchkit_django.admin.inspection import AdmissionReceiptAdmin, MessageAdmin
from stitchkit_django.admin.runs import RunAdmin
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run

__all__ = ["AdmissionReceiptAdmin", "ConversationAdmin", "MessageAdmin", "RunAdmin"]

admin.site.register(Conversation, ConversationAdmin)
admin.site.register(Run, RunAdmin)
admin.site.register(AdmissionReceipt, AdmissionReceiptAdmin)
admin.site.register(Message, MessageAdmin)
