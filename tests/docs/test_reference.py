"""The reference says what the code does: what is generated is whole, what is written agrees."""

from __future__ import annotations

import re
from typing import Final

import pytest
from msgspec.structs import fields

from stitchkit_django.conf import Conf
from stitchkit_django.core import AgentStore, ConflictReason, Limits, RunState
from stitchkit_django.core.lifecycle import Operation
from stitchkit_django.core.paging import DEFAULT_LIMIT
from stitchkit_django.core.records import MAX_DETAIL_CHARACTERS
from stitchkit_django.core.usage import MAX_COST_DIGITS, MAX_COST_PLACES
from stitchkit_django.core.values import DEPTH_CEILING
from stitchkit_django.registry import DjangoStore
from stitchkit_docs import diagram, operations, structs
from stitchkit_docs.lifecycle import ASKED_BY
from stitchkit_docs.sections import ASKED, SECTIONS, expanded
from tests.docs.pages import ROOT, page, pages

LIMITS: Final = {
    "1 MiB": Limits().max_message_bytes == 1024 * 1024,
    "100, and 500 at the most": (Limits().max_depth, DEPTH_CEILING) == (100, 500),
    "cut to 4,096 characters": MAX_DETAIL_CHARACTERS == 4_096,
    "28 digits, 10 of them after the point": (MAX_COST_DIGITS, MAX_COST_PLACES) == (28, 10),
    "1 to 1,000, 100 by default": DEFAULT_LIMIT == 100,
}


def test_each_section_is_asked_for_once() -> None:
    asked = [name for one in pages() for name in ASKED.findall(one.text)]

    assert sorted(asked) == sorted(SECTIONS)


def test_a_section_that_is_not_there_stops_the_build() -> None:
    with pytest.raises(KeyError, match="opinions"):
        expanded("<!-- generated: opinions -->")


def test_what_only_a_test_reads_is_not_shown() -> None:
    shown = expanded("one\n<!-- run\nsecret = 1\n-->\ntwo\n<!-- not run: no network -->\nthree\n")

    assert shown == "one\ntwo\nthree\n"


def test_each_method_and_its_async_form_is_in_the_reference() -> None:
    reference = page("docs/reference/operations.md").whole

    public = {name for name in dir(DjangoStore) if not name.startswith("_")} - {"driver"}
    missing = {name for name in public if not re.search(rf"\b{name}\b", reference)}
    assert missing == set()
    assert set(operations.mutations()) | set(operations.reads()) <= set(dir(AgentStore))


def test_each_argument_and_each_error_of_a_method_is_explained() -> None:
    text = SECTIONS["operations"]() + SECTIONS["reads"]()

    unexplained = re.findall(r"^\|.*\|  \|$", text, re.MULTILINE)
    told = [name for name, method in operations.mutations().items() if operations.conflicts(method)]
    assert unexplained == []
    assert sorted(told) == sorted(set(operations.mutations()))


def test_the_reasons_of_a_conflict_are_those_of_the_code_in_their_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", page("docs/reference/outcomes.md").text, re.MULTILINE)

    assert rows == [str(reason) for reason in ConflictReason]


def test_each_operation_of_the_table_of_transitions_says_how_it_is_asked_for() -> None:
    methods = {re.sub(r"^.*?`(\w+)`.*$", r"\1", asked) for asked in ASKED_BY.values()}

    assert set(ASKED_BY) == set(Operation)
    assert methods <= set(operations.mutations())


def test_the_diagram_has_each_state_and_each_operation() -> None:
    drawn = diagram.state_diagram()

    assert [str(state) for state in RunState if f">{state}<" not in drawn] == []
    assert [str(one) for one in Operation if str(one) not in drawn] == []


def test_an_edge_without_a_place_in_the_diagram_stops_the_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = dict(list(diagram.LINES.items())[1:])
    monkeypatch.setattr(diagram, "LINES", lines)

    with pytest.raises(LookupError, match="acquire"):
        diagram.state_diagram()


def test_each_operation_has_its_event_in_the_table() -> None:
    text = page("docs/reference/events.md").text
    rows = re.findall(r"^\| (`\w+`.*) \| (.+) \|$", text, re.MULTILINE)

    named = {name for operations_of, _ in rows for name in re.findall(r"`(\w+)`", operations_of)}
    told = {name for _, event in rows for name in re.findall(r"`(\w+)`", event)}
    assert named == set(operations.mutations())
    assert told == {event.__name__ for event in structs.EVENTS}


def test_the_defaults_of_settings_are_as_the_page_says() -> None:
    text = page("docs/reference/settings.md").text
    said = dict(re.findall(r"^\| `([A-Z_]+)` \|[^|]*\| `?([^|`]+)`? \|", text, re.MULTILINE))

    values = {field.name.upper(): field.default for field in fields(Conf)}
    assert {key: said[key] for key in values} == {key: as_shown(values[key]) for key in values}


def test_each_logger_is_in_the_table() -> None:
    sources = [
        path.read_text(encoding="utf-8") for path in (ROOT / "stitchkit_django").rglob("*.py")
    ]
    rows = re.findall(r"^\| `([\w.]+)` \|", page("docs/reference/logging.md").text, re.MULTILINE)

    made = {name for text in sources for name in re.findall(r'getLogger\("([\w.]+)"\)', text)}
    assert set(rows) == made


def as_shown(value: object) -> str:
    """Give a default as a page shows it."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return str(list(value))
    return f"{value:,}" if type(value) is int else str(value)


@pytest.mark.parametrize("said", LIMITS)
def test_a_limit_is_as_the_page_says(said: str) -> None:
    assert said in page("docs/reference/values.md").text
    assert LIMITS[said]
