"""A pass reads as much for its last page as for its first, and each page by an index range."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import connections, transaction
from django.utils.timezone import now

from stitchkit_django import get_store
from stitchkit_django.core.paging import recoverable_cursor
from stitchkit_django.core.recovery import StandardPolicy
from stitchkit_django.keys import DjangoKeys
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from stitchkit_django.recovery import recover
from tests.django.population import MOMENT, Size, conversation_id, populate
from tests.django.test_bounded import OTHERS, Meter, analyze

if TYPE_CHECKING:
    from collections.abc import Callable

ACTIVE = 100_000
ENDED = 20_000
RUNS = Run._meta.db_table


def make(alias: str, count: int, fields: dict[str, str], *, conversations: int) -> None:
    """Insert so many runs, as the SQL of their number `n` says, in conversations with a head."""
    quote = connections[alias].ops.quote_name
    columns: dict[str, str] = {
        "conversation_id": f"'c' || (n % {conversations})",
        "run_id": "'r' || n",
        "schema_version": "1",
        "turn": "n",
        "input_message_ids": "'[\"i\"]'",
        "assistant_message_id": "'a' || n",
        "revision": "0",
        "created_at": _moment(alias),
        "updated_at": _moment(alias),
        **fields,
    }
    numbers = (
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers "
        f"WHERE n < {count})"
    )
    with connections[alias].cursor() as cursor:
        names = ", ".join(map(quote, columns))
        cursor.execute(
            f"{numbers} INSERT INTO {RUNS} ({names}) SELECT {', '.join(columns.values())} "
            "FROM numbers"
        )
    Conversation.objects.using(alias).bulk_create(
        Conversation(conversation_id=f"c{number}", version=count, updated_at=MOMENT)
        for number in range(conversations)
    )


def _moment(alias: str) -> str:
    return f"'{connections[alias].ops.adapt_datetimefield_value(MOMENT)}'"


def make_active(alias: str, count: int) -> None:
    make(alias, count, {"state": "'queued'"}, conversations=count)


def make_ended(alias: str, count: int) -> None:
    """Make runs that may go, a receipt for each, so many to a conversation as in a lively one."""
    fields = {
        "state": "'cancelled'",
        "terminal_reason": "'cancelled'",
        "terminal_assistant": "'{}'",
        "ended_at": _moment(alias),
    }
    make(alias, count, fields, conversations=count // 20)
    with connections[alias].cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {AdmissionReceipt._meta.db_table} (conversation_id, idempotency_key, "
            "schema_version, input, input_message_id, run_id, assistant_message_id, created_at) "
            "SELECT conversation_id, 'k' || run_id, 1, '{}', 'i' || run_id, run_id, "
            f"assistant_message_id, created_at FROM {RUNS}"
        )


def test_page_one_and_page_one_thousand_of_a_recovery_read_as_many_rows(alias: str) -> None:
    make_active(alias, ACTIVE)
    analyze_if_it_can(alias)
    store = get_store(alias)
    meter = Meter(alias)
    first = Run.objects.using(alias).order_by("id").values_list("id", flat=True)[0]

    for number in (1, 2, 999, 1_000):
        cursor = recoverable_cursor(first + 100 * (number - 1) - 1)
        scan = partial(store.scan_recoverable, cursor=cursor, limit=100)
        page = meter(f"page {number}", scan)
        assert [run.id for run in page.items] == [
            f"r{one}" for one in range(100 * number - 99, 100 * number + 1)
        ]

    costs = list(meter.costs.values())
    # A row more tells whether there is another page; the last one has none.
    assert [cost.returned for cost in costs] == [102, 102, 102, 101]
    assert {cost.statements for cost in costs} == {1}
    if alias == "postgres":
        *whole, last = [cost.fetched[RUNS] for cost in costs]
        assert (set(whole), whole[0] - last) == ({102}, 1)


def test_settling_a_page_reads_as_many_rows_at_the_end_of_a_pass(postgres_alias: str) -> None:
    make_active(postgres_alias, 3_000)
    analyze(postgres_alias)
    meter = Meter(postgres_alias)
    outcomes = recover(get_store(postgres_alias), StandardPolicy(), page_size=100)

    def page() -> list[str]:
        return [str(next(outcomes).result) for _ in range(100)]

    for number in range(30):
        assert meter(f"page {number}", page) == ["reported"] * 100

    costs = list(meter.costs.values())
    assert len({cost.statements for cost in costs}) == 1
    most = [sum(cost.fetched.values()) for cost in costs]
    assert max(most) - min(most) <= 2


def test_the_hundredth_page_of_each_pass_is_an_index_range(postgres_alias: str) -> None:
    make_active(postgres_alias, ENDED // 2)
    with connections[postgres_alias].cursor() as cursor:
        cursor.execute(f"UPDATE {RUNS} SET turn = turn + 1000000, run_id = 'q' || run_id")
        cursor.execute(f"UPDATE {RUNS} SET assistant_message_id = 'q' || assistant_message_id")
        cursor.execute("DELETE FROM stitchkit_django_conversation")
    make_ended(postgres_alias, ENDED)
    populate(postgres_alias, OTHERS)
    analyze(postgres_alias)
    store = get_store(postgres_alias)
    half = Run.objects.using(postgres_alias).order_by("id").values_list("id", flat=True)[ENDED // 4]
    keys = DjangoKeys(postgres_alias)

    plans = {
        name: explained(postgres_alias, call)
        for name, call in {
            "recovery": lambda: store.scan_recoverable(cursor=recoverable_cursor(half), limit=100),
            "purge": lambda: keys.runs(half, 100),
            "ties": lambda: keys.ties(keys.runs(half + ENDED // 2, 100).runs),
        }.items()
    }

    for name, (plan, *_) in plans.items():
        assert re.search(r"Index Scan using stitchkit_\w+", plan), (name, plan)
    scanned = re.compile("Seq Scan on stitchkit|Sort|Hash|Merge")
    assert [(name, plan) for name in plans for plan in plans[name] if scanned.search(plan)] == []


def test_archived_messages_are_found_by_their_places(postgres_alias: str) -> None:
    populate(postgres_alias, OTHERS | {"long": Size(messages=10_000, runs=5_000)})
    where = conversation_id("long")
    rows = Message.objects.using(postgres_alias)
    rows.filter(conversation_id=where).update(archived_at=MOMENT, replaced_by="s")
    analyze(postgres_alias)
    driver = get_store(postgres_alias).driver

    delete, found, *_ = explained(
        postgres_alias,
        lambda: driver.transaction(lambda one: one.forget_archived(where, now(), limit=100)),
    )

    assert "Index Scan using stitchkit_django_message_pkey" in delete
    assert "using stitchkit_message_place" in found
    assert "Sort" not in found


def explained(alias: str, call: Callable[[], Any]) -> list[str]:
    """Give the plans of the statements that a call sends, the last one's first."""
    meter = Meter(alias)
    with transaction.atomic(using=alias):
        meter("call", call)
        plans = []
        for sql, parameters in reversed(meter.sent):
            with connections[alias].cursor() as cursor:
                cursor.execute(f"EXPLAIN {sql}", parameters)
                plans.append("\n".join(line for (line,) in cursor.fetchall()))
    return plans


def analyze_if_it_can(alias: str) -> None:
    if connections[alias].vendor == "postgresql":
        analyze(alias)
