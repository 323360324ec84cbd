"""Somebody who walks through the admin, and whatever a page must not do while they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from stitchkit_django.models import AdmissionReceipt, Message, Run
from tests.admin.pages import act_url, conversation_url, row_url, url_of
from tests.admin.scene import ORDER, STUCK
from tests.admin.walk import LISTS

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Dialog, Page, Request

ALIAS: Final = "postgres"


class Visitor:
    """A person's tab; it notes dialogs, errors, and what is asked of other hosts."""

    def __init__(self, page: Page, server: str) -> None:
        """Watch a tab."""
        self.page = page
        self.noted: list[str] = []
        # Every browser asks for one, and no site need have it.
        page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda error: self.noted.append(f"error: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)
        self._host = urlsplit(server).netloc

    def log_in(self, name: str, password: str) -> None:
        """Fill the form of the log-in."""
        self.page.goto("/admin/login/?next=/admin/")
        self.page.fill("#id_username", name)
        self.page.fill("#id_password", password)
        self.page.click("input[type=submit]")
        assert self.page.url.endswith("/admin/")

    def go(self, url: str) -> None:
        """Open a page that is there."""
        response = self.page.goto(url)
        assert response is not None
        assert response.status == 200, url

    def text(self) -> str:
        """Give what can be read on the page."""
        return " ".join(self.page.inner_text("#content-start").split())

    def _dismiss(self, dialog: Dialog) -> None:
        self.noted.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, told: ConsoleMessage) -> None:
        if told.type == "error":
            self.noted.append(f"console: {told.text}")

    def _request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != self._host:
            self.noted.append(f"asked: {request.url}")


def every_page() -> dict[str, str]:
    """Give the URL of each kind of page of the scene, by its name."""
    found = {f"list of {model._meta.verbose_name_plural}": url_of(model) for model in LISTS}
    found |= {
        "narrowed list": f"{url_of(Run)}?state=running&date=2026",
        "search": f"{url_of(Run)}?q={ORDER}",
        "conversation": conversation_url(ORDER),
        "compacted conversation": conversation_url("chat-long"),
        "what a summary replaced": conversation_url("chat-long") + "?within=summary-long",
        "purge": conversation_url("chat-paris", "purge"),
        "purge in vain": conversation_url(ORDER, "purge"),
        "history": row_url(ALIAS, Run, STUCK, "history"),
        "operations": url_of(Run, "operations"),
        "message": row_url(ALIAS, Message, "input-1"),
        "receipt": row_url(ALIAS, AdmissionReceipt, "web-1"),
        "abandon": act_url(ALIAS, "abandon", STUCK, "run-poem"),
        "requeue": act_url(ALIAS, "requeue", STUCK),
        "interrupt": act_url(ALIAS, "interrupt", STUCK),
        "cancel in vain": act_url(ALIAS, "cancel", STUCK),
    }
    for run_id in (STUCK, "run-thanks", "run-address", "run-weather"):
        found[run_id] = row_url(ALIAS, Run, run_id)
    return found
