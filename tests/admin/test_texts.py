"""How numbers, spans and texts are written on a page."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from stitchkit_django.admin.texts import (
    MOST_CHARACTERS,
    brief,
    counted,
    cut,
    cut_json,
    duration,
    money,
    printable,
)


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (None, ""),
        (0, "0 ms"),
        (-5, "0 ms"),
        (0.0141, "14 ms"),
        (1, "1 s"),
        (9.96, "10.0 s"),
        (14.4, "14 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3_600, "1 h"),
        (3_661, "1 h 1 min"),
        (86_400 * 3 + 3_600 * 4, "3 d 4 h"),
        (86_400, "1 d"),
        (timedelta(days=4_000), "4,000 d"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(span: timedelta | float | None, told: str) -> None:
    assert duration(span).replace("\u00a0", " ") == told


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        ("0", "0.00 EUR"),
        ("1.5", "1.50 EUR"),
        ("0.0213000000", "0.0213 EUR"),
        ("1234567.1", "1,234,567.10 EUR"),
        ("1E+3", "1,000.00 EUR"),
        ("0.0000000001", "0.0000000001 EUR"),
    ],
)
def test_an_amount_has_the_places_that_say_something(amount: str, told: str) -> None:
    assert money(Decimal(amount), "EUR").replace("\u00a0", " ") == told


def test_no_amount_is_nothing() -> None:
    assert money(None, None) == ""
    assert money(Decimal(1), None) == "1.00"


def test_counts_end_at_a_thousand() -> None:
    assert [counted(one) for one in (0, 1_000, 1_001)] == ["0", "1,000", "1,000+"]


def test_a_text_is_cut_after_so_many_characters() -> None:
    assert not cut("x" * MOST_CHARACTERS).is_cut
    assert cut("x" * (MOST_CHARACTERS + 1)).shown == "x" * MOST_CHARACTERS
    assert cut("x" * 5_001).told_length == "5,001"


def test_a_short_json_value_is_indented_and_a_long_one_is_not() -> None:
    assert cut_json({"a": 1}).shown == '{\n  "a": 1\n}'
    assert "\n" not in cut_json(["x"] * MOST_CHARACTERS).shown


def test_what_can_t_be_shown_is_an_escape() -> None:
    assert printable("a\0b\ud800c\x85\t\n") == "a\\u0000b\\ud800c\\u0085\t\n"


def test_a_long_id_is_told_in_brief() -> None:
    assert brief("x" * 81) == "x" * 80 + "…"
    assert brief("x" * 80) == "x" * 80
