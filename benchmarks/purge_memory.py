"""What a purge of many runs keeps in memory: `python -m benchmarks.purge_memory`.

It makes databases of its own on a PostgreSQL server (STITCHKIT_TEST_POSTGRES_URL), fills them with
runs that may go and their receipts, and purges each in a process of its own by the management
command. It prints the peak of each process's memory, the most rows that one transaction deleted,
and the plan of the hundredth batch's statements. The exit status is 1 if a peak lies more than
10 MB over that of the first, a transaction was larger than its batch, or a plan scans a table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import django
import psycopg
from django.conf import settings
from django.core.management import call_command
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

URL: Final = "STITCHKIT_TEST_POSTGRES_URL"
SIZES: Final = (10_000, 1_000_000)
BATCH_SIZE: Final = 500
WATCHED_BATCH: Final = 100
MOST_BYTES: Final = 10_000_000
"""Over the first size's peak."""
RUNS_EACH: Final = 20
"""Of one conversation, which follow one another as in a lively hour."""

_FILL: Final = (
    """
    INSERT INTO stitchkit_django_conversation
        (conversation_id, schema_version, version, updated_at)
    SELECT 'c' || n, 1, {each}, now() - interval '1 day' FROM generate_series(0, {size} / {each}) n
    """,
    """
    INSERT INTO stitchkit_django_run
        (conversation_id, run_id, schema_version, turn, input_message_ids, assistant_message_id,
        state, revision, terminal_reason, terminal_assistant, created_at, updated_at, ended_at)
    SELECT 'c' || n / {each}, 'r' || n, 1, n % {each} + 1, '["i' || n || '"]', 'a' || n,
        'cancelled', 1, 'cancelled', '{{"text": "' || repeat('x', 500) || '"}}',
        now() - interval '1 day', now() - interval '1 day', now() - interval '1 day'
    FROM generate_series(0, {size} - 1) n
    """,
    """
    INSERT INTO stitchkit_django_admissionreceipt
        (conversation_id, idempotency_key, schema_version, input, input_message_id, run_id,
        assistant_message_id, created_at)
    SELECT conversation_id, 'k' || run_id, 1, terminal_assistant, 'i' || run_id, run_id,
        assistant_message_id, created_at FROM stitchkit_django_run ORDER BY id
    """,
    """
    INSERT INTO stitchkit_django_message
        (conversation_id, message_id, schema_version, turn, slot, run_id, role, status, parts,
        created_at, updated_at, archived_at, replaced_by)
    SELECT conversation_id, assistant_message_id, 1, turn, 2147483647, run_id, 'assistant',
        'interrupted', '[]', created_at, created_at, created_at, 's'
    FROM stitchkit_django_run ORDER BY id
    """,
    "ANALYZE",
)


class Watch:
    """Counts what each transaction deletes, and asks for the plans of one batch's statements."""

    def __init__(self, url: str) -> None:
        """Begin before the first transaction."""
        self.deleted = [0]
        self.plans: list[str] = []
        self._url = url

    def __call__(self, execute: Callable[..., Any], statement: str, *rest: Any) -> Any:  # noqa: ANN401 - a cursor's
        """Run a statement."""
        if "FOR NO KEY UPDATE" in statement:
            self.deleted.append(0)
        if len(self.deleted) == WATCHED_BATCH + 1:
            # While there is still much to scan.
            self.plans.append(_plan(self._url, statement, rest[0]))
        found = execute(statement, *rest)
        if statement.startswith("DELETE"):
            self.deleted[-1] += rest[-1]["cursor"].rowcount
        return found


def purge(url: str) -> dict[str, Any]:
    """Purge a database in this process; tell what it took."""
    from django.db import connection  # noqa: PLC0415 - once the settings are there

    watch, out = Watch(url), StringIO()
    begin = time.perf_counter()
    with connection.execute_wrapper(watch):
        call_command(
            "purge_idempotency",
            older_than="1s",
            batch_size=BATCH_SIZE,
            format="json",
            stdout=out,
        )
    seconds = time.perf_counter() - begin
    # Linux tells kilobytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "seconds": seconds,
        "peak": peak,
        "transactions": len(watch.deleted) - 1,
        "most": max(watch.deleted),
        "plans": watch.plans,
        "summary": json.loads(out.getvalue())["summary"],
    }


def _plan(url: str, statement: str, parameters: Any) -> str:  # noqa: ANN401 - as they were sent
    with psycopg.connect(url) as connection:
        rows = connection.execute(f"EXPLAIN {statement}".encode(), parameters)
        return "\n".join(line for (line,) in rows)


@contextmanager
def database(server: str) -> Iterator[str]:
    """Make a database, and drop it after the block."""
    name = f"purge_memory_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


def fill(url: str, size: int) -> None:
    """Make so many runs that may go, each with its receipt."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in _FILL:
            connection.execute(statement.format(size=size, each=RUNS_EACH).encode())


def configure(url: str) -> None:
    """Set Django up for a database."""
    server = conninfo_to_dict(url)
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": server["dbname"],
                "HOST": server.get("host", ""),
                "PORT": server.get("port", ""),
                "USER": server.get("user", ""),
                "PASSWORD": server.get("password", ""),
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=["django.contrib.contenttypes", "stitchkit_django"],
        USE_TZ=True,
    )
    django.setup()


def measured(server: str, size: int) -> dict[str, Any]:
    """Fill a database of a size and purge it, each in a process of its own."""
    with database(server) as url:
        for step in ("migrate", "purge"):
            if step == "purge":
                fill(url, size)
            command = [sys.executable, "-m", "benchmarks.purge_memory", f"--{step}", url]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and give the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help="how many runs")
    parser.add_argument("--migrate", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--purge", metavar="URL", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.migrate or chosen.purge:
        configure(chosen.migrate or chosen.purge)
        if chosen.migrate:
            call_command("migrate", verbosity=0)
        else:
            print(json.dumps(purge(chosen.purge)))
        return 0
    if URL not in os.environ:
        print(f"set {URL} to a PostgreSQL server", file=sys.stderr)
        return 2
    return _report({size: measured(os.environ[URL], size) for size in chosen.sizes})


def _report(found: dict[int, dict[str, Any]]) -> int:
    first = next(iter(found.values()))
    status = 0
    for size, one in found.items():
        more = one["peak"] - first["peak"]
        scans = [plan for plan in one["plans"] if re.search("Seq Scan on stitchkit", plan)]
        whole = one["summary"]["runs"] == size
        status |= more > MOST_BYTES or one["most"] > BATCH_SIZE or bool(scans) or not whole
        print(
            f"{size:>9,} runs: peak {one['peak'] / 1e6:.1f} MB ({more / 1e6:+.1f} MB), "
            f"{one['transactions']:,} transactions of at most {one['most']} rows, "
            f"{one['seconds']:.0f} s, {size / one['seconds']:,.0f} runs/s"
        )
    plans: list[str] = next((one["plans"] for one in reversed(found.values()) if one["plans"]), [])
    print(f"\nThe statements of batch {WATCHED_BATCH}:\n", *plans, sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
