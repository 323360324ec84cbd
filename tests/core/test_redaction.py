"""A redaction shows what it gives, and a mistake in it shows too little, never too much."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from stitchkit_django.core import (
    ControlPart,
    ControlReason,
    FilePart,
    MessageRole,
    Part,
    PlacedMessage,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    SourcePart,
    StoredRun,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)
from stitchkit_django.core.driver import Place
from stitchkit_django.core.parts import message_parts
from stitchkit_django.core.redaction import (
    MASK,
    masked,
    redacted,
    redacted_message,
    redacted_placed,
    redacted_receipt,
    redacted_run,
)
from tests.factories import MessageFactory, ReceiptFactory, RunFactory

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "s3cret"  # noqa: S105 - guards nothing
ENVELOPE = ProviderEnvelope(schema_version=1, provider="acme", data=SECRET)
CALL = ToolCallPart(call_id="1", tool_name="t", input=SECRET, provider=ENVELOPE)
RESULT = ToolResultPart(call_id="1", tool_name="t", outcome=ToolOutcome.SUCCESS, output=SECRET)
PARTS: list[Part] = [
    TextPart(text=SECRET),
    FilePart(media_type="text/plain", reference=SECRET, filename=SECRET),
    SourcePart(source_id=SECRET, url=SECRET, title=SECRET),
    ReasoningPart(text=SECRET, provider=ENVELOPE),
    CALL,
    RESULT,
    ProviderPart(envelope=ENVELOPE),
    ControlPart(reason=ControlReason.STALE_RUN),
]


def fail(part: Part) -> Part:
    raise ValueError(part)


WRONG: list[Callable[[Part], Any]] = [
    fail,
    lambda _part: None,
    type,
    str,
    lambda part: ReasoningPart(text="x") if isinstance(part, TextPart) else TextPart(text=SECRET),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_masked_part_says_nothing_and_stays_of_its_kind(part: Part) -> None:
    found = masked(part)

    assert type(found) is type(part)
    assert SECRET not in repr(found)


def test_a_masked_call_keeps_its_result() -> None:
    parts = [masked(part) for part in (CALL, RESULT)]

    assert message_parts(MessageRole.ASSISTANT, parts) == tuple(parts)


def test_a_masked_result_without_output_stays_without() -> None:
    result = ToolResultPart(call_id="1", tool_name="t", outcome=ToolOutcome.INTERRUPTED)

    assert masked(result) == result


def test_without_a_redaction_a_part_is_shown_as_it_is() -> None:
    assert [redacted(part, None) for part in PARTS] == PARTS


def test_a_redaction_decides_what_is_shown() -> None:
    part = TextPart(text=SECRET)

    assert redacted(part, lambda _part: TextPart(text="hidden")) == TextPart(text="hidden")


@pytest.mark.parametrize("redact", WRONG, ids=["raises", "none", "type", "text", "other kind"])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_redaction_that_fails_masks_the_part(
    part: Part, redact: Callable[[Part], Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert redacted(part, redact) == masked(part)
    assert caplog.records[0].levelno == logging.ERROR
    assert SECRET not in caplog.text


@pytest.mark.parametrize("part", [CALL, RESULT])
@pytest.mark.parametrize("change", [{"call_id": "2"}, {"tool_name": "u"}])
def test_a_call_or_result_of_another_call_is_masked(part: Part, change: dict[str, Any]) -> None:
    assert redacted(part, lambda part: replace(part, **change)) == masked(part)


def test_a_call_may_be_shown_with_another_input() -> None:
    shown = replace(CALL, input={"mail": "…"})

    assert redacted(CALL, lambda _part: shown) == shown


def test_all_that_holds_parts_is_redacted() -> None:
    answer = MessageFactory.build(answer=True, parts=SECRET)
    placed = PlacedMessage(message=MessageFactory.build(parts=SECRET), place=Place(1, 0))
    run = StoredRun(run=RunFactory.build(ended=True), terminal_assistant=answer)
    receipt = ReceiptFactory.build(input=MessageFactory.build(parts=SECRET))

    shown = [
        redacted_message(answer, masked),
        redacted_placed(placed, masked),
        redacted_run(run, masked),
        redacted_receipt(receipt, masked),
    ]

    assert SECRET not in repr(shown)
    assert repr(shown).count(MASK) == 4


def test_without_a_redaction_what_holds_parts_is_given_as_it_is() -> None:
    answer = MessageFactory.build(answer=True)
    run = StoredRun(run=RunFactory.build())

    assert redacted_message(answer, None) is answer
    assert redacted_run(run, masked) is run
