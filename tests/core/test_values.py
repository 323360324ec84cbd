"""What an identifier, a text, a moment, a number and a JSON value may be."""

from __future__ import annotations

import enum
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from stitchkit_django.core import (
    InvalidIdentifierError,
    InvalidValueError,
    MessageRole,
    RunState,
    values,
)

HIGH, LOW = "\ud83d", "\ude00"


class Text(str):
    """As a template's safe text is."""

    __slots__ = ()


class Level(enum.IntEnum):
    LOW = 1


# ---------------------------------------------------------------- identifiers


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("x", id="one character"),
        pytest.param("~" * 255, id="255 characters"),
        pytest.param("ü" * 255, id="255 characters beyond ASCII"),
        pytest.param("a b", id="a space within"),
        pytest.param("\U0001f600", id="a character beyond the first plane"),
        pytest.param("a\u200bb", id="a zero-width space within"),
        pytest.param("é", id="composed"),
        pytest.param("e\u0301", id="decomposed"),
    ],
)
def test_an_identifier_is_kept_as_it_was_given(given: str) -> None:
    assert values.identifier("run_id", given) == given


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("x" * 256, "has 256 characters: at most 255 are allowed", id="too long"),
        pytest.param("ü" * 10_000, "has 10000 characters: at most 255 are allowed", id="far"),
        pytest.param(" x", "has white space at an end", id="leading space"),
        pytest.param("x ", "has white space at an end", id="trailing space"),
        pytest.param("x\n", "has white space at an end", id="trailing line feed"),
        pytest.param("\u3000x", "has white space at an end", id="leading ideographic space"),
        pytest.param("x\xa0", "has white space at an end", id="trailing no-break space"),
        pytest.param("a\x00b", "has a control character", id="NUL"),
        pytest.param("a\x7fb", "has a control character", id="DEL"),
        pytest.param("a\x9fb", "has a control character", id="a later control"),
        pytest.param("a\nb", "has a control character", id="line feed within"),
        pytest.param(f"a{HIGH}", "has a surrogate", id="lone surrogate"),
        pytest.param(f"a{HIGH}{LOW}", "has a surrogate", id="surrogate pair"),
        pytest.param(None, "is not a str", id="None"),
        pytest.param(7, "is not a str", id="int"),
        pytest.param(b"x", "is not a str", id="bytes"),
    ],
)
def test_what_breaks_the_rule_for_identifiers_is_refused(given: object, reason: str) -> None:
    with pytest.raises(InvalidIdentifierError) as refused:
        values.identifier("run_id", given)

    assert (refused.value.name, refused.value.value, refused.value.reason) == (
        "run_id",
        given,
        reason,
    )
    assert len(str(refused.value)) < 200


def test_an_identifier_of_a_subclass_of_str_becomes_a_plain_one() -> None:
    assert type(values.identifier("run_id", Text("x"))) is str


def test_only_an_optional_identifier_may_be_absent() -> None:
    assert values.optional_identifier("run_id", None) is None
    assert values.optional_identifier("run_id", "x") == "x"


@pytest.mark.parametrize("given", [["a", "b"], ("a", "b")], ids=["list", "tuple"])
def test_a_sequence_of_identifiers_becomes_a_tuple(given: object) -> None:
    assert values.identifiers("ids", given) == ("a", "b")


@pytest.mark.parametrize("given", ["ab", {"a"}, None], ids=["str", "set", "None"])
def test_what_is_no_sequence_of_identifiers_is_refused(given: object) -> None:
    with pytest.raises(InvalidValueError, match=r"^\$\.ids: .* is not a sequence of ids$"):
        values.identifiers("ids", given)


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("a\x00b", "a\x00b", id="NUL"),
        pytest.param("naïve", "naïve", id="beyond ASCII"),
        pytest.param(HIGH, HIGH, id="lone high"),
        pytest.param(LOW, LOW, id="lone low"),
        pytest.param(LOW + HIGH, LOW + HIGH, id="low before high"),
        pytest.param(HIGH + LOW, "\U0001f600", id="pair"),
        pytest.param(HIGH + HIGH + LOW + LOW, HIGH + "\U0001f600" + LOW, id="pair between"),
        pytest.param(Text("x"), "x", id="subclass"),
    ],
)
def test_a_surrogate_pair_is_joined_and_all_else_of_a_text_kept(given: str, kept: str) -> None:
    found = values.text("text", given)

    assert found == kept
    assert type(found) is str


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"^\$\.text: b'x' is not a str$"):
        values.text("text", b"x")
    assert values.optional_text("text", None) is None


def test_a_text_that_must_say_something_is_not_empty() -> None:
    assert values.full_text("name", "x") == "x"
    with pytest.raises(InvalidValueError, match=r"^\$\.name: is empty$"):
        values.full_text("name", "")


# ---------------------------------------------------------------- moments, numbers, closed sets


def test_a_moment_is_kept_in_utc_to_the_microsecond() -> None:
    tokyo = timezone(timedelta(hours=9))

    found = values.moment("at", datetime(2026, 3, 1, 9, 0, 0, 123_456, tokyo))

    assert found == datetime(2026, 3, 1, 0, 0, 0, 123_456, UTC)
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "given",
    [datetime(2026, 3, 1), "2026-03-01T00:00:00Z", 0],  # noqa: DTZ001 - what is refused
    ids=["naive", "text", "number"],
)
def test_what_is_no_aware_moment_is_refused(given: object) -> None:
    with pytest.raises(InvalidValueError) as refused:
        values.optional_moment("at", given)

    assert refused.value.path == "$.at"


