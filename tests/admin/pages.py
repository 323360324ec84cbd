"""How tests find pages and look at what they say."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from django.contrib.admin.utils import quote
from django.urls import reverse

from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Model
    from django.test import Client

    LogIn: TypeAlias = "Callable[..., Client]"

READING: Final = ("view_conversation", "view_run", "view_admissionreceipt", "view_message")
"""The permissions of somebody who may look at everything."""
_OWN_IDS: Final[dict[type[Model], str]] = {
    Run: "run_id",
    Message: "message_id",
    AdmissionReceipt: "idempotency_key",
}


def url_of(
    model: type[Model], view: str = "changelist", *arguments: Any, site: str = "admin"
) -> str:
    """Give the URL of a page."""
    name = f"{site}:stitchkit_django_{model._meta.model_name}_{view}"
    return reverse(name, args=[quote(one) for one in arguments])


def conversation_url(conversation_id: str = "c", view: str = "change", site: str = "admin") -> str:
    """Give the URL of a conversation's page."""
    return url_of(Conversation, view, conversation_id, site=site)


def row_url(
    alias: str, model: type[Model], identity: str, view: str = "change", **site: str
) -> str:
    """Give the URL of the page of a row that is known by its own id."""
    row = model._base_manager.using(alias).only("pk").get(**{_OWN_IDS[model]: identity})
    return url_of(model, view, row.pk, **site)


def act_url(alias: str, name: str, *run_ids: str, site: str = "admin") -> str:
    """Give the URL of the page that asks before something is done to runs."""
    rows = Run.objects.using(alias).filter(run_id__in=run_ids)
    query = "&".join(f"run={row.pk}" for row in rows)
    return f"{url_of(Run, f'act_{name}', site=site)}?{query}"


def got(client: Client, url: str, **query: Any) -> str:
    """Give the text of a page that is there: markup, with its references resolved."""
    response = client.get(url, query)
    assert response.status_code == 200, (response.status_code, url)
    return text_of(response)


def text_of(response: Any) -> str:
    """Give a response's text."""
    text: str = response.content.decode()
    return text


def seen(page: str) -> str:
    """Give what a page's main part says, without its markup."""
    main = page[page.index("<main") :]
    main = re.sub("<(style|script).*?</\\1>", "", main, flags=re.DOTALL)
    return " ".join(unescape(re.sub("<[^>]*>", " ", main)).split())


def listed(page: str) -> list[str]:
    """Give what stands in the first column of a list."""
    return [
        unescape(found).strip()
        for found in re.findall(r'<th class="field-id_shown[^"]*"><a [^>]*>(.*?)</a>', page)
    ]


def link(page: str, text: str) -> str | None:
    """Give where a link of this text leads; None where there is none."""
    found = re.search(rf'<a (?:class="[^"]*" )?href="([^"]*)"[^>]*>[^<]*{re.escape(text)}', page)
    return unescape(found[1]) if found else None


def told(response: Any) -> list[str]:
    """Give the messages that a page shows on top."""
    items = re.findall(
        r'<li class="(?:success|warning|error)">(.*?)</li>', text_of(response), re.DOTALL
    )
    return [unescape(item).strip() for item in items]
