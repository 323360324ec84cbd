"""How large one message may be; refused before a driver is asked for anything."""

from __future__ import annotations

from typing import Any

import pytest

from stitchkit_django.core import (
    InvalidValueError,
    Limits,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def envelope(data: Any) -> ProviderEnvelope:
    return ProviderEnvelope(schema_version=0, provider="acme", data=data)


def test_a_store_keeps_a_mebibyte_and_100_levels_unless_told_otherwise() -> None:
    assert (Limits().max_message_bytes, Limits().max_depth) == (1024 * 1024, 100)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"max_message_bytes": 0}, "$.max_message_bytes"),
        ({"max_message_bytes": 1.5}, "$.max_message_bytes"),
        ({"max_depth": 0}, "$.max_depth"),
        ({"max_depth": 501}, "$.max_depth"),
    ],
    ids=repr,
)
def test_a_limit_that_can_not_be_kept_is_refused(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        Limits(**fields)

    assert refused.value.path == path


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (lambda data: ToolCallPart(call_id="1", tool_name="t", input=data), "input"),
        (
            lambda data: ToolCallPart(
                call_id="1", tool_name="t", input=None, provider=envelope(data)
            ),
            "provider.data",
        ),
        (
            lambda data: ToolResultPart(
                call_id="1", tool_name="t", outcome=ToolOutcome.SUCCESS, output=data
            ),
            "output",
        ),
        (lambda data: ReasoningPart(text="", provider=envelope(data)), "provider.data"),
        (lambda data: ProviderPart(envelope=envelope(data)), "envelope.data"),
    ],
    ids=["input", "provider of a call", "output", "provider of reasoning", "envelope"],
)
def test_the_depth_of_every_json_value_is_bounded(part: Any, field: str) -> None:
    limits = Limits()
    plain = ToolResultPart(call_id="1", tool_name="t", outcome=ToolOutcome.SUCCESS)
    before = (TextPart(text=""), ReasoningPart(text=""), plain)

    limits.check((*before, part(nested(100))), None)
    with pytest.raises(InvalidValueError, match="has 101 levels: at most 100") as refused:
        limits.check((*before, part(nested(101))), None)

    assert refused.value.path == f"$.parts[3].{field}"


def test_the_depth_of_metadata_counts_its_own_level() -> None:
    Limits(max_depth=3).check((), {"x": [[]]})
    with pytest.raises(InvalidValueError, match="has 4 levels: at most 3") as refused:
        Limits(max_depth=3).check((), {"x": [[[]]], "y": {}})

    assert refused.value.path == "$.metadata"


def test_the_size_is_that_of_parts_and_metadata_as_stored() -> None:
    parts = (TextPart(text="ü\ud83d\x00"),)
    stored = len('[{"type":"text","text":"') + 2 + 6 + 6 + len('"}]') + len('{"a":1}')

    Limits(max_message_bytes=stored).check(parts, {"a": 1})
    with pytest.raises(InvalidValueError) as refused:
        Limits(max_message_bytes=stored - 1).check(parts, {"a": 1})

    assert refused.value.path == "$.parts"
    assert refused.value.reason == (
        f"a message of {stored} bytes: at most {stored - 1} are allowed"
    )


def test_a_part_of_50_megabytes_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="at most 1048576 are allowed"):
        Limits().check((TextPart(text="x" * 50_000_000),), None)
