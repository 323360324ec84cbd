"""Events as Django knows them: the signal, and the publishers that a project has set."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.dispatch import Signal

if TYPE_CHECKING:
    from stitchkit_django.core.events import Event

logger = logging.getLogger("stitchkit_django.store")

run_event = Signal()
"""Sent after the commit with `event`, one of `stitchkit_django.core.events`; the sender is the
event's class. A receiver that raises is logged and keeps nothing from the others."""


def send_run_event(event: Event) -> None:
    """Send the signal for an event: the store's first publisher."""
    for receiver, response in run_event.send_robust(sender=type(event), event=event):
        if isinstance(response, Exception):
            logger.error(
                "receiver %r of run_event failed on event %s",
                receiver,
                event.id,
                exc_info=response,
                extra={
                    "conversation_id": event.conversation_id,
                    "run_id": getattr(getattr(event, "run", None), "id", None),
                    "event_id": event.id,
                },
            )
