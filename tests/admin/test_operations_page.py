"""The operations page: what is active and stuck, how runs ended and what they cost."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db.models import F
from django.utils import timezone

from stitchkit_django import get_store
from stitchkit_django.models import Run
from tests.admin.filling import fill
from tests.admin.pages import got, link, row_url, seen, url_of
from tests.admin.scene import STUCK, make, usage
from tests.core.steps import acquire, admit, answered, end

if TYPE_CHECKING:
    from django.test import Client


def page_of(client: Client, **query: str) -> str:
    return got(client, url_of(Run, "operations"), **query)


def section(page: str, identity: str) -> str:
    """Give what a section says."""
    start = page.index(f'id="{identity}"')
    return seen("<main " + page[start : page.index("</section>", start)])


def back(alias: str, **spans: timedelta) -> None:
    Run.objects.using(alias).update(**{name: F(name) - span for name, span in spans.items()})


def test_active_runs_are_counted_by_state_and_age(alias: str, client: Client) -> None:
    make(alias)
    admit(get_store(alias))

    text = section(page_of(client), "sk-active")

    # In all; under a minute, ten minutes, an hour and a day; older.
    assert "queued 3 1 0 0 2 0" in text
    assert "running 2 0 0 0 2 0" in text
    assert "interrupt requested 0 0 0 0 0 0" in text


def test_counts_end_at_1_000(alias: str, client: Client) -> None:
    fill(alias, 30_000)

    text = section(page_of(client), "sk-active")

    assert "queued 1,000+" in text
    assert "1,001+" in text
    assert "running 30 " in text


def test_a_lapsed_lease_is_shown_as_stuck_and_leads_to_its_run(alias: str, client: Client) -> None:
    make(alias)

    page = page_of(client)

    assert "run-refund running order-4711 worker-7 lapsed" in section(page, "sk-lapsed")
    assert "run-poem" not in section(page, "sk-lapsed")
    assert link(page, STUCK) == row_url(alias, Run, STUCK)


def test_a_run_without_a_lease_is_shown_once_it_is_silent(alias: str, client: Client) -> None:
    store = get_store(alias)
    acquire(store, admit(store))
    lately = section(page_of(client), "sk-silent")
    back(alias, updated_at=timedelta(minutes=11), created_at=timedelta(minutes=11))

    assert "r1" not in lately
    assert "r1" in section(page_of(client), "sk-silent")


def test_only_the_first_of_an_old_queue_is_shown(alias: str, client: Client) -> None:
    store = get_store(alias)
    for key in "12":
        admit(store, key)
    lately = section(page_of(client), "sk-old")
    back(alias, updated_at=timedelta(minutes=11), created_at=timedelta(minutes=11))
    admit(store, "3")

    old = section(page_of(client), "sk-old")

    assert "r1" not in lately
    assert re.findall(r"\br\d\b", old) == ["r1"]


def test_ends_are_plotted_by_reason_with_a_table_behind(alias: str, client: Client) -> None:
    make(alias)

    page = page_of(client)
    text = section(page, "sk-ends")

    assert "success stopped by a policy provider failure As a table" in text
    cells = [cell.split() for cell in re.findall(r"\d\d:\d\d((?: \d+){3})", text)]
    assert [sum(map(int, column)) for column in zip(*cells, strict=True)] == [5, 1, 1]
    svg = page[page.index('<svg viewBox="0 0 1216') :]
    assert svg.index("<title") < svg.index("<desc") < svg.index("<rect")
    assert 'role="img"' in svg
    assert "Ends of runs by reason" in svg


def test_costs_are_summed_by_currency(alias: str, client: Client) -> None:
    store = get_store(alias)
    for key in "123":
        end(store, acquire(store, admit(store, key)), usage=usage("1.25"))
    Run.objects.using(alias).filter(run_id="r3").update(cost_currency="USD")

    text = section(page_of(client), "sk-costs")

    assert "2.50 EUR in this time" in text
    assert "1.25 USD in this time" in text


@pytest.mark.parametrize(
    ("window", "ago", "is_in"),
    [
        ("hour", timedelta(minutes=59), True),
        ("hour", timedelta(minutes=61), False),
        ("day", timedelta(hours=23), True),
        ("week", timedelta(days=6), True),
        ("month", timedelta(days=29), True),
        ("month", timedelta(days=31), False),
    ],
)
def test_a_window_holds_what_ended_in_it(
    alias: str, client: Client, window: str, ago: timedelta, is_in: bool
) -> None:
    answered(get_store(alias))
    back(alias, ended_at=ago, created_at=ago)

    text = section(page_of(client, window=window), "sk-ends")

    assert ("success" in text) is is_in
    assert ("Nothing in this time." in text) is not is_in


def test_an_unknown_window_is_the_last_day(alias: str, client: Client) -> None:
    assert alias
    page = page_of(client, window="'; DROP TABLE")

    assert '?window=day" aria-current="true"' in page


def test_it_is_told_of_which_reasons_only_some_are_counted(alias: str, client: Client) -> None:
    fill(alias, 2_000)
    moment = timezone.now()
    Run.objects.using(alias).filter(ended_at__isnull=False).update(
        created_at=moment, updated_at=moment, ended_at=moment
    )

    text = section(page_of(client), "sk-ends")

    assert "Of these only the newest 1,000 are counted: success." in text


@pytest.mark.parametrize("language", ["de", "fr", "ar", "en"])
def test_plots_are_drawn_the_same_in_every_language(
    alias: str, client: Client, settings: object, language: str
) -> None:
    settings.USE_THOUSAND_SEPARATOR = True  # type: ignore[attr-defined]
    fill(alias, 2_000)
    Run.objects.using(alias).filter(ended_at__isnull=False).update(ended_at=timezone.now())

    response = client.get(url_of(Run, "operations"), headers={"accept-language": language})

    page = response.content.decode()
    plot = page[page.index('<figure class="sk-plot">') : page.index("</figure>")]
    sizes = re.findall(r' (?:x|y|width|height)="([^"]*)"', plot)
    assert len(sizes) > 10
    assert any(len(size) > 3 for size in sizes)
    assert [size for size in sizes if not size.isascii() or not size.isdigit()] == []


def test_nothing_of_an_empty_store_is_missing(alias: str, client: Client) -> None:
    assert alias

    text = seen(page_of(client))

    assert text.count("None.") == 3
    assert text.count("Nothing in this time.") == 2
