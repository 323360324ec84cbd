"""Where the pages of one admin site are; a page that the site doesn't have gives None."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import NoReverseMatch, reverse

from stitchkit_django.admin.reading import Stored
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
    from django.db.models import Model


class Links:
    """The pages of one site."""

    def __init__(self, site: AdminSite) -> None:
        """Take the site."""
        self._site = site

    def conversation(
        self, conversation_id: str, view: str = "change", **query: object
    ) -> str | None:
        """Give the page of a conversation, or another view of it."""
        return self._of(
            self.registered("head", Conversation), view, quote(conversation_id), **query
        )

    def run(self, key: object, view: str = "change") -> str | None:
        """Give the page of a run by its primary key."""
        return self._of(Run, view, key)

    def run_named(self, conversation_id: str, run_id: str) -> str | None:
        """Give where a run is found by its ids, without asking for it."""
        return self._of(Run, "find", conversation=conversation_id, id=run_id)

    def runs(self, **query: object) -> str | None:
        """Give the list of runs."""
        return self._of(Run, "changelist", **query)

    def operations(self, **query: object) -> str | None:
        """Give the operations page."""
        return self._of(Run, "operations", **query)

    def act(self, name: str, *keys: object) -> str | None:
        """Give where an action on runs is confirmed."""
        return self._of(Run, f"act_{name}", run=list(keys))

    def receipt(self, key: object, view: str = "change") -> str | None:
        """Give the page of a receipt by its primary key."""
        return self._of(AdmissionReceipt, view, key)

    def message(self, key: object, view: str = "change") -> str | None:
        """Give the page of a message by its primary key."""
        return self._of(self.registered("message", Message), view, key)

    def message_named(self, conversation_id: str, message_id: str) -> str | None:
        """Give where a message is found by its ids, without asking for it."""
        model = self.registered("message", Message)
        return self._of(model, "find", conversation=conversation_id, id=message_id)

    def registered(self, kind: str, own: type[Model]) -> type[Model]:
        """Give the model whose admin shows the rows of a kind: the host's, where it has ours."""
        from stitchkit_django.admin.readonly import ReadOnlyAdmin  # noqa: PLC0415 - it has links

        host = Stored(kind).host.model
        if self._site.is_registered(host) and isinstance(
            self._site.get_model_admin(host), ReadOnlyAdmin
        ):
            return host
        return own

    def _of(self, model: type[Model], view: str, *arguments: object, **query: object) -> str | None:
        name = f"{model._meta.app_label}_{model._meta.model_name}_{view}"
        try:
            url = reverse(f"{self._site.name}:{name}", args=arguments, current_app=self._site.name)
        except NoReverseMatch:
            return None
        given = {key: value for key, value in query.items() if value is not None}
        return f"{url}?{urlencode(given, doseq=True)}" if given else url
