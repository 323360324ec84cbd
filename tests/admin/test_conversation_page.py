"""A conversation's page: what was said, by which runs; paged, opened, raw and exported."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django import get_store
from stitchkit_django.core import (
    ControlPart,
    ControlReason,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)
from stitchkit_django.core.documents import rows_of
from stitchkit_django.models import Message, Run
from tests.admin.filling import LONG, fill
from tests.admin.pages import conversation_url, got, link, row_url, seen, text_of, url_of
from tests.admin.scene import ORDER, STUCK, make
from tests.core.steps import acquire, admit, answered, checkpoint, compact, end

if TYPE_CHECKING:
    from django.test import Client

    from stitchkit_django.core import Part


def test_the_page_tells_a_conversation_in_its_order(alias: str, client: Client) -> None:
    make(alias)

    text = seen(got(client, conversation_url(ORDER)))

    said = [
        "Hello, where is my parcel?",
        "Your order **4711**",
        "Can you bring it to my neighbour instead?",
        "I could not reach the carrier.",
        "Then I want my money back",
        "I understand.",
        "Are you still there?",
    ]
    assert [text.index(one) for one in said] == sorted(text.index(one) for one in said)


def test_a_call_stands_beside_its_result(alias: str, client: Client) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))
    first = ToolCallPart(call_id="1", tool_name="add", input={"a": 1})
    second = ToolCallPart(call_id="2", tool_name="mail", input={"to": "ann"})
    done = ToolOutcome.SUCCESS
    result = ToolResultPart(call_id="1", tool_name="add", outcome=done, output={"sum": 3})
    checkpoint(store, run, [first, second, result])

    text = seen(got(client, conversation_url()))

    assert "Call add" in text
    assert text.index('"a": 1') < text.index('"sum": 3') < text.index('"to": "ann"')
    assert "no result yet" in text


def test_each_kind_of_part_is_drawn(alias: str, client: Client) -> None:
    store = get_store(alias)
    envelope = ProviderEnvelope(schema_version=1, provider="acme", data={"signature": "s1"})
    parts: list[Part] = [
        ReasoningPart(text="I think."),
        ProviderPart(envelope=envelope),
        ControlPart(reason=ControlReason.RUN_INTERRUPTED),
        ToolCallPart(call_id="1", tool_name="t", input=None),
        ToolResultPart(call_id="1", tool_name="t", outcome=ToolOutcome.ERROR),
    ]
    end(store, acquire(store, admit(store)), parts)

    page = got(client, conversation_url())

    assert "<summary>Reasoning</summary>" in page
    assert "<summary>Data of acme</summary>" in page
    for text in ("I think.", '"signature": "s1"', "The run was interrupted.", "error", "no output"):
        assert text in seen(page)


def test_runs_that_have_said_nothing_are_told_at_the_end(alias: str, client: Client) -> None:
    make(alias)

    text = seen(got(client, conversation_url(ORDER)))

    assert text.index("queued run run-thanks") > text.index("Are you still there?")
    assert "worker-7 · lease: lapsed" in text


def test_the_timeline_tells_spans_attempts_and_cost(alias: str, client: Client) -> None:
    make(alias)

    page = got(client, conversation_url(ORDER))

    assert 'aria-label="waited 1.4\u00a0s, worked 9.0\u00a0s"' in page
    assert "stopped by a policy" in seen(page)
    assert "0.0213 EUR" in seen(page)


def test_a_run_of_several_attempts_is_told_as_such(alias: str, client: Client) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store), lease=timedelta(seconds=1))
    recovered = store.recover_run(
        "c", run.id, expected_revision=run.revision, action="requeue", replay_safe=True
    )
    assert recovered.outcome == "applied"
    acquire(store, store.list_active_runs("c")[0])

    assert "2 attempts" in seen(got(client, conversation_url()))


def test_the_page_begins_with_the_newest_messages_and_is_walked_to_the_first(
    alias: str, client: Client
) -> None:
    fill(alias, 900)

    def ids(page: str) -> list[str]:
        return [part.split('"')[0] for part in page.split("key <code>")[1:]]

    found: list[str] = []
    page = got(client, conversation_url(LONG))
    while True:
        keys = [part.split("<")[0] for part in ids(page)]
        found = keys + found
        older = link(page, "&lsaquo; Older")
        if older is None:
            break
        page = got(client, older)
    forth = link(page, "Newer &rsaquo;")

    assert found == [f"k-{number}" for number in range(10, 901, 10)]
    assert forth is not None
    second = got(client, forth)
    assert link(second, "Newer &rsaquo;") is not None
    assert "k-260" in second


def test_a_turn_of_many_inputs_is_walked_each_of_them_once(alias: str, client: Client) -> None:
    store = get_store(alias)
    admit(store, "0")
    for number in range(1, 120):
        admit(store, str(number), coalesce_into="r0")

    found: list[str] = []
    url: str | None = conversation_url()
    while url is not None:
        page = got(client, url)
        found = [part.split("<")[0] for part in page.split("key <code>")[1:]] + found
        url = link(page, "&lsaquo; Older")

    assert found == [str(number) for number in range(120)]


@pytest.mark.parametrize("language", ["de", "en"])
def test_bars_are_drawn_the_same_in_every_language(
    alias: str, client: Client, settings: Any, language: str
) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    make(alias)

    for url in (conversation_url(ORDER), row_url(alias, Run, STUCK)):
        page = text_of(client.get(url, headers={"accept-language": language}))
        widths = re.findall(r'<rect [^>]*width="([^"]*)"', page)
        assert all(width.isdigit() for width in widths)
        assert any(len(width) > 3 for width in widths)


def test_a_summary_opens_to_no_more_than_it_replaced(alias: str, client: Client) -> None:
    store = get_store(alias)
    for key in "123":
        answered(store, key)
    compact(store, "i-1", "a-r1", summary_id="first")
    compact(store, "i-2", "a-r2", summary_id="second")

    opened = [got(client, f"{conversation_url()}?within={one}") for one in ("first", "second")]

    assert [seen(page).count("Hello!") for page in opened] == [1, 1]
    assert ["key <code>1" in opened[0], "key <code>2" in opened[1]] == [True, True]


def test_a_summary_opens_to_what_it_replaced(alias: str, client: Client) -> None:
    store = get_store(alias)
    for key in "123":
        answered(store, key)
    compact(store, "i-1", "a-r1", summary_id="inner")
    compact(store, "inner", "i-2", "a-r2", summary_id="outer")

    page = got(client, conversation_url())
    opened = got(client, link(page, "Show the messages that it replaced") or "")

    assert page.count("<article") == 3
    assert opened.count("<article") == 5
    assert opened.count("In short.") == 1
    assert link(opened, "Back to the conversation") == conversation_url()


def test_what_a_long_summary_replaced_is_paged(alias: str, client: Client) -> None:
    store = get_store(alias)
    for number in range(40):
        answered(store, str(number))
    ids = [message.id for message in store.load_snapshot("c").messages]
    compact(store, *ids[:-2])

    page = got(client, conversation_url() + "?within=s")
    second = got(client, link(page, "Newer &rsaquo;") or "")

    assert (page.count("<article"), second.count("<article")) == (50, 28)
    assert link(second, "Newer &rsaquo;") is None


@pytest.mark.parametrize(
    "query",
    ["before=x", "before=1", "before=1.99999999999", "after=1.2.3", "within=none", "within=%00"],
)
def test_a_place_that_is_none_is_not_found(alias: str, client: Client, query: str) -> None:
    answered(get_store(alias))

    assert client.get(f"{conversation_url()}?{query}").status_code == 404


@pytest.mark.parametrize("view", ["change", "raw", "export", "purge"])
@pytest.mark.parametrize("identity", ["none", "c\0", "x" * 10_000, " c", "\u202e"])
def test_an_unknown_conversation_is_not_found(
    alias: str, client: Client, view: str, identity: str
) -> None:
    answered(get_store(alias))

    assert client.get(conversation_url(identity, view)).status_code == 404


@pytest.mark.parametrize(
    "identity", ["a/b", "a/change/", "ä ö", "?x=1#y", "_2F", '"><b>', "..", "%00"]
)
def test_any_id_has_its_page(alias: str, client: Client, identity: str) -> None:
    get_store(alias).accept_input(identity, "k", "Hello?")

    assert "Hello?" in seen(got(client, conversation_url(identity)))
    assert json.loads(got(client, conversation_url(identity, "export")))


def test_a_purged_conversation_says_so(alias: str, client: Client) -> None:
    store = get_store(alias)
    answered(store)
    store.purge_conversation("c")

    text = seen(got(client, conversation_url()))

    assert "Purged" in text
    assert "All that it held was purged." in text
    assert "Purge…" not in text


def test_a_long_text_is_cut_on_the_page_and_whole_in_the_raw_view(
    alias: str, client: Client, settings: Any
) -> None:
    settings.STITCHKIT = settings.STITCHKIT | {"MAX_MESSAGE_BYTES": 8_000_000}
    text = "x" * 5_000_000
    get_store(alias).accept_input("c", "k", text, input_message_id="i")

    page = got(client, conversation_url())
    raw = got(client, row_url(alias, Message, "i", "raw"))

    assert len(page) < 40_000
    assert "cut: 5,000,000 characters in all" in seen(page)
    assert json.loads(raw)["parts"] == [{"type": "text", "text": text}]


def test_a_long_json_value_is_cut_likewise(alias: str, client: Client) -> None:
    store = get_store(alias)
    call = ToolCallPart(call_id="1", tool_name="t", input=list(range(100_000)))
    checkpoint(store, acquire(store, admit(store)), [call])

    page = got(client, conversation_url())

    assert len(page) < 40_000
    assert "characters in all" in seen(page)


def test_many_parts_are_cut_likewise(alias: str, client: Client) -> None:
    get_store(alias).accept_input("c", "k", [TextPart(text=str(n)) for n in range(1_000)])

    assert "and 800 parts more" in seen(got(client, conversation_url()))


def test_a_page_holds_no_more_than_a_page_s_worth_of_long_messages(
    alias: str, client: Client, settings: Any
) -> None:
    settings.STITCHKIT = settings.STITCHKIT | {"MAX_MESSAGE_BYTES": 8_000_000}
    store = get_store(alias)
    for number in range(5):
        store.accept_input("c", str(number), "x" * 5_000_000)

    text = seen(got(client, conversation_url()))

    assert text.count("characters in all") == 3
    assert text.count("4.8 MB are too much for this page") == 2


def test_the_raw_view_has_the_messages_of_the_page(alias: str, client: Client) -> None:
    store = get_store(alias)
    store.accept_input("c", "k", "Hello?", metadata={"a": 1.0, "b": None}, input_message_id="i")

    response = client.get(conversation_url(view="raw"))

    (message,) = response.json()["messages"]
    assert message["parts"] == [{"type": "text", "text": "Hello?"}]
    assert message["metadata"] == {"a": 1.0, "b": None}
    assert message["message_id"] == "i"
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_the_export_is_a_document_that_can_be_imported(alias: str, client: Client) -> None:
    make(alias)
    stored = get_store(alias).driver.rows(ORDER)

    response = client.get(conversation_url(ORDER, "export"))

    found = rows_of(response.content.decode())
    assert stored is not None
    assert found.head == stored.head
    assert sorted(found.runs, key=str) == sorted(stored.runs, key=str)
    assert sorted(found.messages, key=str) == sorted(stored.messages, key=str)
    assert response.headers["Content-Disposition"] == f'attachment; filename="{ORDER}.json"'


def test_the_name_of_an_export_is_one_that_any_file_system_takes(
    alias: str, client: Client
) -> None:
    identity = '../a"b/\\ü' + "x" * 200
    get_store(alias).accept_input(identity, "k", "Hello?")

    response = client.get(conversation_url(identity, "export"))

    name = response.headers["Content-Disposition"].removeprefix("attachment; filename=")
    assert name == '"' + (".._a_b_" + "x" * 200)[:80] + '.json"'


def test_a_message_leads_into_its_conversation(alias: str, client: Client) -> None:
    store = get_store(alias)
    for key in "123":
        answered(store, key)

    page = got(client, row_url(alias, Message, "a-r2"))
    context = got(client, link(page, "In its conversation") or "")

    assert context.count("<article") == 4
    assert link(context, "Newer") is not None


def test_a_message_is_found_by_its_ids(alias: str, client: Client) -> None:
    answered(get_store(alias))
    found = url_of(Message, "find")

    there = client.get(found, {"conversation": "c", "id": "a-r1"})
    missing = client.get(found, {"conversation": "c", "id": "none"})
    impossible = client.get(found, {"conversation": "c\0"})

    assert there.headers["Location"] == row_url(alias, Message, "a-r1")
    assert (missing.status_code, impossible.status_code) == (404, 404)


def test_the_history_of_a_conversation_is_under_its_id(alias: str, client: Client) -> None:
    answered(get_store(alias))

    page = got(client, conversation_url(view="history"))

    assert f'<a href="{conversation_url()}">c</a>' in page
