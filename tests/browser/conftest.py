"""The fixtures of the browser's tests: a server, a browser, and people who log in.

Playwright is imported where it is used: whoever doesn't run these tests needn't have it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.db import connections
from django.test.testcases import LiveServerThread

from tests.admin.scene import make
from tests.browser.visits import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser
    from pytest_django.fixtures import Settings

EXECUTABLE: Final = os.environ.get("STITCHKIT_TEST_BROWSER", "/usr/bin/chromium")
PASSWORD: Final = "pw"  # noqa: S105 - guards nothing
ARGUMENTS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this directory."""
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)):  # noqa: PTH120 - a prefix
            item.add_marker("browser")


@pytest.fixture(scope="session")
def browser(django_db_setup: None) -> Iterator[Browser]:  # noqa: ARG001 - asked for its effect
    """Give the system's Chromium."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra of its own

    # In the loop's context connections are others: each must be closed where it was opened.
    connections.close_all()
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as environment:
        # Playwright's loop runs in this thread, though nothing of Django's runs in the loop.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        started = playwright.chromium.launch(executable_path=EXECUTABLE, args=[*ARGUMENTS])
        yield started
        started.close()
        connections.close_all()


@pytest.fixture
def server(browser: Browser, postgres_alias: str, settings: Settings) -> Iterator[str]:
    """Give the URL of a site with the scene in its store."""
    assert browser.is_connected()
    settings.STITCHKIT = {"DATABASE": postgres_alias}
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    make(postgres_alias)
    thread = LiveServerThread("127.0.0.1", StaticFilesHandler)
    thread.daemon = True
    thread.start()
    thread.is_ready.wait()
    if thread.error:
        raise thread.error
    yield f"http://127.0.0.1:{thread.port}"
    thread.terminate()
    for rows in (LogEntry.objects, Session.objects, get_user_model().objects):
        rows.all().delete()


@pytest.fixture
def enter(browser: Browser, server: str) -> Iterator[Callable[..., Visitor]]:
    """Give what lets somebody in who has some permissions; all if none are named."""
    contexts: list[Any] = []

    def let_in(*codenames: str, **context: Any) -> Visitor:
        name = f"user-{len(contexts)}"
        user = get_user_model().objects.create_user(name, password=PASSWORD, is_staff=True)
        user.is_superuser = not codenames
        user.save()
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        contexts.append(browser.new_context(base_url=server, **context))
        visitor = Visitor(contexts[-1].new_page(), server)
        visitor.log_in(name, PASSWORD)
        return visitor

    yield let_in
    for context in contexts:
        context.close()
