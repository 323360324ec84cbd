"""What was accepted is read back exactly; what can't be read is refused."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitchkit_django.core import (
    Applied,
    ControlPart,
    ControlReason,
    Cost,
    FilePart,
    HistoryPage,
    InvalidIdentifierError,
    InvalidValueError,
    Message,
    Provenance,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    RecoverablePage,
    Run,
    RunView,
    Snapshot,
    SourcePart,
    StoredRun,
    TextPart,
    TokenCount,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
    UnsupportedSchemaVersionError,
    Usage,
    values,
    wire,
)
from stitchkit_django.core.records import Head, pending_assistant
from tests.core import json_values
from tests.factories import MOMENT, HeadFactory, MessageFactory, ReceiptFactory, RunFactory

if TYPE_CHECKING:
    from stitchkit_django.core.checked import Record
    from stitchkit_django.core.values import JSONValue

USAGE = Usage(
    input_tokens=TokenCount(value=7, provenance=Provenance.PROVIDER_REPORTED),
    output_tokens=TokenCount(provenance=Provenance.UNAVAILABLE),
    cost=Cost(
        amount=Decimal("123456789012345678.0123456789"),
        currency="USD",
        provenance=Provenance.COMPUTED,
    ),
)
ENVELOPE = ProviderEnvelope(schema_version=3, provider="acme", data={"b": [None, {}], "a": 1})
ANSWER = MessageFactory.build(
    answer=True,
    metadata={"k": None},
    parts=[
        TextPart(text="Hello \x00 \ud83d"),
        FilePart(media_type="image/png", reference="files/1", filename="1.png"),
        SourcePart(source_id="s", url="https://example.com", title="S"),
        ReasoningPart(text="Hm", provider=ENVELOPE),
        ToolCallPart(call_id="1", tool_name="add", input={"a": 10**4_000 - 1}, provider=ENVELOPE),
        ToolResultPart(call_id="1", tool_name="add", outcome=ToolOutcome.SUCCESS, output=None),
        ToolCallPart(call_id="2", tool_name="add", input=None),
        ToolResultPart(call_id="2", tool_name="add", outcome=ToolOutcome.INTERRUPTED),
        ProviderPart(envelope=ENVELOPE),
        ControlPart(reason=ControlReason.RUN_INTERRUPTED),
    ],
)
ENDED = RunFactory.build(ended=True, usage=USAGE, terminal_detail="\ud83d \x00")
DOCUMENTS: dict[str, Record] = {
    "head": HeadFactory.build(),
    "purged head": HeadFactory.build(purged_at=MOMENT),
    "queued run": RunFactory.build(),
    "acquired run": RunFactory.build(acquired=True, leased=True, usage=USAGE),
    "ended run": ENDED,
    "absorbed run": RunFactory.build(absorbed=True),
    "run without its answer": StoredRun(run=RunFactory.build()),
    "run with its answer": StoredRun(run=ENDED, terminal_assistant=ANSWER),
    "receipt": ReceiptFactory.build(),
    "input": MessageFactory.build(metadata={}),
    "answer": ANSWER,
    "pending answer": pending_assistant(RunFactory.build()),
    "snapshot": Snapshot(
        conversation_id="c", version=2, messages=(ANSWER,), turns=(1,), runs=(ENDED,)
    ),
    "run view": RunView(snapshot_version=2, run=ENDED, assistant=ANSWER),
    "history page": HistoryPage(version=2, messages=(ANSWER,), before="x"),
    "recoverable page": RecoverablePage(
        moment=MOMENT, items=(RunFactory.build(),), next_cursor="x"
    ),
}
RECORDS = DOCUMENTS | {
    "usage": USAGE,
    "outcome": Applied(
        version=1, run=RunFactory.build(), pending=pending_assistant(RunFactory.build())
    ),
}


def is_same(one: object, other: object) -> bool:
    """Compare as `==` does, but with types, the sign of zero and the order of keys."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other


# ---------------------------------------------------------------- values


@json_values.unhurried
@given(json_values.values)
def test_every_json_value_is_read_back_exactly(value: JSONValue) -> None:
    part = ToolCallPart(call_id="1", tool_name="t", input=value)

    (found,) = wire.PARTS.decode(wire.PARTS.encode((part,)))

    assert isinstance(found, ToolCallPart)
    assert is_same(found.input, values.json_value("input", value))


