"""Django's settings; all of them have a value without any environment variable."""

from __future__ import annotations

import os

from example import DIRECTORY
from example.databases import configuration

DATABASES = {
    "default": configuration(
        os.environ.get("EXAMPLE_DATABASE_URL", f"sqlite:///{DIRECTORY / 'example.sqlite3'}")
    ),
}

INSTALLED_APPS = [
    "example",
    "stitchkit_django",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
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
ROOT_URLCONF = "example.urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

# An example for this machine alone: with DEBUG on, Django answers localhost and no other host.
DEBUG = True
SECRET_KEY = "of the example project, known to everybody"  # noqa: S105 - guards nothing
