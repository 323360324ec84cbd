"""The lists: what they say of a row, how they are paged, searched and narrowed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from stitchkit_django import get_store
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.admin.filling import fill
from tests.admin.pages import got, link, listed, seen, url_of
from tests.admin.scene import ORDER, STUCK, WAITING, make
from tests.core.steps import admit, answered
from tests.django.hooks import counted

if TYPE_CHECKING:
    from django.db.models import Model
    from django.test import Client

MODELS = (Conversation, Run, AdmissionReceipt, Message)


def test_the_list_of_runs_says_how_each_stands(alias: str, client: Client) -> None:
    make(alias)

    page = got(client, url_of(Run), q=STUCK)

    assert listed(page) == [STUCK]
    for text in ("running", "worker-7", "lapsed 2 h", "0.0087 EUR", ORDER):
        assert text in seen(page)


def test_the_list_of_runs_gives_the_reason_of_an_end_that_says_more(
    alias: str, client: Client
) -> None:
    make(alias)

    page = got(client, url_of(Run), q="run-weather")

    assert "failed provider failure" in seen(page)


def test_conversations_are_listed_once_by_their_latest_inputs(alias: str, client: Client) -> None:
    make(alias)

    page = got(client, url_of(Conversation))

    assert listed(page) == [
        "chat-long",
        "chat-new",
        "chat-poem",
        "chat-weather",
        "chat-paris",
        ORDER,
    ]


def test_a_conversation_is_told_by_the_first_run_of_its_queue(alias: str, client: Client) -> None:
    make(alias)

    page = got(client, url_of(Conversation), q=ORDER)

    assert "running" in seen(page)
    assert "worker-7" in seen(page)
    assert "queued" not in seen(page)


def test_only_conversations_that_wait_are_listed_when_asked_for(alias: str, client: Client) -> None:
    make(alias)

    page = got(client, url_of(Conversation), active="yes")

    assert listed(page) == ["chat-new", "chat-poem", ORDER]


@pytest.mark.parametrize("model", MODELS)
def test_a_list_is_walked_to_its_end_and_back_each_row_once(
    alias: str, client: Client, model: type[Model]
) -> None:
    fill(alias, 600)
    expected = model._base_manager.using(alias).count()
    forth, page = [], got(client, url_of(model))
    while True:
        forth.append(listed(page))
        older = link(page, "Older")
        if older is None:
            break
        page = got(client, url_of(model) + older)
    back = [forth[-1]]
    while (newer := link(page, "Newer")) is not None:
        page = got(client, url_of(model) + newer)
        back.append(listed(page))

    rows = [row for one in forth for row in one]
    assert len(rows) == len(set(rows))
    assert len(rows) == expected
    assert sorted(row for one in back for row in one) == sorted(rows)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (Conversation, {ORDER}),
        (Run, {"run-delivery"}),
        (AdmissionReceipt, {"web-1"}),
        (Message, {"input-1"}),
    ],
)
def test_a_row_is_found_by_each_id_that_leads_to_it(
    alias: str, client: Client, model: type[Model], found: set[str]
) -> None:
    make(alias)

    for sought in (ORDER, "run-delivery", "input-1", "web-1", "  web-1 "):
        if (model, sought) == (Message, "run-delivery"):
            continue  # it leads to the answer, not to the input
        assert found <= set(listed(got(client, url_of(model), q=sought))), sought


def test_the_answer_of_a_run_is_found_by_the_run(alias: str, client: Client) -> None:
    run = answered(get_store(alias))

    assert listed(got(client, url_of(Message), q=run.id)) == [run.assistant_message_id]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "sought",
    ["c\0", "x" * 10_000, "other", "\ud800", "C", "c%", "%", "' OR 1=1 --", "\u202e"],
    ids=["NUL", "too long", "unknown", "surrogate", "case", "wildcard", "all", "SQL", "bidi"],
)
def test_what_is_no_id_finds_nothing(
    alias: str, client: Client, model: type[Model], sought: str
) -> None:
    answered(get_store(alias))

    page = got(client, url_of(model), q=sought.encode(errors="replace").decode())

    assert listed(page) == []
    assert "Nothing found." in seen(page)


def test_nothing_is_asked_for_what_can_t_be_an_id(alias: str, client: Client) -> None:
    with counted(alias) as sent:
        got(client, url_of(Message), q="x" * 10_000)

    assert [one for one in sent if "stitchkit_django" in one] == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"state": "running"}, ["run-poem", STUCK]),
        ({"state": "queued"}, ["run-new", WAITING]),
        ({"state": "failed"}, ["run-weather"]),
        ({"state": "abandoned"}, []),
        ({"reason": "provider_failure"}, ["run-weather"]),
        ({"reason": "provider_failure", "state": "failed"}, ["run-weather"]),
        ({"reason": "provider_failure", "state": "completed"}, []),
        ({"state": "completed", "q": "chat-paris"}, ["run-paris"]),
        ({"state": "queued", "q": "chat-paris"}, []),
    ],
)
def test_runs_are_narrowed_by_state_and_by_reason(
    alias: str, client: Client, query: dict[str, str], found: list[str]
) -> None:
    make(alias)

    assert listed(got(client, url_of(Run), **query)) == found


@pytest.mark.parametrize(
    "query",
    [
        "state=lost",
        "reason=none",
        "before=x",
        "before=-1",
        "after=99999999999999999999",
        "before=",
        "date=2026-13",
        "date=2026-02-30",
        "date=0000",
        "date=x",
    ],
)
def test_a_choice_that_is_none_leads_back_to_the_list(
    alias: str, client: Client, query: str
) -> None:
    response = client.get(f"{url_of(Run)}?{query}")

    assert response.status_code == 302
    assert response.headers["Location"] == f"{url_of(Run)}?e=1"
    assert alias


@pytest.mark.parametrize("query", ["owner_id=w", "terminal_detail__contains=x", "turn__gte=1"])
def test_a_filter_that_no_index_answers_is_refused(alias: str, client: Client, query: str) -> None:
    with counted(alias) as sent:
        response = client.get(f"{url_of(Run)}?{query}")

    assert response.status_code == 400
    assert [one for one in sent if "stitchkit_django" in one] == []


def test_a_period_holds_the_rows_that_came_in_it(alias: str, client: Client) -> None:
    store = get_store(alias)
    # In the site's time zone, in which a day ends when it is morning elsewhere.
    zone = timezone.get_default_timezone()
    assert zone != UTC
    days = [datetime(2025, 12, 31, 23, 59, tzinfo=zone), datetime(2026, 1, 1, 0, 0, tzinfo=zone)]
    days += [datetime(2026, 1, 31, 12, tzinfo=zone), datetime(2026, 2, 1, 1, tzinfo=zone)]
    for number, day in enumerate(days):
        run = admit(store, str(number))
        Run.objects.using(alias).filter(run_id=run.id).update(created_at=day)

    def found(date: str) -> list[str]:
        return listed(got(client, url_of(Run), date=date))

    assert found("2025") == ["r0"]
    assert found("2026") == ["r3", "r2", "r1"]
    assert found("2026-01") == ["r2", "r1"]
    assert found("2026-01-01") == ["r1"]
    assert found("2026-01-02") == []
    assert found("2024") == []
    assert found("2027") == []


def test_periods_lead_to_narrower_ones_and_back(alias: str, client: Client) -> None:
    fill(alias, 200)

    year = got(client, url_of(Run) + (link(got(client, url_of(Run)), "2026") or ""))
    month = got(client, url_of(Run) + (link(year, "January") or ""))
    day = got(client, url_of(Run) + (link(month, "January 9") or link(month, "January 10") or ""))

    assert link(year, "February") is None
    assert len(listed(day)) == 50
    assert link(day, "Older") is not None
    assert "date=2026-01" in (link(day, "&lsaquo; January 2026") or "")
    assert link(day, "Older") != link(month, "Older")


def test_the_list_shows_ages_by_the_clock_of_the_database(alias: str, client: Client) -> None:
    admit(get_store(alias))
    earlier = datetime.now(tz=ZoneInfo("UTC")) - timedelta(hours=5, minutes=30)
    Run.objects.using(alias).update(created_at=earlier, updated_at=earlier)

    assert "5\u00a0h\u00a030\u00a0min" in got(client, url_of(Run))
