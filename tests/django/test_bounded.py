"""What an operation reads grows neither with a conversation's length nor with its ended runs.

PostgreSQL chooses an index by what its statistics say: so these laws are tried with statistics
that were gathered, that never were, and that were before the long conversations came.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections, transaction

from stitchkit_django import get_store
from stitchkit_django.core import Applied
from stitchkit_django.models import Conversation
from tests.django.population import MOMENT, Size, conversation_id, populate
from tests.django.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core import AgentStore

SHORT = {"short": Size(messages=10, runs=10)}
LARGE = {"long and old": Size(messages=10_000, runs=5_000)}
GROWN = LARGE | {
    "long": Size(messages=10_000, runs=10),
    "old": Size(messages=10, runs=1_000),
}
OTHERS = {f"other {number}": Size(messages=20, runs=10) for number in range(100)}
TABLES = [model._meta.db_table for model in apps.get_app_config("stitchkit_django").get_models()]
GROWING = [name for name in TABLES if name != Conversation._meta.db_table]


class Cost(NamedTuple):
    """What one step has taken."""

    statements: int
    returned: int
    """Rows that the database gave."""
    fetched: dict[str, int]
    """Rows that scans of tables and of indexes have read, by table; PostgreSQL alone."""


class Meter:
    """Runs steps on a connection, and tells what each takes."""

    def __init__(self, alias: str) -> None:
        """Take the alias of the connection."""
        self.costs: dict[str, Cost] = {}
        self.sent: list[tuple[str, Any]] = []
        self._connection = connections[alias]
        self._statements = 0
        self._returned = 0

    def __call__(self, name: str, act: Callable[[], Any]) -> Any:
        """Take a step."""
        before, self._statements, self._returned = self._fetched(), 0, 0
        with self._connection.execute_wrapper(self._count):
            outcome = act()
        fetched = self._fetched()
        fetched.subtract(before)
        self.costs[name] = Cost(self._statements, self._returned, dict(+fetched))
        return outcome

    def _count(
        self, execute: Callable[..., Any], sql: str, parameters: Any, many: Any, context: Any
    ) -> Any:
        found = execute(sql, parameters, many, context)
        if not re.match("BEGIN|SAVEPOINT|RELEASE", sql):
            self._statements += 1
            self.sent.append((sql, parameters))
        cursor = context["cursor"]
        cursor.fetchall = self._counting(cursor.fetchall)
        return found

    def _counting(self, fetch: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
        def fetchall() -> list[Any]:
            rows = fetch()
            self._returned += len(rows)
            return rows

        return fetchall

    def _fetched(self) -> Counter[str]:
        if self._connection.vendor != "postgresql":
            return Counter()
        with self._connection.cursor() as cursor:
            # Takes what this session has counted into the view, at the end of its statement.
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(
                "SELECT relname::text, seq_tup_read + COALESCE(idx_tup_fetch, 0) "
                "FROM pg_stat_user_tables WHERE relname = ANY(%s)",
                [TABLES],
            )
            return Counter(dict(cursor.fetchall()))


@contextmanager
def only_our_statistics(alias: str) -> Iterator[None]:
    """Let no statistics be gathered but where a test says so, and begin with none."""
    _migrate(alias, "zero")
    _migrate(alias)
    with connections[alias].cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        if int(cursor.fetchone()[0]) < 150_000:
            pytest.skip("before PostgreSQL 15 nothing asks for the statistics of a session")
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    _add_heads(alias)
    yield
    _migrate(alias, "zero")
    _migrate(alias)


def _migrate(alias: str, *target: str) -> None:
    call_command("migrate", "stitchkit_django", *target, database=alias, verbosity=0)


def _add_heads(alias: str) -> None:
    # So many that none is found by looking at all of them.
    heads = [
        Conversation(
            conversation_id=conversation_id(f"head {number}"), version=1, updated_at=MOMENT
        )
        for number in range(2_000)
    ]
    Conversation.objects.using(alias).bulk_create(heads)


def analyze(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(TABLES)}")


Sizes: TypeAlias = dict[str, Size]
Statistics: TypeAlias = Callable[[str, Sizes], None]


def gathered(alias: str, sizes: Sizes) -> None:
    """Make the conversations among others, and gather statistics of all."""
    populate(alias, OTHERS | sizes)
    analyze(alias)


def gathered_of_few(alias: str, sizes: Sizes) -> None:
    """Make them alone, so that each is a large part of its table."""
    populate(alias, sizes)
    analyze(alias)


def never_gathered(alias: str, sizes: Sizes) -> None:
    """Make them, and gather none."""
    populate(alias, sizes)


def gathered_too_early(alias: str, sizes: Sizes) -> None:
    """Gather statistics of a few short ones before they come."""
    populate(alias, dict(list(OTHERS.items())[:5]))
    analyze(alias)
    populate(alias, sizes)


STATISTICS = pytest.mark.parametrize(
    ("statistics", "grown"),
    [
        pytest.param(gathered, GROWN, id="gathered"),
        pytest.param(gathered_of_few, LARGE, id="gathered of few"),
        pytest.param(never_gathered, LARGE, id="never gathered"),
        pytest.param(gathered_too_early, LARGE, id="gathered too early"),
    ],
)


def costs(alias: str, store: AgentStore, name: str) -> dict[str, Cost]:
    meter = Meter(alias)
    walk(store, conversation_id(name), meter)
    return meter.costs


@STATISTICS
def test_postgresql_reads_no_more_rows_of_a_long_conversation(
    postgres_alias: str, statistics: Statistics, grown: Sizes
) -> None:
    with only_our_statistics(postgres_alias):
        statistics(postgres_alias, SHORT | grown)
        store = get_store(postgres_alias)

        short = costs(postgres_alias, store, "short")

        for name in grown:
            assert costs(postgres_alias, store, name) == short
        assert max(rows for cost in short.values() for rows in cost.fetched.values()) <= 50
        _check_page(postgres_alias, store)
        _check_snapshot(postgres_alias, store)


@pytest.mark.parametrize("gather", [never_gathered, gathered_of_few])
def test_alone_in_its_database_a_long_conversation_takes_postgresql_no_more_rows(
    postgres_alias: str, gather: Statistics
) -> None:
    found: list[dict[str, Cost]] = []
    for size in (SHORT, LARGE):
        with only_our_statistics(postgres_alias):
            Conversation.objects.using(postgres_alias).all().delete()
            gather(postgres_alias, size)
            found.append(costs(postgres_alias, get_store(postgres_alias), *size))

    # Of a table of a few rows all are read, by a scan; of a long one fewer, by an index.
    short, large = found
    for name, cost in large.items():
        assert cost[:2] == short[name][:2], name
        assert Counter(cost.fetched) <= Counter(short[name].fetched), name
    assert max(rows for cost in large.values() for rows in cost.fetched.values()) <= 50


def _check_page(alias: str, store: AgentStore) -> None:
    where = conversation_id("long and old")
    meter = Meter(alias)

    # A page of the most messages: longer than the average conversation.
    page = meter("newest", lambda: store.load_history(where, limit=1_000))
    meter("older", lambda: store.load_history(where, limit=1_000, before=page.before))

    assert len(page.messages) == 1_000
    for cost in meter.costs.values():
        # One more tells whether there is an older page.
        assert cost.fetched["stitchkit_django_message"] == 1_001


def _check_snapshot(alias: str, store: AgentStore) -> None:
    meter = Meter(alias)

    snapshot = meter("whole", lambda: store.load_snapshot(conversation_id("long and old")))

    # Its cost grows with the tables, not with the square of the conversation.
    assert len(snapshot.messages) == pytest.approx(10_000, abs=100)
    assert max(meter.costs["whole"].fetched.values()) <= 100_000


def test_postgresql_scans_no_table_for_an_operation(postgres_alias: str) -> None:
    with only_our_statistics(postgres_alias):
        gathered(postgres_alias, LARGE)
        meter = Meter(postgres_alias)
        walk(get_store(postgres_alias), conversation_id("long and old"), meter)

        plans = [_explained(postgres_alias, *statement) for statement in meter.sent]

        assert len(plans) > 80
        scanned = re.compile(f"Seq Scan on ({'|'.join(TABLES)})")
        assert [plan for plan in plans if scanned.search(plan)] == []


def _explained(alias: str, sql: str, parameters: Any) -> str:
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}", parameters)
        return "\n".join(line for (line,) in cursor.fetchall())


def test_sqlite_returns_no_more_rows_of_a_long_conversation(sqlite_alias: str) -> None:
    populate(sqlite_alias, SHORT | GROWN)
    store = get_store(sqlite_alias)

    short = costs(sqlite_alias, store, "short")

    for name in GROWN:
        assert costs(sqlite_alias, store, name) == short


def test_sqlite_scans_no_table_for_an_operation(sqlite_alias: str) -> None:
    populate(sqlite_alias, SHORT)
    meter = Meter(sqlite_alias)
    walk(get_store(sqlite_alias), conversation_id("short"), meter)

    steps = [step for statement in meter.sent for step in _query_plan(sqlite_alias, *statement)]

    searched = [step for step in steps if re.match(f"SEARCH ({'|'.join(TABLES)})", step)]
    assert len(searched) > 80
    assert [step for step in steps if re.match(f"SCAN ({'|'.join(TABLES)})", step)] == []
    assert [step for step in steps if "TEMP B-TREE" in step] == []


def _query_plan(alias: str, sql: str, parameters: Any) -> list[str]:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
        return [detail for *_, detail in cursor.fetchall()]


def test_a_purge_takes_as_many_statements_for_a_long_conversation(alias: str) -> None:
    populate(alias, SHORT | {"long": Size(messages=1_000, runs=500)})
    store = get_store(alias)
    meter = Meter(alias)

    for name in ("short", "long"):
        outcome = meter(name, lambda: store.purge_conversation(conversation_id(name)))  # noqa: B023
        assert isinstance(outcome, Applied)

    assert meter.costs["short"].statements == meter.costs["long"].statements