@json_values.unhurried
@given(json_values.texts)
def test_every_text_is_read_back_exactly(text: str) -> None:
    part = TextPart(text=text)

    assert wire.PARTS.decode(wire.PARTS.encode((part,))) == (part,)
    assert wire.TEXT.decode(wire.TEXT.encode(part.text)) == part.text


@json_values.unhurried
@given(json_values.objects)
def test_stored_text_holds_neither_nul_nor_surrogates(metadata: dict[str, JSONValue]) -> None:
    text = wire.METADATA.encode(MessageFactory.build(metadata=metadata).metadata or {})

    assert "\x00" not in text
    assert text.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"t": 1e100, "z": -0.0}, '{"t":1e100,"z":-0.0}', id="floats"),
        pytest.param({"n": 2**64}, '{"n":18446744073709551616}', id="over 64 bits"),
        pytest.param({"\x00": "\x00"}, r'{"\u0000":"\u0000"}', id="NUL"),
        pytest.param({"b": 1, "a": 2}, '{"b":1,"a":2}', id="key order"),
        pytest.param({"x": "\ud83d"}, r'{"x":"\ud83d"}', id="lone high surrogate"),
        pytest.param({"\ude00": "ü"}, r'{"\ude00":"ü"}', id="lone low surrogate in a key"),
        pytest.param({"x": "\ud83d", "n": 2**64}, r'{"x":"\ud83d","n":18446744073709551616}'),
        pytest.param({"x": "\\ud83d"}, r'{"x":"\\ud83d"}', id="what only looks like one"),
    ],
)
def test_a_value_has_one_text_and_is_read_back_from_it(
    value: dict[str, JSONValue], text: str
) -> None:
    assert wire.METADATA.encode(value) == text
    assert is_same(wire.METADATA.decode(text), value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"a":NaN', "7", '{"a":"\\ud83d"', "[" * 100_000],
    ids=["empty", "cut", "list", "NaN", "number", "cut after a surrogate", "deep"],
)
def test_a_stored_text_that_is_not_what_it_must_be_is_told(text: str) -> None:
    with pytest.raises(wire.DECODING_ERRORS):
        wire.METADATA.decode(text)


# ---------------------------------------------------------------- records


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_every_record_is_read_back_from_its_text(record: Record) -> None:
    text = wire.encode_record(record)

    assert wire.decode_record(type(record), text) == record
    assert "\n" not in text


def names_in(value: object) -> set[str]:
    """Give the names of all fields, but not what stands inside JSON values."""
    if isinstance(value, list):
        return {name for item in value for name in names_in(item)}
    if not isinstance(value, dict):
        return set()
    opaque = {"input", "output", "data", "metadata"}
    return set(value) | {
        name for key, item in value.items() if key not in opaque for name in names_in(item)
    }


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_names_are_in_camel_case_and_what_is_absent_is_left_out(record: Record) -> None:
    document = json.loads(wire.encode_record(record))

    assert all(name.isalpha() and name[0].islower() for name in names_in(document))
    for field, name in zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True):
        assert (name in document) is not (getattr(record, field) in (None, (), msgspec.UNSET))