def test_a_count_begins_at_0_and_an_ordinal_at_1() -> None:
    assert values.count("n", 0) == values.optional_count("n", 0) == 0
    assert values.ordinal("n", 2**63 - 1) == values.optional_ordinal("n", 2**63 - 1) == 2**63 - 1
    assert values.optional_count("n", None) is values.optional_ordinal("n", None) is None


@pytest.mark.parametrize(
    "given", [-1, 2**63, True, 1.0, "1"], ids=["negative", "too large", "bool", "float", "str"]
)
def test_what_is_no_whole_number_of_a_database_is_refused(given: object) -> None:
    for checker in (values.count, values.ordinal):
        with pytest.raises(InvalidValueError) as refused:
            checker("n", given)
        assert refused.value.path == "$.n"


def test_an_ordinal_is_not_0() -> None:
    with pytest.raises(InvalidValueError, match=r"^\$\.n: 0 is not in 1 to 9223372036854775807$"):
        values.ordinal("n", 0)


def test_a_flag_is_true_or_false_and_nothing_like_it() -> None:
    assert values.flag("safe", value=True) is True
    with pytest.raises(InvalidValueError, match=r"^\$\.safe: 1 is neither True nor False$"):
        values.flag("safe", 1)


def test_a_member_of_a_closed_set_may_be_its_plain_string() -> None:
    assert values.member("state", RunState, "queued") is RunState.QUEUED
    assert values.member("state", RunState, RunState.FAILED) is RunState.FAILED


@pytest.mark.parametrize("given", ["waiting", None, 1], ids=["unknown", "None", "int"])
def test_what_is_not_of_a_closed_set_is_refused_with_the_set(given: object) -> None:
    with pytest.raises(InvalidValueError, match="is not one of user, assistant, system, summary"):
        values.member("role", MessageRole, given)


# ---------------------------------------------------------------- JSON values


@pytest.mark.parametrize(
    ("given", "path"),
    [
        pytest.param({"x": [1, float("nan")]}, "$.input.x[1]", id="NaN"),
        pytest.param({"x": float("inf")}, "$.input.x", id="infinity"),
        pytest.param([float("-inf")], "$.input[0]", id="negative infinity"),
        pytest.param({"when": datetime(2026, 3, 1, tzinfo=UTC)}, "$.input.when", id="datetime"),
        pytest.param({"a b": uuid.UUID(int=0)}, "$.input['a b']", id="UUID"),
        pytest.param({"x": (1, 2)}, "$.input.x", id="tuple"),
        pytest.param({"x": {1}}, "$.input.x", id="set"),
        pytest.param({"x": b"x"}, "$.input.x", id="bytes"),
        pytest.param({"x": Text("x")}, "$.input.x", id="subclass of str"),
        pytest.param({"x": Level.LOW}, "$.input.x", id="subclass of int"),
        pytest.param({"x": MessageRole.USER}, "$.input.x", id="enum"),
        pytest.param({"x": 10**4_000}, "$.input.x", id="4,001 digits"),
        pytest.param({"x": -(10**4_000)}, "$.input.x", id="4,001 digits, negative"),
        pytest.param({"y": {1: 0, "1": 0}}, "$.input.y", id="keys that differ in type alone"),
        pytest.param({None: 0}, "$.input", id="a key that is None"),
        pytest.param({Text("x"): 0}, "$.input", id="a key of a subclass of str"),
        pytest.param(
            {HIGH + LOW: 0, "\U0001f600": 1}, "$.input", id="keys that are one once joined"
        ),
    ],
)
def test_what_json_does_not_have_is_refused_with_its_path(given: object, path: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        values.json_value("input", given)

    assert refused.value.path == path


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_500_levels_are_walked_and_more_are_refused_however_many_they_are() -> None:
    assert values.depth(values.json_value("input", nested(500))) == 500
    for levels in (501, 100_000):
        with pytest.raises(InvalidValueError, match="lies deeper than 500 levels"):
            values.json_value("input", nested(levels))


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(InvalidValueError, match="lies deeper than 500 levels"):
        values.json_value("input", circle)


def test_a_json_value_is_a_copy_that_its_giver_can_not_change() -> None:
    given = {"list": [1, {"deep": True}]}
    kept = values.json_value("input", given)

    given["list"].append(2)

    assert kept == {"list": [1, {"deep": True}]}


def test_surrogate_pairs_are_joined_in_values_and_keys() -> None:
    kept = values.json_value("input", {f"k{HIGH}{LOW}": [f"v{HIGH}{LOW}", HIGH]})

    assert kept == {"k\U0001f600": ["v\U0001f600", HIGH]}


def test_a_json_object_is_a_dict_or_absent() -> None:
    assert values.json_object("metadata", None) is None
    assert values.json_object("metadata", {"a": 1}) == {"a": 1}
    with pytest.raises(InvalidValueError, match=r"^\$\.metadata: \[\] is not a dict$"):
        values.json_object("metadata", [])
