"""A page takes as many statements, and PostgreSQL reads as few rows, however many there are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.db import connections

from benchmarks.admin_plans import Meter
from stitchkit_django.models import Run
from tests.admin.filling import LONG, fill
from tests.admin.pages import conversation_url, url_of
from tests.admin.walk import pages
from tests.django.hooks import counted

if TYPE_CHECKING:
    from django.test import Client

FEW, MANY = 10, 20_000
ON_POSTGRES = pytest.mark.parametrize(
    "alias", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
MOST = pytest.param(100_000, marks=pytest.mark.slow)
MOST_ROWS = 5_000


def statements(alias: str, client: Client) -> dict[str, list[str]]:
    """Give what each page sends to the store's tables, by its name."""
    found = {}
    for name, url in pages(alias).items():
        with counted(alias) as sent:
            response = client.get(url)
        assert response.status_code == 200, (name, response.status_code)
        found[name] = [one for one in sent if "stitchkit_django_" in one]
    return found


@pytest.mark.parametrize("count", [MANY, MOST])
def test_a_page_takes_as_many_statements_over_any_number_of_runs(
    alias: str, client: Client, count: int
) -> None:
    fill(alias, FEW)
    few = statements(alias, client)
    empty(alias)
    fill(alias, count)

    many = statements(alias, client)

    assert {name: len(sent) for name, sent in many.items() if len(sent) > 16} == {}
    differing = {
        name: (len(few[name]), len(sent))
        for name, sent in many.items()
        if len(sent) != len(few[name])
    }
    assert differing == {}


def test_no_page_counts_a_table(alias: str, client: Client) -> None:
    fill(alias, FEW)

    sent = [one for page in statements(alias, client).values() for one in page]

    assert [one for one in sent if re.search(r"COUNT\(", one)] == []
    assert [one for one in sent if "DISTINCT" in one] == []


@ON_POSTGRES
@pytest.mark.parametrize("count", [MANY, MOST])
def test_postgresql_reads_a_bounded_number_of_rows_for_a_page(
    alias: str, client: Client, count: int
) -> None:
    fill(alias, count)
    meter = Meter(alias)

    reads = {
        name: meter(lambda url=url: client.get(url))  # type: ignore[misc] # a default binds it
        for name, url in pages(alias).items()
    }

    most = {name: max([read.blocks // 4, *read.rows.values()]) for name, read in reads.items()}
    assert {name: rows for name, rows in most.items() if rows > MOST_ROWS} == {}


@ON_POSTGRES
def test_postgresql_finds_the_rare_among_the_common_by_the_index(
    alias: str, client: Client
) -> None:
    fill(alias, MANY)
    meter = Meter(alias)
    # The newest 1,000 wait: those that have completed come after them, in the order of the keys.
    for query in ("state=completed", "reason=success", "state=failed", "state=abandoned"):
        read = meter(lambda query=query: client.get(f"{url_of(Run)}?{query}"))  # type: ignore[misc] # likewise

        assert read.rows.get("run", 0) <= 60, query


def empty(alias: str) -> None:
    for table in ("conversation", "run", "admissionreceipt", "message"):
        with connections[alias].cursor() as cursor:
            cursor.execute(f"DELETE FROM stitchkit_django_{table}")


def test_the_log_of_a_row_is_counted_no_further_than_a_page_of_it_goes(
    alias: str, client: Client
) -> None:
    fill(alias, FEW)

    with counted("default") as sent:
        response = client.get(conversation_url(LONG, "history"))

    assert response.status_code == 200
    counts = [one for one in sent if "COUNT(" in one]
    assert len(counts) == 1
    assert "LIMIT 1001" in counts[0]
