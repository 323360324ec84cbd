"""A row that can't be read is shown as such, and takes no page down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from stitchkit_django import get_store
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.admin.pages import conversation_url, got, row_url, seen, url_of
from tests.core.steps import answered

if TYPE_CHECKING:
    from django.db.models import Model
    from django.test import Client

BAD = [
    "",
    "{",
    "null",
    "[1]",
    '[{"type":"hologram","text":"x"}]',
    '[{"type":"text"}]',
    '[{"type":"text","text":"\\ud83d"}]',
    '[{"type":"text","text":"a\\u0000b"}]',
    "[" * 10_000,
    "\xe9 \u202e <b>",
]


def overwrite(alias: str, model: type[Model], column: str, value: Any) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"UPDATE {model._meta.db_table} SET {column} = %s", [value])


def pages_of(alias: str) -> list[str]:
    urls = [url_of(model) for model in (Conversation, Run, AdmissionReceipt, Message)]
    urls += [conversation_url(), conversation_url(view="raw"), conversation_url(view="export")]
    urls += [url_of(Run, "operations"), conversation_url(view="purge")]
    key = Run.objects.using(alias).only("pk").get().pk
    urls += [f"{url_of(Run, 'act_abandon')}?run={key}"]
    for model, pk in ((Run, key), (AdmissionReceipt, None), (Message, None)):
        found = pk or model._base_manager.using(alias).only("pk")[0].pk
        urls += [url_of(model, "change", found), url_of(model, "raw", found)]
    return urls


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_every_page_shows_rows_of_bad_text(alias: str, client: Client, text: str) -> None:
    answered(get_store(alias))
    for model, columns in (
        (Message, ("parts", "metadata")),
        (Run, ("usage", "terminal_assistant", "terminal_detail", "input_message_ids")),
        (AdmissionReceipt, ("input",)),
    ):
        for column in columns:
            overwrite(alias, model, column, text)

    for url in pages_of(alias):
        response = client.get(url)
        assert response.status_code == 200, url
        if "/raw/" in url or "/export/" in url:
            assert json.loads(response.content), url


def test_what_can_t_be_read_is_shown_as_it_is(alias: str, client: Client) -> None:
    answered(get_store(alias))
    overwrite(alias, Message, "parts", '[{"type":"hologram","text":"waves"}]')

    page = seen(got(client, conversation_url()))

    assert "This can't be read: ValidationError" in page
    assert '[{"type":"hologram","text":"waves"}]' in page


def test_a_lone_surrogate_and_nul_are_written_as_escapes(alias: str, client: Client) -> None:
    get_store(alias).accept_input("c", "k", "a\ud83db\0c")

    page = seen(got(client, conversation_url()))

    assert "a\\ud83db\\u0000c" in page


@pytest.mark.parametrize("model", [Conversation, Run, AdmissionReceipt, Message])
def test_an_unknown_schema_version_is_shown_as_such(
    alias: str, client: Client, model: type[Model]
) -> None:
    answered(get_store(alias))
    overwrite(alias, model, "schema_version", 2)

    for url in pages_of(alias):
        assert client.get(url).status_code == 200, url
    told = {
        Conversation: conversation_url(),
        Run: row_url(alias, Run, "r1"),
        AdmissionReceipt: row_url(alias, AdmissionReceipt, "1"),
        Message: conversation_url(),
    }
    assert "schema version 2" in seen(got(client, told[model]))


def test_an_unknown_state_and_role_are_shown_by_their_codes(alias: str, client: Client) -> None:
    answered(get_store(alias))
    with connections[alias].cursor() as cursor:
        if connections[alias].vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = 1")
        else:
            pytest.skip("PostgreSQL refuses such a row, whoever writes it")
    try:
        overwrite(alias, Run, "state", "pondering")
        overwrite(alias, Message, "role", "oracle")

        pages = [seen(got(client, url)) for url in (url_of(Run), conversation_url())]
    finally:
        with connections[alias].cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = 0")

    assert "pondering" in pages[0]
    assert "oracle" in pages[1]
    assert client.get(row_url(alias, Run, "r1")).status_code == 200


@pytest.mark.parametrize(
    "alias", [pytest.param("default", marks=pytest.mark.sqlite)], indirect=True
)
def test_sqlite_s_bytes_that_are_no_text_are_shown(alias: str, client: Client) -> None:
    answered(get_store(alias))
    with connections[alias].cursor() as cursor:
        cursor.execute("UPDATE stitchkit_django_message SET parts = CAST(x'5bff5d' AS TEXT)")

    page = seen(got(client, conversation_url()))
    raw = json.loads(got(client, row_url(alias, Message, "i-1", "raw")))

    assert "[\\udcff]" in page
    assert raw["parts"] == {"unreadable": "[\udcff]"}
    assert got(client, conversation_url(view="export"))
