"""The fixtures of the admin's tests: somebody who is logged in, on a database in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session
from django.test import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import Settings

    from tests.admin.pages import LogIn


@pytest.fixture
def log_in(alias: str, settings: Settings) -> Iterator[LogIn]:
    """Give what logs somebody in who has some permissions; all if none are named.

    The store's rows are in the database of the test, the users always in the default one.
    """
    settings.STITCHKIT = {"DATABASE": alias}
    users = get_user_model().objects

    def enter(*codenames: str) -> Client:
        user = users.create(
            username=f"user-{users.count()}", is_staff=True, is_superuser=not codenames
        )
        found = Permission.objects.filter(
            content_type__app_label="stitchkit_django", codename__in=codenames
        )
        assert len(found) == len(codenames)
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return client

    yield enter
    for rows in (LogEntry.objects, Session.objects, users):
        rows.all().delete()


@pytest.fixture
def client(log_in: LogIn) -> Client:
    """Give a client of somebody who may do everything."""
    return log_in()
