"""What the project's redaction hides is on no page, in no raw view and in no export."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from stitchkit_django import get_store
from stitchkit_django.core import FilePart, TextPart, ToolCallPart, ToolOutcome, ToolResultPart
from stitchkit_django.models import AdmissionReceipt, Message, Run
from tests.admin.pages import conversation_url, got, row_url, seen
from tests.admin.redacting import SECRET
from tests.core.steps import acquire, admit, end


@pytest.fixture
def urls(alias: str, client: Client, settings: Any) -> list[str]:
    """Give the URLs of all that shows parts, of a conversation whose parts hold a secret."""
    assert isinstance(client, Client)
    settings.STITCHKIT = settings.STITCHKIT | {"REDACT": "tests.admin.redacting.texts_alone"}
    store = get_store(alias)
    files = FilePart(media_type="text/plain", reference=f"https://x/{SECRET}")
    run = admit(store, parts=[TextPart(text=f"Mine is {SECRET}."), files])
    call = ToolCallPart(call_id="1", tool_name="t", input={"key": SECRET})
    done = ToolOutcome.SUCCESS
    result = ToolResultPart(call_id="1", tool_name="t", outcome=done, output=SECRET)
    end(store, acquire(store, run), [call, result, TextPart(text=f"Yours is {SECRET}.")])
    found = [conversation_url(view=view) for view in ("change", "raw", "export")]
    for model, identity in (
        (Run, "r1"),
        (AdmissionReceipt, "1"),
        (Message, "i-1"),
        (Message, "a-r1"),
    ):
        found += [row_url(alias, model, identity, view) for view in ("change", "raw")]
    return found


def test_what_is_redacted_is_nowhere_to_be_seen(client: Client, urls: list[str]) -> None:
    for url in urls:
        page = got(client, url)
        assert SECRET not in page, url
        assert "•••" in page or "\\u2022" in page, url


def test_a_part_that_the_redaction_fails_on_is_masked(client: Client, urls: list[str]) -> None:
    text = seen(got(client, urls[0]))

    assert "Mine is •••." in text
    assert "Yours is •••." in text
    assert text.count("[redacted]") >= 3


def test_a_redacted_export_has_all_rows(client: Client, urls: list[str]) -> None:
    rows = json.loads(got(client, urls[2]))["conversation"]

    assert [len(rows[kind]) for kind in ("messages", "runs", "receipts")] == [2, 1, 1]


def test_what_can_t_be_read_is_not_shown_where_there_is_a_redaction(
    alias: str, client: Client, urls: list[str]
) -> None:
    for model, column in (
        (Message, "parts"),
        (Run, "terminal_assistant"),
        (AdmissionReceipt, "input"),
    ):
        with connections[alias].cursor() as cursor:
            cursor.execute(
                f"UPDATE {model._meta.db_table} SET {column} = %s",
                [f'[{{"type":"{SECRET}","text":"{SECRET}"}}]'],
            )

    for url in urls:
        page = got(client, url)
        assert SECRET not in page, url
        assert "[redacted]" in page, url


def test_the_store_keeps_what_was_said(alias: str, urls: list[str]) -> None:
    assert urls
    assert SECRET in repr(get_store(alias).load_snapshot("c"))
