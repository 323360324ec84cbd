"""The page on performance shows what the benchmarks printed, all of it, and no other figure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from benchmarks.peers.__main__ import KINDS
from benchmarks.plan import Plan
from stitchkit_docs import measured
from stitchkit_docs.measured import PEERS, POSTGRES, SHOWN, SQLITE, measurements, record
from tests.docs.pages import page

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDS: Final = (*POSTGRES, *SQLITE, *PEERS)
PAGE: Final = "docs/explanation/performance.md"
QUANTITY: Final = re.compile(
    r"\d[\d.,]* ?(?:%|[mµn]?s\b|seconds?\b|times\b|x\b|[kKMG]i?B\b|bytes\b)"
)
ONE: Final = {
    "section": "turn, all messages read",
    "name": "100 messages",
    "contender": "store",
    "p50_us": 1234.5,
    "p95_us": 2000.0,
    "per_second": 810.04,
    "ratio": None,
    "written_bytes": 7000,
    "growth": None,
    "growth_of_written": None,
}


@pytest.mark.parametrize("name", RECORDS)
def test_nothing_is_missing_of_what_was_measured(name: str) -> None:
    assert record(name)["missing"] == {}


@pytest.mark.parametrize("name", RECORDS)
def test_what_was_measured_is_shown_once(name: str) -> None:
    everything = [_identity(one) for one in record(name)["measurements"]]
    shown = [
        _identity(one)
        for section in SHOWN.values()
        if name in section.records
        for one in measurements(name, section)
    ]

    assert sorted(shown) == sorted(everything)


@pytest.mark.parametrize("name", [*POSTGRES, *SQLITE])
def test_what_was_run_was_the_command_as_it_is_by_default(name: str) -> None:
    options = record(name)["options"]

    assert {key: options[key] for key in Plan._fields} == json.loads(json.dumps(Plan()._asdict()))


def test_each_peer_was_measured() -> None:
    assert record("peers")["options"]["only"] == [one.name for one in KINDS if one.requirements]


def test_each_run_has_the_django_that_its_name_says() -> None:
    for name in POSTGRES:
        assert f"postgres-django-{record(name)['machine']['django']}".startswith(f"{name}.")


def test_no_figure_is_written_by_hand() -> None:
    assert QUANTITY.findall(page(PAGE).text) == []


def test_a_measurement_is_a_row_and_a_column_without_values_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {
        "machine": {"django": "5.2", "database": "PostgreSQL 15"},
        "measurements": [ONE, {**ONE, "contender": "peer", "ratio": 2.5}],
    }
    monkeypatch.setattr(measured, "record", lambda _: found)

    assert measured.sections()["measured peer turns"]() == (
        "**Django 5.2 on PostgreSQL 15**\n\n"
        "| what | by | p50 µs | p95 µs | in a second | ratio | WAL bytes |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| **turn, all messages read** |  |  |  |  |  |  |\n"
        "| 100 messages | store | 1,234 | 2,000 | 810.0 |  | 7,000 |\n"
        "| 100 messages | peer | 1,234 | 2,000 | 810.0 | 2.50 | 7,000 |"
    )


def _identity(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return one["section"], one["name"], one["contender"]
