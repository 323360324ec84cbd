"""A database that goes down in the middle of a pass: the next pass handles what is left, once."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.core.management import call_command
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from stitchkit_django import get_store
from stitchkit_django.core import RecoveryAction, StoreUnavailableError
from stitchkit_django.core.recovery import StandardPolicy
from stitchkit_django.recovery import recover
from stitchkit_django.retention import purge_runs
from tests import postgres
from tests.core.steps import run_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pytest_django import DjangoDbBlocker

    from stitchkit_django.core import AgentStore, Run
    from stitchkit_django.core.recovery import Decision

ALIAS: Final = "restarted"
RUNS: Final = 6
SECONDS: Final = 60
"""How long a server may take to come back."""


@contextmanager
def own_server() -> Iterator[tuple[str, str]]:
    """Give the URL and the alias of a server that nobody else uses, so that it may go down."""
    # A short path, for its socket's sake.
    directory = Path(tempfile.mkdtemp(prefix="stitchkit_restart_"))
    try:
        with postgres.started(directory) as url:
            server = conninfo_to_dict(url)
            databases: dict[str, dict[str, Any]] = connections.databases
            databases[ALIAS] = {
                **databases["default"],
                "ENGINE": "django.db.backends.postgresql",
                "NAME": server["dbname"],
                "HOST": server["host"],
                "USER": server["user"],
            }
            try:
                call_command("migrate", database=ALIAS, verbosity=0)
                yield url, ALIAS
            finally:
                connections[ALIAS].close()
                del connections[ALIAS], databases[ALIAS]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def crash(alias: str) -> None:
    """End this connection's server process as a crash would, which takes the server down."""
    os.kill(connections[alias].connection.info.backend_pid, signal.SIGKILL)


def wait_until_it_answers(url: str) -> None:
    """Wait while the server recovers; only time helps."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            return postgres.require(url)
        except postgres.ServerMissingError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def lose(store: AgentStore) -> None:
    """Let some runs be lost by their workers, and others end and leave the history."""
    for number in range(RUNS):
        for key in "ab":
            where = f"{key}{number}"
            run = run_of(store.accept_input(where, "k", "Hello?", run_id=where))
            if key == "a":
                lease = timedelta(microseconds=1)
                store.acquire_run(where, run.id, expected_revision=0, owner_id="w", lease=lease)
            else:
                store.cancel_run(where, run.id)
                version = store.load_snapshot(where).version
                ids = [message.id for message in store.load_snapshot(where).messages]
                store.compact_history(
                    where, expected_version=version, message_ids=ids, summary_parts="Short."
                )


@pytest.fixture
def server(django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[str, str]]:
    """Give such a server to a test, or skip the test where none can be started."""
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        try:
            found = stack.enter_context(own_server())
        except postgres.ServerMissingError as missing:
            pytest.skip(str(missing))
        yield found


def test_a_recovery_whose_server_went_down_is_made_good_by_the_next_one(
    server: tuple[str, str],
) -> None:
    url, alias = server
    store = get_store(alias)
    lose(store)
    policy = StandardPolicy(expired=True, action=RecoveryAction.ABANDON)

    def decide(run: Run, moment: datetime) -> Decision:
        if run.id == "a2" and not crashed:
            crashed.append(run.id)
            crash(alias)
        return policy(run, moment)

    crashed: list[str] = []
    with pytest.raises(StoreUnavailableError):
        list(recover(store, decide))
    wait_until_it_answers(url)
    again = [str(outcome.result) for outcome in recover(store, policy)]
    versions = {store.load_snapshot(f"a{number}").version for number in range(RUNS)}

    # Admitted, acquired and abandoned: each once, whatever the first pass had come to.
    assert crashed == ["a2"]
    assert versions == {3}
    assert again.count("abandoned") >= RUNS - 2
    assert store.scan_recoverable().items == ()


def test_a_purge_whose_server_went_down_is_made_good_by_the_next_one(
    server: tuple[str, str],
) -> None:
    url, alias = server
    store = get_store(alias)
    lose(store)
    steps = purge_runs(store, timedelta())
    purged = sum(next(steps).runs for _ in range(3))

    crash(alias)
    with pytest.raises(StoreUnavailableError):
        purged += sum(step.runs for step in steps)
    wait_until_it_answers(url)
    again = sum(step.runs for step in purge_runs(store, timedelta()))

    assert (purged, purged + again) == (2, RUNS)
