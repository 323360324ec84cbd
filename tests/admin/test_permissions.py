"""Rows are for reading, and each page for those alone who may see what it shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from stitchkit_django import get_store
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.admin.filling import fill
from tests.admin.pages import READING, conversation_url, got, row_url, seen, url_of
from tests.admin.scene import ORDER, STUCK, make
from tests.admin.walk import pages
from tests.core.steps import acquire, admit, answered, end
from tests.django.hooks import tables

if TYPE_CHECKING:
    from django.db.models import Model

    from tests.admin.pages import LogIn

MODELS = (Conversation, Run, AdmissionReceipt, Message)


def row_urls(alias: str, view: str) -> list[str]:
    return [
        conversation_url(view=view),
        row_url(alias, Run, "r1", view),
        row_url(alias, AdmissionReceipt, "1", view),
        row_url(alias, Message, "i-1", view),
    ]


def test_there_are_no_permissions_to_add_to_change_or_to_delete(alias: str, log_in: LogIn) -> None:
    assert alias
    assert callable(log_in)
    found = Permission.objects.filter(content_type__app_label="stitchkit_django")

    assert set(found.values_list("codename", flat=True)) == {
        *READING,
        "interrupt_run",
        "cancel_run",
        "requeue_run",
        "abandon_run",
        "purge_conversation",
    }


@pytest.mark.parametrize("method", ["get", "post"])
def test_nobody_adds_or_deletes_a_row(alias: str, client: Client, method: str) -> None:
    answered(get_store(alias))
    before = tables(alias)
    urls = [url_of(model, "add") for model in MODELS] + row_urls(alias, "delete")

    for url in urls:
        assert getattr(client, method)(url, {"post": "yes"}).status_code == 403, url

    assert tables(alias) == before


def test_a_posted_form_changes_no_row_whatever_has_happened_meanwhile(
    alias: str, client: Client
) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))
    form = {"state": "queued", "owner_id": "me", "run_id": "r1", "_save": "Save"}
    for url in row_urls(alias, "change"):
        assert got(client, url)
    end(store, run)
    before = tables(alias)

    for url in row_urls(alias, "change"):
        assert client.post(url, form).status_code == 403, url

    assert tables(alias) == before


def test_the_actions_of_django_s_own_are_not_there(alias: str, client: Client) -> None:
    answered(get_store(alias))
    before = tables(alias)

    for model in MODELS:
        assert "delete_selected" not in got(client, url_of(model))
        keys = list(model._base_manager.using(alias).values_list("pk", flat=True))
        chosen = {"action": "delete_selected", "_selected_action": keys, "index": 0, "post": "yes"}
        client.post(url_of(model), chosen)

    assert tables(alias) == before


def test_a_reader_sees_no_way_to_write(alias: str, log_in: LogIn) -> None:
    make(alias)
    reader = log_in(*READING)
    urls = [url_of(model) for model in MODELS] + [
        conversation_url(ORDER),
        url_of(Run, "operations"),
    ]
    urls += [row_url(alias, Run, STUCK), row_url(alias, Message, "input-1")]

    for url in urls:
        page = got(reader, url)
        content = page[page.index('id="content"') :]
        for word in ("Abandon", "Requeue", "Cancel", "Request interrupt", "Purge…", "Add ", "Save"):
            assert word not in seen(page), (url, word)
        assert 'name="action"' not in content
        # What a page's forms send: a search, by GET. The list's own form has nothing to send.
        assert set(re.findall(r'type="submit"[^>]*value="([^"]*)"', content)) <= {"Search"}


def test_whoever_is_not_logged_in_sees_nothing(alias: str) -> None:
    fill(alias, 10)

    for url in pages(alias).values():
        response = Client().get(url)
        assert response.status_code == 302
        assert "/login/" in response.headers["Location"]


def test_each_page_needs_a_permission(alias: str, log_in: LogIn) -> None:
    fill(alias, 10)
    other = log_in("purge_conversation")

    for name, url in pages(alias).items():
        assert other.get(url).status_code == 403, name


@pytest.mark.parametrize("model", MODELS)
def test_the_permission_for_one_kind_of_rows_opens_no_page_of_another(
    alias: str, log_in: LogIn, model: type[Model]
) -> None:
    answered(get_store(alias))
    client = log_in(f"view_{model._meta.model_name}")

    for other, row in zip(MODELS, row_urls(alias, "change"), strict=True):
        expected = 200 if other is model else 403
        assert client.get(url_of(other)).status_code == expected
        assert client.get(row).status_code == expected


def test_who_may_not_see_messages_sees_none_on_any_page(alias: str, log_in: LogIn) -> None:
    answered(get_store(alias))
    client = log_in("view_conversation", "view_run", "view_admissionreceipt")

    for url in row_urls(alias, "change")[:3]:
        page = seen(got(client, url))
        assert "Hello" not in page, url
    for url in [*row_urls(alias, "raw")[:3], conversation_url(view="export")]:
        assert client.get(url).status_code == 403, url


def test_who_may_not_see_runs_sees_none_on_a_conversation_s_page(alias: str, log_in: LogIn) -> None:
    answered(get_store(alias))

    page = got(log_in("view_conversation", "view_message"), conversation_url())

    assert "Hello!" in page
    assert "r1" not in seen(page).replace("a-r1", "")
    assert "Receipts" not in seen(page)


def test_staff_without_any_permission_sees_no_app(alias: str, log_in: LogIn) -> None:
    assert alias
    client = log_in("view_run")
    client.get("/admin/")

    assert "stitchkit_django" in got(client, "/admin/")
    nobody = log_in("view_run")
    user_id = int(nobody.session["_auth_user_id"])
    Permission.user_set.through.objects.filter(user_id=user_id).delete()
    assert "stitchkit_django/" not in got(nobody, "/admin/")
