"""The product's rows: each has what the store needs, and columns of the product's own."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from stitchkit_django.fields import IdentifierField, RecordField
from stitchkit_django.models import (
    AbstractConversation,
    AbstractMessage,
    head_constraints,
    message_constraints,
)


class Chat(AbstractConversation):
    """A user's conversation, which the product or the store may make."""

    conversation_id = None
    key = IdentifierField(unique=True)
    title = models.CharField(max_length=200, db_default="New chat")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )

    class Meta:
        constraints = head_constraints("product_chat")

    def __str__(self) -> str:
        """Give the title."""
        return self.title


class OwnedChat(AbstractConversation):
    """A conversation that always has a user, so that the product alone can make it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)

    class Meta:
        constraints = head_constraints("product_owned")


class ChatMessage(AbstractMessage):
    """A message that a user can mark and comment on."""

    parts = None
    body = RecordField(kind="parts")
    starred = models.BooleanField(db_default=False)
    comment = models.TextField(null=True, blank=True)  # noqa: DJ001 - null: nobody has commented

    class Meta:
        constraints = message_constraints("product_message")


class RatedMessage(AbstractMessage):
    """A message that can't be inserted by the store: nobody gives its rating."""

    rating = models.IntegerField()

    class Meta:
        constraints = message_constraints("product_rated")
