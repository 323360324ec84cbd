"""What a run was measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from benchmarks.databases import Database


def facts(database: Database) -> dict[str, Any]:
    """Give the machine's facts and the versions that count."""
    return {
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
        "load_average": os.getloadavg()[0],
        "database": database.version(),
        "python": platform.python_version(),
        "django": django.__version__,
        "psycopg": version("psycopg"),
        "msgspec": version("msgspec"),
        "stitchkit_django": version("stitchkit-django"),
    }
