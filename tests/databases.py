"""The pytest plugin that gives a run its databases; tests/conftest.py gives them to tests.

STITCHKIT_TEST_DATABASES chooses: sqlite, postgres or both (the default). The process that
controls the run makes its directory and starts a PostgreSQL server unless
STITCHKIT_TEST_POSTGRES_URL names one; xdist's workers inherit both through the environment.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests import postgres
from tests.variants import VARIANT, VARIANTS, variant

if TYPE_CHECKING:
    from collections.abc import Generator

CHOICE = "STITCHKIT_TEST_DATABASES"
DIRECTORY = "STITCHKIT_TEST_DIRECTORY"
NAMES = "STITCHKIT_TEST_DATABASE_NAMES"
POSTGRES_MISSING = "STITCHKIT_TEST_POSTGRES_MISSING"
POSTGRES_URL = "STITCHKIT_TEST_POSTGRES_URL"

ALIASES = {"sqlite": "default", "postgres": "postgres"}


def chosen() -> tuple[str, ...]:
    """Give the databases that this run tests on, `sqlite` first.

    Raises:
        pytest.UsageError: STITCHKIT_TEST_DATABASES has another value.
    """
    choice = os.environ.get(CHOICE, "both")
    if choice == "both":
        return tuple(ALIASES)
    if choice not in ALIASES:
        raise pytest.UsageError(f"{CHOICE} is {choice!r}: use sqlite, postgres or both")
    return (choice,)


def postgres_missing() -> str | None:
    """Say why the tests on PostgreSQL are skipped; None when they are not."""
    return os.environ.get(POSTGRES_MISSING)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Prepare the databases before pytest-django reads the settings."""
    options = early_config.known_args_namespace
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not (is_worker or options.help or options.version):
        environment = pytest.MonkeyPatch()
        early_config.add_cleanup(environment.undo)
        _prepare(early_config, environment)
    return (yield)


def _prepare(config: pytest.Config, environment: pytest.MonkeyPatch) -> None:
    if variant() not in {None, *VARIANTS}:
        known = ", ".join(VARIANTS)
        raise pytest.UsageError(f"{VARIANT} is {variant()!r}: use {known}, or leave it out")
    directory = Path(tempfile.mkdtemp(prefix="stitchkit_"))
    # At the end of the process, since the wheel's own clean-up there still takes its lock file.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    environment.setenv(DIRECTORY, str(directory))
    environment.delenv(NAMES, raising=False)
    environment.delenv(POSTGRES_MISSING, raising=False)
    if "postgres" not in chosen():
        environment.delenv(POSTGRES_URL, raising=False)
        return

    server = ExitStack()
    config.add_cleanup(server.close)
    named = os.environ.get(POSTGRES_URL)
    try:
        url = named or server.enter_context(postgres.started(directory))
        postgres.require(url)
    except postgres.ServerMissingError as error:
        if named or "CI" in os.environ or chosen() == ("postgres",):
            _refuse(error)
        environment.delenv(POSTGRES_URL, raising=False)
        environment.setenv(POSTGRES_MISSING, str(error))
    else:
        environment.setenv(POSTGRES_URL, url)


def _refuse(error: postgres.ServerMissingError) -> NoReturn:
    raise pytest.UsageError(
        f"no PostgreSQL to test on: {error}. Install the extra `dev`, or name a server in "
        f"{POSTGRES_URL}, or set {CHOICE}=sqlite"
    ) from error


def pytest_report_header() -> str:
    """Name the databases at the top of the report."""
    names = [f"SQLite {sqlite3.sqlite_version}"] if "sqlite" in chosen() else []
    if "postgres" in chosen():
        names.append(f"PostgreSQL ({postgres_missing() or os.environ[POSTGRES_URL]})")
    varied = f", variant {variant()}" if variant() else ""
    return f"databases: {', '.join(names)}{varied}"
