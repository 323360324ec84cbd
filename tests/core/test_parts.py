"""Which parts there are, where they may stand, and what they may not say."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from stitchkit_django.core import (
    ControlPart,
    ControlReason,
    FilePart,
    InvalidValueError,
    MessageRole,
    Part,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)
from stitchkit_django.core.parts import close_calls, message_parts

ENVELOPE = ProviderEnvelope(schema_version=0, provider="acme", data={"signature": "x"})
CALL = ToolCallPart(call_id="1", tool_name="add", input={"a": 1})
RESULT = ToolResultPart(call_id="1", tool_name="add", outcome=ToolOutcome.SUCCESS, output=2)
TEXT = TextPart(text="Hello")

PARTS: list[Part] = [
    TEXT,
    FilePart(media_type="image/png", reference="files/1"),
    SourcePart(source_id="s"),
    ReasoningPart(text="Hm"),
    CALL,
    RESULT,
    ProviderPart(envelope=ENVELOPE),
    ControlPart(reason=ControlReason.STALE_RUN),
]
ALLOWED: dict[MessageRole, set[type[Part]]] = {
    MessageRole.USER: {TextPart, FilePart, ProviderPart},
    MessageRole.ASSISTANT: {type(part) for part in PARTS},
    MessageRole.SYSTEM: {TextPart, ProviderPart},
    MessageRole.SUMMARY: {TextPart, ProviderPart},
}


@pytest.mark.parametrize("role", MessageRole)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_part_stands_only_where_its_kind_may(role: MessageRole, part: Part) -> None:
    given = [CALL, part] if part is RESULT else [part]

    if type(part) in ALLOWED[role]:
        assert message_parts(role, given) == tuple(given)
    else:
        with pytest.raises(
            InvalidValueError, match="is not allowed in a message of role"
        ) as refused:
            message_parts(role, given)
        assert refused.value.path == "$.parts[0]"


def test_a_text_is_one_text_part() -> None:
    assert message_parts(MessageRole.USER, "Hello") == (TEXT,)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        pytest.param(TEXT, "$.parts", id="a part alone"),
        pytest.param(None, "$.parts", id="None"),
        pytest.param({"type": "text"}, "$.parts", id="dict"),
        pytest.param([TEXT, "Hello"], "$.parts[1]", id="a text among parts"),
        pytest.param([{"type": "text", "text": "x"}], "$.parts[0]", id="a dict among parts"),
        pytest.param([ENVELOPE], "$.parts[0]", id="an envelope without its part"),
    ],
)
def test_what_is_no_sequence_of_parts_is_refused(given: object, path: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        message_parts(MessageRole.USER, given)

    assert refused.value.path == path


@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        (TextPart, {"text": None}, "$.text"),
        (FilePart, {"media_type": "", "reference": "x"}, "$.media_type"),
        (FilePart, {"media_type": "text/plain", "reference": ""}, "$.reference"),
        (FilePart, {"media_type": "a/b", "reference": "x", "filename": 1}, "$.filename"),
        (SourcePart, {"source_id": ""}, "$.source_id"),
        (SourcePart, {"source_id": "s", "url": 1}, "$.url"),
        (SourcePart, {"source_id": "s", "title": 1}, "$.title"),
        (ReasoningPart, {"text": 1}, "$.text"),
        (ReasoningPart, {"text": "x", "provider": {}}, "$.provider"),
        (ToolCallPart, {"call_id": "", "tool_name": "t", "input": None}, "$.call_id"),
        (ToolCallPart, {"call_id": "1", "tool_name": "", "input": None}, "$.tool_name"),
        (ToolCallPart, {"call_id": "1", "tool_name": "t", "input": {"x": (1,)}}, "$.input.x"),
        (
            ToolCallPart,
            {"call_id": "1", "tool_name": "t", "input": None, "provider": "x"},
            "$.provider",
        ),
        (
            ToolResultPart,
            {"call_id": "", "tool_name": "t", "outcome": "success"},
            "$.call_id",
        ),
        (
            ToolResultPart,
            {"call_id": "1", "tool_name": "t", "outcome": "maybe"},
            "$.outcome",
        ),
        (
            ToolResultPart,
            {"call_id": "1", "tool_name": "t", "outcome": "error", "output": [{1}]},
            "$.output[0]",
        ),
        pytest.param(ProviderPart, {"envelope": None}, "$.envelope", id="no envelope"),
        (ProviderPart, {"envelope": {"provider": "acme"}}, "$.envelope"),
        (
            ProviderEnvelope,
            {"schema_version": -1, "provider": "acme", "data": None},
            "$.schema_version",
        ),
        (ProviderEnvelope, {"schema_version": 0, "provider": "", "data": None}, "$.provider"),
        (
            ProviderEnvelope,
            {"schema_version": 0, "provider": "acme", "data": {"x": {1}}},
            "$.data.x",
        ),
        (ControlPart, {"reason": "bored"}, "$.reason"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_a_part_that_says_what_it_can_not_is_never_built(
    kind: type[Any], fields: dict[str, object], path: str
) -> None:
    with pytest.raises(InvalidValueError) as refused:
        kind(**fields)

    assert refused.value.path == path


def test_closed_sets_of_parts_take_their_plain_strings() -> None:
    result = ToolResultPart(call_id="1", tool_name="t", outcome="error")  # type: ignore[arg-type] # on purpose
    control = ControlPart(reason="run-interrupted")  # type: ignore[arg-type] # on purpose

    assert result.outcome is ToolOutcome.ERROR
    assert control.reason is ControlReason.RUN_INTERRUPTED


def test_a_result_without_output_and_one_whose_output_is_null_differ() -> None:
    without = ToolResultPart(call_id="1", tool_name="t", outcome=ToolOutcome.SUCCESS)
    null = ToolResultPart(call_id="1", tool_name="t", outcome=ToolOutcome.SUCCESS, output=None)

    assert without.output is UNSET
    assert without != null


# ---------------------------------------------------------------- calls and their results


def call(call_id: str, tool_name: str = "add") -> ToolCallPart:
    return ToolCallPart(call_id=call_id, tool_name=tool_name, input=None)


def result(call_id: str, tool_name: str = "add") -> ToolResultPart:
    return ToolResultPart(call_id=call_id, tool_name=tool_name, outcome=ToolOutcome.SUCCESS)


def interrupted(call_id: str, tool_name: str = "add") -> ToolResultPart:
    return ToolResultPart(call_id=call_id, tool_name=tool_name, outcome=ToolOutcome.INTERRUPTED)


def test_results_may_stand_in_another_order_than_their_calls() -> None:
    parts = [call("1"), call("2"), result("2"), TEXT, result("1")]

    assert message_parts(MessageRole.ASSISTANT, parts) == tuple(parts)


@pytest.mark.parametrize(
    ("given", "path", "reason"),
    [
        pytest.param([call("1"), call("1")], "$.parts[1].call_id", "two calls", id="call twice"),
        pytest.param(
            [TEXT, result("1")], "$.parts[1].call_id", "no call '1' stands before it", id="no call"
        ),
        pytest.param(
            [result("1"), call("1")], "$.parts[0].call_id", "no call '1' stands", id="call after"
        ),
        pytest.param(
            [call("1"), result("1"), result("1")],
            "$.parts[2].call_id",
            "call '1' has a result already",
            id="result twice",
        ),
        pytest.param(
            [call("1"), result("1", "sub")],
            "$.parts[1].tool_name",
            "call '1' is of tool 'add'",
            id="another tool",
        ),
    ],
)
def test_each_result_follows_its_one_call(given: list[Part], path: str, reason: str) -> None:
    with pytest.raises(InvalidValueError, match=reason) as refused:
        message_parts(MessageRole.ASSISTANT, given)

    assert refused.value.path == path


def test_closing_gives_each_open_call_an_interrupted_result_beside_it() -> None:
    parts = (TEXT, call("1"), call("2", "sub"), result("1"), call("3"))

    assert close_calls(parts) == (
        TEXT,
        call("1"),
        call("2", "sub"),
        interrupted("2", "sub"),
        result("1"),
        call("3"),
        interrupted("3"),
    )
    assert close_calls(close_calls(parts)) == close_calls(parts)
