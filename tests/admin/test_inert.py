"""Whatever a row holds, a page shows it as text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from stitchkit_django import get_store
from stitchkit_django.admin.texts import safe_url
from stitchkit_django.core import (
    FilePart,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.admin.pages import conversation_url, got, row_url, url_of

if TYPE_CHECKING:
    from django.test import Client

    from stitchkit_django.core import Part

SCRIPT = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}"


def hostile(alias: str) -> None:
    """Let each text of a conversation be a script."""
    store = get_store(alias)
    envelope = ProviderEnvelope(schema_version=0, provider=SCRIPT, data={SCRIPT: SCRIPT})
    said: list[Part] = [
        TextPart(text=SCRIPT),
        FilePart(media_type=SCRIPT, reference=f"https://x/{SCRIPT}", filename=SCRIPT),
        ProviderPart(envelope=envelope),
    ]
    ids: dict[str, Any] = {"input_message_id": f"i{SCRIPT}", "run_id": f"r{SCRIPT}"}
    answer: dict[str, Any] = {"assistant_message_id": f"a{SCRIPT}"}
    store.accept_input(SCRIPT, SCRIPT, said, metadata={SCRIPT: SCRIPT}, **ids, **answer)
    taken = store.acquire_run(SCRIPT, ids["run_id"], expected_revision=0, owner_id=SCRIPT)
    assert taken.outcome == "applied"
    store.checkpoint_run(
        SCRIPT,
        ids["run_id"],
        expected_revision=1,
        owner_id=SCRIPT,
        parts=[
            ReasoningPart(text=SCRIPT),
            SourcePart(source_id=SCRIPT, url=f"javascript:{SCRIPT}", title=SCRIPT),
            ToolCallPart(call_id=SCRIPT, tool_name=SCRIPT, input={SCRIPT: [SCRIPT]}),
            ToolResultPart(
                call_id=SCRIPT, tool_name=SCRIPT, outcome=ToolOutcome.ERROR, output=SCRIPT
            ),
        ],
    )


def end(alias: str) -> None:
    outcome = get_store(alias).commit_terminal(
        SCRIPT,
        f"r{SCRIPT}",
        expected_revision=2,
        owner_id=SCRIPT,
        parts=SCRIPT,
        reason="policy_stop",
        policy_name=SCRIPT,
        detail=SCRIPT,
    )
    assert outcome.outcome == "applied"


def test_script_text_in_every_field_is_text_on_every_page(alias: str, client: Client) -> None:
    hostile(alias)
    run, message = row_url(alias, Run, f"r{SCRIPT}"), row_url(alias, Message, f"i{SCRIPT}")
    urls = [url_of(model) for model in (Conversation, Run, AdmissionReceipt, Message)]
    urls += [f"{url}?{urlencode({'q': SCRIPT})}" for url in list(urls)]
    urls += [conversation_url(SCRIPT), conversation_url(SCRIPT, "purge"), run, message]
    urls += [row_url(alias, AdmissionReceipt, SCRIPT), url_of(Run, "operations")]
    urls += [conversation_url(SCRIPT, "history"), row_url(alias, Run, f"r{SCRIPT}", "history")]
    key = Run.objects.using(alias).get().pk
    urls += [f"{url_of(Run, f'act_{name}')}?run={key}" for name in ("interrupt", "abandon")]

    opened = [got(client, url) for url in urls]
    end(alias)
    opened += [got(client, run), got(client, conversation_url(SCRIPT))]

    for page in opened:
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "javascript:" not in page.replace("javascript:&lt;", "").lower()
        assert ">49<" not in page
    assert escape(SCRIPT) in opened[8]


def test_an_outcome_s_message_is_text(alias: str, client: Client) -> None:
    hostile(alias)
    key = Run.objects.using(alias).get().pk

    response = client.post(
        url_of(Run, "act_abandon"), {"run": [f"{key}:2"], "reason": SCRIPT}, follow=True
    )

    assert response.status_code == 200
    assert "<script>alert" not in response.content.decode()
    assert "<script>alert" not in got(client, row_url(alias, Run, f"r{SCRIPT}", "history"))


def test_only_links_that_are_safe_are_links(alias: str, client: Client) -> None:
    store = get_store(alias)
    references = ["https://a.example/1", "javascript:alert(1)", "/srv/file", "mailto:a@b.example"]
    parts = [FilePart(media_type="text/plain", reference=one, filename="f") for one in references]
    store.accept_input("c", "k", parts)

    page = got(client, conversation_url())

    links = [
        part.split(">")[0] for part in page.split("<a ")[1:] if "noopener" in part.split(">")[0]
    ]
    assert [link.split('"')[1] for link in links] == [references[0], references[3]]
    assert all('rel="noopener noreferrer nofollow"' in link for link in links)


@pytest.mark.parametrize(
    ("text", "is_safe"),
    [
        ("https://example.org/a?b=c#d", True),
        ("HTTP://example.org", True),
        ("mailto:a@example.org", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        (" javascript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("\x01javascript:alert(1)", False),
        ("data:text/html,<script>", False),
        ("vbscript:x", False),
        ("file:///etc/passwd", False),
        ("//example.org", False),
        ("example.org", False),
        ("http://[", False),
        ("https://a\ud800", False),
        ("", False),
    ],
)
def test_a_link_leads_to_the_web_or_to_a_mailbox(text: str, is_safe: bool) -> None:
    assert (safe_url(text) is not None) is is_safe


def test_no_reference_is_no_link() -> None:
    assert safe_url(None) is None