@pytest.mark.parametrize("record", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_record_carries_its_schema_version_and_any_other_is_refused(record: Record) -> None:
    document = json.loads(wire.encode_record(record))
    assert document["schemaVersion"] == 1

    others: list[object] = [0, 2, "1", None, [], "\ud83d"]
    for version in others:
        text = json.dumps(document | {"schemaVersion": version})
        with pytest.raises(UnsupportedSchemaVersionError) as refused:
            wire.decode_record(type(record), text)
        assert refused.value.row == type(record).__name__
        assert refused.value.schema_version == version
    del document["schemaVersion"]
    with pytest.raises(UnsupportedSchemaVersionError):
        wire.decode_record(type(record), json.dumps(document))


def test_the_wire_form_of_a_run_and_its_answer_is_pinned() -> None:
    answer = MessageFactory.build(answer=True, parts="Hi")
    run = RunFactory.build(ended=True, usage=Usage(cost=USAGE.cost))

    document = json.loads(
        wire.encode_record(RunView(snapshot_version=4, run=run, assistant=answer))
    )

    moment = "2026-03-01T12:00:00Z"
    assert document == {
        "schemaVersion": 1,
        "snapshotVersion": 4,
        "run": {
            "schemaVersion": 1,
            "id": "r1",
            "conversationId": "c",
            "turn": 1,
            "inputMessageIds": ["i-r1"],
            "assistantMessageId": "a-r1",
            "state": "completed",
            "revision": 0,
            "ownerId": "worker",
            "fencingToken": 1,
            "terminalReason": "success",
            "usage": {
                "cost": {
                    "value": float("123456789012345678.0123456789"),
                    "currency": "USD",
                    "provenance": "computed",
                }
            },
            "createdAt": moment,
            "updatedAt": moment,
            "acquiredAt": moment,
            "endedAt": moment,
        },
        "assistant": {
            "schemaVersion": 1,
            "id": "a-r1",
            "conversationId": "c",
            "runId": "r1",
            "role": "assistant",
            "status": "completed",
            "parts": [{"type": "text", "text": "Hi"}],
            "createdAt": moment,
            "updatedAt": moment,
        },
    }


def test_a_pending_answer_says_so_on_the_wire() -> None:
    document = json.loads(wire.encode_record(pending_assistant(RunFactory.build())))

    assert document["status"] == "pending"


def test_an_absent_output_and_a_null_one_differ_on_the_wire() -> None:
    without = ToolResultPart(call_id="1", tool_name="t", outcome=ToolOutcome.SUCCESS)
    null = ToolResultPart(call_id="1", tool_name="t", outcome=ToolOutcome.SUCCESS, output=None)

    assert "output" not in json.loads(wire.encode_record(without))
    assert json.loads(wire.encode_record(null))["output"] is None
    assert wire.decode_record(ToolResultPart, wire.encode_record(without)) == without
    assert wire.decode_record(ToolResultPart, wire.encode_record(null)) == null


@pytest.mark.parametrize("detail", [None, "plain", "\ud83d", '"\ud83d 0.5"'], ids=ascii)
@pytest.mark.parametrize(
    "amount",
    ["0", "0.1", "123456789012345678.0123456789", "9" * 28, "1E+27", "0E-10", "0.10"],
)
def test_a_cost_is_a_json_number_and_keeps_every_digit(amount: str, detail: str | None) -> None:
    cost = Cost(amount=Decimal(amount), currency="USD", provenance=Provenance.COMPUTED)
    run = RunFactory.build(ended=True, usage=Usage(cost=cost), terminal_detail=detail)

    text = wire.encode_record(run)

    number = json.loads(text, parse_float=Decimal)["usage"]["cost"]["value"]
    assert Decimal(number) == Decimal(amount)
    assert not isinstance(number, str)
    assert wire.decode_record(Run, text) == run


@pytest.mark.parametrize("other", [0.1, 1e100, -0.0, 5e-324, 2.0])
def test_floats_stay_floats_beside_a_surrogate(other: float) -> None:
    message = MessageFactory.build(metadata={"x": "\ud83d", "n": other})

    found = wire.decode_record(Message, wire.encode_record(message))

    assert is_same(found.metadata, {"x": "\ud83d", "n": other})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="cut"),
        pytest.param("[]", id="a list"),
        pytest.param("7", id="a number"),
        pytest.param("[" * 100_000, id="too deep"),
        pytest.param('{"schemaVersion":1}', id="no fields"),
        pytest.param('{"schemaVersion":true}', id="a version that only equals 1"),
        pytest.param('{"schemaVersion":1,"version":' + "1" * 5_000 + "}", id="a huge number"),
        pytest.param(
            '{"schemaVersion":1,"conversationId":"c","version":"1","updatedAt":"2026-03-01T12:00Z"}',
            id="a field of another type",
        ),
        pytest.param(
            '{"schemaVersion":1,"conversationId":"c","version":1,"updatedAt":"2026-03-01T12:00:00"}',
            id="a naive moment",
        ),
    ],
)
def test_what_is_no_record_of_the_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        wire.decode_record(Head, text)


