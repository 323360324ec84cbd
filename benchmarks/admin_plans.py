"""What each page of the admin reads over many runs: `python -m benchmarks.admin_plans`.

It makes a database of its own on a PostgreSQL server (STITCHKIT_TEST_POSTGRES_URL), fills it, opens
every page and prints how many statements it sent and how many rows PostgreSQL read for them, by
table. The exit status is 1 if a page read more rows than a page may.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import django
from django.conf import settings
from django.core.management import call_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.test import Client

URL: Final = "STITCHKIT_TEST_POSTGRES_URL"
MOST_ROWS: Final = 20_000
"""Of one table for one page, and of blocks of all tables; the operations page counts 1,000 of each
state and of each reason."""


class Read(NamedTuple):
    """What one page has read."""

    statements: int
    seconds: float
    rows: dict[str, int]
    """By table, those that scans of it and of its indexes gave."""
    blocks: int
    """Of tables and indexes, each as often as it was looked at: entries of an index that were
    passed over are seen by these alone."""


class Meter:
    """Opens pages, and tells what the database did for them."""

    def __init__(self, alias: str) -> None:
        """Take the alias of a PostgreSQL database."""
        from django.db import connections  # noqa: PLC0415 - once the settings are there

        self._connection = connections[alias]
        self._sent = 0

    def __call__(self, act: Callable[[], object]) -> Read:
        """Open a page."""
        before, self._sent = self._counts(), 0
        begin = time.perf_counter()
        with self._connection.execute_wrapper(self._count):
            act()
        seconds = time.perf_counter() - begin
        after = self._counts()
        rows = {table: after[table][0] - before[table][0] for table in after}
        blocks = sum(after[table][1] - before[table][1] for table in after)
        read = {table: one for table, one in rows.items() if one}
        return Read(self._sent, seconds, read, blocks)

    def _count(self, execute: Callable[..., Any], *statement: Any) -> Any:  # noqa: ANN401 - Django's own
        self._sent += 1
        return execute(*statement)

    def _counts(self) -> dict[str, tuple[int, int]]:
        with self._connection.cursor() as cursor:
            # Takes what this session has counted into the view, at the end of its statement.
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(
                "SELECT relname::text, seq_tup_read + COALESCE(idx_tup_fetch, 0), "
                "heap_blks_read + heap_blks_hit + COALESCE(idx_blks_read + idx_blks_hit, 0) "
                "FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid, relname) "
                "WHERE relname LIKE 'stitchkit_django_%'"
            )
            return {
                name.removeprefix("stitchkit_django_"): (rows, blocks)
                for name, rows, blocks in cursor
            }


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill, open every page, print a line for each; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admin_plans", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    chosen = parser.parse_args(arguments)
    if URL not in os.environ:
        parser.error(f"name a PostgreSQL server in {URL}")
    _configure()
    from django.test.utils import setup_databases, teardown_databases  # noqa: PLC0415 - likewise

    made = setup_databases(
        verbosity=0, interactive=False, aliases=dict.fromkeys(("default", "postgres"), False)
    )
    try:
        return _measured(chosen.runs)
    finally:
        teardown_databases(made, verbosity=0)


def _configure() -> None:
    os.environ["STITCHKIT_TEST_DIRECTORY"] = f"/tmp/admin_plans_{uuid4().hex[:8]}"  # noqa: S108 - a name
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    settings.STITCHKIT = {"DATABASE": "postgres"}
    settings.ALLOWED_HOSTS = ["testserver"]
    settings.DATABASES["default"]["TEST"] = {}
    django.setup()


def _measured(runs: int) -> int:
    from tests.admin.filling import fill  # noqa: PLC0415 - once the settings are there
    from tests.admin.walk import pages  # noqa: PLC0415 - likewise

    begin = time.perf_counter()
    fill("postgres", runs)
    call_command("check", verbosity=0)
    print(f"{runs:,} runs in {time.perf_counter() - begin:.0f} s")
    client = _client()
    meter = Meter("postgres")
    too_many = []
    for name, url in pages("postgres").items():
        client.get(url)
        read = meter(lambda url=url: client.get(url))  # type: ignore[misc] # a default binds it
        told = ", ".join(f"{table} {rows:,}" for table, rows in sorted(read.rows.items()))
        print(
            f"{name:40} {read.statements:3} statements {read.seconds * 1000:7.0f} ms "
            f"{read.blocks:7,} blocks  {told}"
        )
        if max(read.blocks, *read.rows.values(), 0) > MOST_ROWS:
            too_many.append(name)
    if too_many:
        print(f"more than {MOST_ROWS:,} rows of one table, or blocks: {', '.join(too_many)}")
    return 1 if too_many else 0


def _client() -> Client:
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - once the settings are there
    from django.test import Client  # noqa: PLC0415 - likewise

    user = get_user_model().objects.create(username="ann", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user)
    return client


if __name__ == "__main__":
    sys.exit(main())
