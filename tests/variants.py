"""Other settings under which the tests pass, too: STITCHKIT_TEST_VARIANT names one of them.

Nothing about pytest and nothing of Django's is here, for the settings are made with it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

VARIANT: Final = "STITCHKIT_TEST_VARIANT"

ATOMIC_REQUESTS: Final = "atomic-requests"
"""Each request is a transaction."""
REPLICA: Final = "replica"
"""Whoever asks the router reads from a database in which nothing ever is."""
SERIALIZABLE: Final = "serializable"
"""PostgreSQL's strictest isolation."""
PARTITIONED: Final = "partitioned"
"""PostgreSQL's tables are partitioned by conversation (tests/partitioned.py)."""

VARIANTS: Final = (ATOMIC_REQUESTS, REPLICA, SERIALIZABLE, PARTITIONED)


def variant() -> str | None:
    """Give the variant of this run; None for the settings as they are."""
    return os.environ.get(VARIANT) or None


class EmptyReplicaRouter:
    """Reads from the replica, which has no rows, and writes to the default database."""

    def db_for_read(self, _model: object, **_: object) -> str:
        """Give the alias of the replica."""
        return "replica"

    def db_for_write(self, _model: object, **_: object) -> str:
        """Give the alias of the default database."""
        return "default"


def vary(databases: dict[str, dict[str, Any]], directory: Path) -> list[str]:
    """Change the databases for the variant of this run, and give the routers that it has."""
    match variant():
        case "atomic-requests":
            for one in databases.values():
                one["ATOMIC_REQUESTS"] = True
        case "serializable" if "postgres" in databases:
            from psycopg import IsolationLevel  # noqa: PLC0415 - only where PostgreSQL is used

            databases["postgres"]["OPTIONS"]["isolation_level"] = IsolationLevel.SERIALIZABLE
        case "replica":
            databases["replica"] = {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": ":memory:",
                "TEST": {"NAME": str(directory / "replica.sqlite3")},
            }
            return [f"{__name__}.EmptyReplicaRouter"]
    return []
