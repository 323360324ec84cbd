"""A database URL in Django's form; nothing here connects to a database."""

from __future__ import annotations

from typing import Any

SQLITE = "sqlite:///"


def configuration(url: str) -> dict[str, Any]:
    """Give an entry of Django's DATABASES.

    Args:
        url: `sqlite:///` and the path of a file, or a PostgreSQL server in a form that libpq
            takes.
    """
    if url.startswith(SQLITE):
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": url.removeprefix(SQLITE),
            "HOST": "",
            "PORT": "",
            "USER": "",
            "PASSWORD": "",
            # A transaction takes the writer's slot when it begins, not in its middle.
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        }

    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - an extra of its own

    server = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": server.pop("dbname", "postgres"),
        "HOST": server.pop("host", ""),
        "PORT": server.pop("port", ""),
        "USER": server.pop("user", ""),
        "PASSWORD": server.pop("password", ""),
        "OPTIONS": server,
    }
