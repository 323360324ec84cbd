"""The pages work on a site of a project's own, subclassed, translated, over a product's rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin import AdminSite, site
from django.test import Client
from django.urls import get_script_prefix

from stitchkit_django import get_store
from stitchkit_django.admin.links import Links
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.admin.pages import act_url, conversation_url, got, link, listed, row_url, seen, url_of
from tests.admin.scene import ORDER, STUCK, make
from tests.core.steps import answered
from tests.product.models import Chat, ChatMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import Model


MODELS = (Conversation, Run, AdmissionReceipt, Message)


def test_the_pages_of_a_site_lead_to_that_site_alone(alias: str, client: Client) -> None:
    make(alias)
    urls = [url_of(model, site="support") for model in MODELS]
    urls += [conversation_url(ORDER, site="support"), url_of(Run, "operations", site="support")]
    urls += [conversation_url(ORDER, "purge", site="support")]
    urls += [
        row_url(alias, Run, STUCK, site="support"),
        act_url(alias, "abandon", STUCK, site="support"),
    ]
    urls += [row_url(alias, Message, "input-1", site="support")]

    for url in urls:
        page = got(client, url)
        links = [one for one in re.findall(r'href="([^"]*)"', page) if one.startswith("/")]
        own = [one for one in links if not one.startswith("/static/") and one != "/"]
        assert own
        assert [one for one in own if not one.startswith("/support/")] == [], url


def test_an_action_on_a_site_leads_back_to_it(alias: str, client: Client) -> None:
    make(alias)
    url = act_url(alias, "abandon", STUCK, site="support")
    runs = re.findall(r'name="run" value="([^"]*)"', got(client, url))

    response = client.post(url.partition("?")[0], {"run": runs, "reason": "gone"}, follow=True)

    assert response.redirect_chain == [(row_url(alias, Run, STUCK, site="support"), 302)]


def test_a_subclass_adds_columns_and_leaves_rows_out(alias: str, client: Client) -> None:
    store = get_store(alias)
    answered(store)
    store.accept_input("other-1", "k", "Hello?", run_id="r2")

    runs = got(client, url_of(Run, site="support"))

    assert listed(runs) == ["r1"]
    assert "R1" in seen(runs)
    assert listed(got(client, url_of(Conversation, site="support"))) == ["c"]
    assert listed(got(client, url_of(Conversation, site="support"), q="other-1")) == []
    assert client.get(conversation_url("other-1", site="support")).status_code == 404
    assert client.get(row_url(alias, Run, "r2", site="support")).status_code == 404
    assert client.get(row_url(alias, Run, "r2", "raw", site="support")).status_code == 404
    assert client.get(act_url(alias, "cancel", "r2", site="support")).status_code == 404
    assert client.get(conversation_url("other-1", "export", site="support")).status_code == 404
    assert "queued 0" in seen(got(client, url_of(Run, "operations", site="support")))
    assert client.get(conversation_url("other-1")).status_code == 200
    assert "queued 1" in seen(got(client, url_of(Run, "operations")))


def test_a_site_without_some_of_the_admins_has_no_links_to_them() -> None:
    links = Links(AdminSite(name="empty"))

    assert links.runs() is None
    assert links.conversation("c") is None
    assert get_script_prefix() == "/"


def test_a_label_is_in_the_reader_s_language(alias: str, client: Client) -> None:
    make(alias)

    response = client.get(row_url(alias, Run, STUCK), headers={"accept-language": "de"})

    # Django's own catalogues have some of our words.
    assert 'lang="de"' in response.content.decode()
    assert "Geschichte" in response.content.decode() or "Verlauf" in response.content.decode()


class WritesElsewhere:
    """Sends writes of the store's models to one database, and reads to an empty one."""

    def __init__(self, alias: str) -> None:
        """Take where they are written."""
        self._alias = alias

    def db_for_write(self, model: type[Model], **_: object) -> str | None:
        """Name it for the store's models."""
        return self._alias if model._meta.app_label == "stitchkit_django" else None

    def db_for_read(self, model: type[Model], **_: object) -> str | None:
        """Name the other one."""
        if model._meta.app_label != "stitchkit_django":
            return None
        return {"default": "postgres", "postgres": "default"}[self._alias]


def test_pages_read_where_the_router_writes(alias: str, client: Client, settings: Any) -> None:
    settings.STITCHKIT = {}
    settings.DATABASE_ROUTERS = [WritesElsewhere(alias)]
    make(alias)

    assert STUCK in listed(got(client, url_of(Run)))
    assert "Then I want my money back" in got(client, conversation_url(ORDER))
    assert STUCK in seen(got(client, url_of(Run, "operations")))
    assert "worker-7 loses it" in got(client, act_url(alias, "abandon", STUCK))


@pytest.fixture
def product(alias: str, client: Client, settings: Any) -> Iterator[str]:
    """Let a product's rows host the store's; give the alias."""
    assert isinstance(client, Client)
    settings.STITCHKIT = {
        "DATABASE": alias,
        "CONVERSATION_MODEL": {"model": "product.Chat", "columns": {"conversation_id": "key"}},
        "MESSAGE_MODEL": {"model": "product.ChatMessage", "columns": {"parts": "body"}},
    }
    yield alias
    for model in (Chat, ChatMessage):
        model._base_manager.using(alias).all().delete()


def test_the_pages_show_a_product_s_rows(product: str, client: Client) -> None:
    answered(get_store(product))
    pk = ChatMessage._base_manager.using(product).get(message_id="i-1").pk

    assert listed(got(client, url_of(Conversation))) == ["c"]
    assert listed(got(client, url_of(Conversation), q="i-1")) == ["c"]
    assert listed(got(client, url_of(Message))) == ["a-r1", "i-1"]
    assert listed(got(client, url_of(Message), q="c")) == ["a-r1", "i-1"]
    page = got(client, conversation_url())
    assert "Hello! " in seen(page)
    assert "Hello!" in seen(got(client, row_url(product, Run, "r1")))
    assert "Hello?" in seen(got(client, url_of(Message, "change", pk)))
    for view in ("raw", "export"):
        assert "Hello!" in got(client, conversation_url(view=view))
    assert got(client, conversation_url(view="history"))
    assert link(page, "r1") == row_url(product, Run, "r1")


def test_a_product_s_conversation_is_purged(product: str, client: Client) -> None:
    answered(get_store(product))

    response = client.post(
        conversation_url(view="purge"), {"typed": "c", "version": 3}, follow=True
    )

    assert "purged for good" in seen(response.content.decode())
    assert not ChatMessage._base_manager.using(product).exists()


def test_the_default_site_has_all_four() -> None:
    assert all(site.is_registered(model) for model in MODELS)
