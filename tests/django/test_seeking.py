"""The first key since a moment is found among any number of rows, in one statement."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.models import AdmissionReceipt
from stitchkit_django.statements.seeking import first_key_since
from tests.django.hooks import counted
from tests.factories import MessageFactory

if TYPE_CHECKING:
    from collections.abc import Iterable

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def add(alias: str, rows: Iterable[tuple[int, int]]) -> None:
    """Make rows of these keys and hours."""
    body: dict[str, Any] = {"input": MessageFactory.build()}
    AdmissionReceipt.objects.using(alias).bulk_create(
        AdmissionReceipt(
            pk=key,
            conversation_id="c",
            idempotency_key=f"k{key}",
            **body,
            input_message_id=f"i{key}",
            run_id="r",
            assistant_message_id="a",
            created_at=BEGIN + timedelta(hours=hour),
        )
        for key, hour in rows
    )


def since(alias: str, hour: float) -> int | None:
    fields = AdmissionReceipt._meta
    return first_key_since(
        alias,
        fields.get_field("id"),
        fields.get_field("created_at"),
        BEGIN + timedelta(hours=hour),
    )


def test_of_no_rows_there_is_no_key(alias: str) -> None:
    assert since(alias, 0) is None


@pytest.mark.parametrize(
    "keys", [[1], [1, 2], list(range(1, 100)), [3, 4, 50, 51, 2_000, 9_000_000_000]]
)
def test_a_key_parts_what_came_before_from_what_came_since(alias: str, keys: list[int]) -> None:
    hours = {key: index // 2 for index, key in enumerate(keys)}
    add(alias, hours.items())

    for hour in range(-1, len(keys)):
        for late in (0, 0.5):
            found = since(alias, hour + late)
            assert found is not None
            assert [key for key in keys if key >= found] == [
                key for key in keys if hours[key] >= hour + late
            ]


def test_it_takes_one_statement(alias: str) -> None:
    add(alias, [(key, key) for key in range(1, 500)])

    with counted(alias) as sent:
        found = since(alias, 250)

    assert found == 250
    assert len(sent) == 1


def test_moments_that_don_t_rise_end_the_search_all_the_same(alias: str) -> None:
    add(alias, [(key, 7 * key % 50) for key in range(1, 200)])

    assert since(alias, 25) is not None
