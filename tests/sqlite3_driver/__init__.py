"""A driver that is not Django's: `sqlite3` of the standard library, and the ports alone."""

from __future__ import annotations

from tests.sqlite3_driver.driver import SQLiteDriver

__all__ = ["SQLiteDriver"]
