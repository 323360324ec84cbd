"""What rows are often asked for, by the columns that are indexed; rows are for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from django.db import models

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Self

M = TypeVar("M", bound=models.Model)


class RunQuerySet(models.QuerySet[M]):
    """Runs by what they are to a worker."""

    def active(self) -> Self:
        """Keep runs that are queued, running or asked to stop."""
        return self.filter(active=1)

    def acquired(self) -> Self:
        """Keep runs that have an owner and have not ended."""
        # That they are active says nothing new, but is what the index begins with.
        return self.active().filter(acquired=1)

    def stale(self, now: datetime) -> Self:
        """Keep acquired runs whose lease has lapsed; one without a lease never has.

        Args:
            now: the moment to judge by, aware.
        """
        return self.acquired().filter(lease_expires_at__lte=now)

    def ended(self) -> Self:
        """Keep runs that have ended, however they did."""
        return self.filter(active=None)


class MessageQuerySet(models.QuerySet[M]):
    """Messages by whether they stand in their conversation's history."""

    def active(self) -> Self:
        """Keep messages of the history."""
        return self.filter(active=1)

    def archived(self) -> Self:
        """Keep messages that a summary has replaced."""
        return self.filter(active=None)
