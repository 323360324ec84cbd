"""Django's settings for the tests, the type checker and makemigrations; they start no server.

`default` is SQLite. `postgres` is there where STITCHKIT_TEST_POSTGRES_URL names a server; a run of
pytest names one before these settings are read (tests/databases.py).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.variants import SERIALIZABLE, variant, vary

# The directory of this run of pytest; its name makes the names of the test databases unique.
_directory = Path(os.environ.get("STITCHKIT_TEST_DIRECTORY", "stitchkit-tests"))

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        # A file, so that threads and processes share it.
        "TEST": {"NAME": str(_directory / "default.sqlite3")},
    },
}

if _url := os.environ.get("STITCHKIT_TEST_POSTGRES_URL"):
    from psycopg.conninfo import conninfo_to_dict

    _server = conninfo_to_dict(_url)
    DATABASES["postgres"] = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _server.pop("host", ""),
        "PORT": _server.pop("port", ""),
        "USER": _server.pop("user", ""),
        "PASSWORD": _server.pop("password", ""),
        "NAME": _server.pop("dbname", "postgres"),
        "OPTIONS": _server,
        "TEST": {"NAME": f"test_{_directory.name}"},
    }

DATABASE_ROUTERS = vary(DATABASES, _directory)

# A process that a test starts works on that test's databases (the fixture child_environment).
for _alias, _name in json.loads(os.environ.get("STITCHKIT_TEST_DATABASE_NAMES", "{}")).items():
    DATABASES[_alias]["NAME"] = _name

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "stitchkit_django",
    "tests.product",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "tests.admin.urls"
STATIC_URL = "static/"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
SECRET_KEY = "for the tests alone"  # noqa: S105 - guards nothing
USE_TZ = True

if variant() == SERIALIZABLE:
    # Of transactions that are run again there are many; tests of processes read what they print.
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"null": {"class": "logging.NullHandler"}},
        "loggers": {"stitchkit_django": {"handlers": ["null"]}},
    }
