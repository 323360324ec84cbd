"""A clock that stands until a test moves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.factories import MOMENT

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Clock:
    """Gives the moment that it was set to."""

    def __init__(self) -> None:
        self.moment = MOMENT

    def __call__(self) -> datetime:
        return self.moment

    def move(self, by: timedelta) -> None:
        """Go forward, or back."""
        self.moment += by
