"""The fixtures that every test may use; what builds records and rows is in tests/factories.py."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from django.apps import apps
from django.db import connections, transaction
from django.test.utils import setup_databases, teardown_databases

from tests import databases
from tests.partitioned import partition
from tests.variants import PARTITIONED, SERIALIZABLE, variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker

FIXTURES = {"sqlite": "sqlite_alias", "postgres": "postgres_alias"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of a database that was not chosen; skip those of a missing server."""
    chosen = databases.chosen()
    missing = databases.postgres_missing()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for database, fixture in FIXTURES.items():
            if fixture in fixtures:
                item.add_marker(database)
        used = [database for database in FIXTURES if item.get_closest_marker(database)]
        is_wanted = set(used) <= set(chosen) and not _is_pinned_otherwise(item)
        (kept if is_wanted else left_out).append(item)
        if missing and "postgres" in used:
            item.add_marker(pytest.mark.skip(reason=missing))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _is_pinned_otherwise(item: pytest.Item) -> bool:
    return variant() == SERIALIZABLE and item.get_closest_marker("read_committed") is not None


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,  # noqa: ARG001 - asked for its effect
    django_db_modify_db_settings: None,  # noqa: ARG001 - asked for its effect
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[None]:
    """Make the test databases of every alias, also of those that no django_db mark names."""
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, serialized_aliases=[])
        if variant() == PARTITIONED:
            partition(connections["postgres"])
    yield
    with django_db_blocker.unblock():
        teardown_databases(made, verbosity=0)


@pytest.fixture(
    params=[
        pytest.param("default", id="sqlite", marks=pytest.mark.sqlite),
        pytest.param("postgres", id="postgres", marks=pytest.mark.postgres),
    ]
)
def alias(
    request: pytest.FixtureRequest,
    django_db_setup: None,  # noqa: ARG001 - asked for its effect
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """Give the alias of each database in turn; real transactions, and no rows are left behind."""
    with _opened(django_db_blocker, request.param):
        yield request.param


@pytest.fixture
def sqlite_alias(
    django_db_setup: None,  # noqa: ARG001 - asked for its effect
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """Give SQLite's alias, as `alias` does, to a test that is about SQLite alone."""
    with _opened(django_db_blocker, "default"):
        yield "default"


@pytest.fixture
def postgres_alias(
    django_db_setup: None,  # noqa: ARG001 - asked for its effect
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """Give PostgreSQL's alias, as `alias` does, to a test that is about PostgreSQL alone."""
    with _opened(django_db_blocker, "postgres"):
        yield "postgres"


@pytest.fixture
def aliases(
    django_db_setup: None,  # noqa: ARG001 - asked for its effect
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[tuple[str, ...]]:
    """Give the aliases of all chosen databases that can be had, to a test that compares them."""
    found = tuple(
        databases.ALIASES[database]
        for database in databases.chosen()
        if not (database == "postgres" and databases.postgres_missing())
    )
    with _opened(django_db_blocker, *found):
        yield found


@pytest.fixture
def child_environment(django_db_setup: None) -> dict[str, str]:  # noqa: ARG001 - for its effect
    """Give the environment of a Python process that works on this test's databases."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    names = {alias: connections[alias].settings_dict["NAME"] for alias in connections}
    environment[databases.NAMES] = json.dumps(names)
    environment["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    return environment


@contextmanager
def _opened(blocker: DjangoDbBlocker, *opened: str) -> Iterator[None]:
    with blocker.unblock():
        try:
            yield
        finally:
            for alias in opened:
                _delete_rows(alias)


def _delete_rows(alias: str) -> None:
    """Empty the package's tables; a flush of all tables would take most of a test's time."""
    connection = connections[alias]
    if connection.in_atomic_block or not connection.get_autocommit():
        connection.close()
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        for model in apps.get_app_config("stitchkit_django").get_models():
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(model._meta.db_table)}")