def test_a_record_that_contradicts_itself_is_not_read_either() -> None:
    text = wire.encode_record(RunFactory.build()).replace('"queued"', '"running"')

    with pytest.raises(InvalidValueError) as refused:
        wire.decode_record(Run, text)
    with pytest.raises(InvalidIdentifierError):
        wire.decode_record(Run, text.replace('"r1"', '" r1"'))

    assert refused.value.path == "$.owner_id"


@pytest.mark.parametrize("beside", ["x", "\ud83d"], ids=ascii)
@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400"])
def test_a_number_that_json_does_not_have_is_not_read(value: str, beside: str) -> None:
    text = wire.encode_record(MessageFactory.build(metadata={"x": beside, "n": 0}))

    with pytest.raises(InvalidValueError):
        wire.decode_record(Message, text.replace('"n":0', f'"n":{value}'))


# ---------------------------------------------------------------- same input


def admitted(parts: Any = "Hello?", metadata: Any = None) -> Message:
    return MessageFactory.build(parts=parts, metadata=metadata)


def is_same_input(one: Message, other: Message) -> bool:
    return wire.same_input(one.parts, one.metadata, other)


@json_values.unhurried
@given(json_values.texts, json_values.objects | st.none())
def test_an_input_is_the_same_as_itself(text: str, metadata: dict[str, JSONValue] | None) -> None:
    assert is_same_input(admitted(text, metadata), admitted(text, metadata))


@json_values.unhurried
@given(json_values.values, json_values.values)
def test_inputs_are_the_same_exactly_when_their_values_are(
    one: JSONValue, other: JSONValue
) -> None:
    first, second = admitted(metadata={"x": one}), admitted(metadata={"x": other})

    alike = is_same(sorted_keys(first.metadata), sorted_keys(second.metadata))

    assert is_same_input(first, second) is alike


def sorted_keys(value: JSONValue) -> JSONValue:
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_keys(item) for item in value]
    return value


@pytest.mark.parametrize("text", ["x", "\ud83d"], ids=ascii)
def test_the_order_of_keys_does_not_count_at_any_depth(text: str) -> None:
    one = admitted(metadata={"a": {"b": {"c": 1, "d": text}}, "e": 2})
    other = admitted(metadata={"e": 2, "a": {"b": {"d": text, "c": 1}}})

    assert is_same_input(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": {"b": [1]}}, {"a": {"b": [2]}}, id="a nested value"),
        pytest.param({"a": 1}, {"a": True}, id="1 and true"),
        pytest.param({"a": 1}, {"a": 1.0}, id="1 and 1.0"),
        pytest.param({"a": 0.0}, {"a": -0.0}, id="0.0 and -0.0"),
        pytest.param({"a": 10**100}, {"a": 1e100}, id="a large integer and a float"),
        pytest.param({"a": "1"}, {"a": 1}, id="a text and a number"),
        pytest.param({"a": None}, {}, id="null and absent"),
        pytest.param({}, None, id="an empty object and none"),
        pytest.param({"a": [1, 2]}, {"a": [2, 1]}, id="the order of a list"),
        pytest.param({"é": 1}, {"e\u0301": 1}, id="two forms of one key"),
        pytest.param({"a": "\ud83d"}, {"a": "\\ud83d"}, id="a surrogate and its escape"),
    ],
)
def test_what_differs_in_value_or_type_is_another_input(one: Any, other: Any) -> None:
    assert not is_same_input(admitted(metadata=one), admitted(metadata=other))
    assert not is_same_input(admitted(metadata=other), admitted(metadata=one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Hello?", "Hello!", id="another text"),
        pytest.param("ab", [TextPart(text="a"), TextPart(text="b")], id="cut elsewhere"),
        pytest.param(
            [FilePart(media_type="a/b", reference="x")],
            [FilePart(media_type="a/b", reference="x", filename="x")],
            id="a name",
        ),
        pytest.param(
            [TextPart(text="acme")],
            [ProviderPart(envelope=ProviderEnvelope(schema_version=0, provider="acme", data=0))],
            id="another kind of part",
        ),
    ],
)
def test_what_differs_in_its_parts_is_another_input(one: Any, other: Any) -> None:
    assert not is_same_input(admitted(one), admitted(other))


def test_when_and_under_which_id_an_input_came_does_not_count() -> None:
    one = MessageFactory.build(id="x", created_at=MOMENT)

    assert is_same_input(one, admitted())
