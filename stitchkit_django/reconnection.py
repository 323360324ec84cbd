"""How a pass outlives a connection that is cut, but not a database that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from stitchkit_django.core.errors import StoreUnavailableError
from stitchkit_django.core.values import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from stitchkit_django.core.driver import Driver

T = TypeVar("T")


def moment_of(driver: Driver) -> datetime:
    """Give the moment by the database's clock.

    Raises:
        StoreUnavailableError: it doesn't answer.
    """
    # The only read of a driver that gives it; behind the last key, so that no run is read.
    return driver.scan_active(MAX_COUNT, 1).moment


def again(driver: Driver, call: Callable[[], T]) -> T:
    """Call, and once more where the database failed but answers again.

    Args:
        driver: what the call works on.
        call: safe to repeat; of a failure at its commit nobody knows whether it was written.

    Raises:
        StoreUnavailableError: it failed twice, or the database is gone.
    """
    try:
        return call()
    except StoreUnavailableError:
        moment_of(driver)
        return call()
