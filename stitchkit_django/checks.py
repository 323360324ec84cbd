"""What `manage.py check` says of a project's settings; nothing is asked of a server.

An id is never used for another thing. docs/reference/checks.md has an anchor for each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.core.checks import Error, Tags, Warning, register  # noqa: A004 - Django's names
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from stitchkit_django.conf import SETTING, conf, imported
from stitchkit_django.hosts import default_alias, hosts
from stitchkit_django.statements.dialects import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django.core.checks import CheckMessage
    from django.db.backends.base.base import BaseDatabaseWrapper

    from stitchkit_django.conf import Conf

TAG: Final = "stitchkit"

_STRICT_BY_OPTION: Final = re.compile(
    r"default_transaction_isolation\s*=\s*['\"]?(repeatable|serializable)", re.IGNORECASE
)


def register_checks() -> None:
    """Register every check, those of a database with Django's own tag for them."""
    register(check_setting, TAG)
    register(check_dotted_paths, TAG)
    register(check_database_is_known, TAG)
    register(check_time_zone, TAG)
    register(check_models, TAG)
    for check in (check_vendor, check_autocommit, check_sqlite, check_isolation, check_requests):
        register(check, TAG, Tags.database)
    register(check_horizon, TAG, deploy=True)


def check_setting(**_: object) -> list[CheckMessage]:
    """E001: the setting can't be used."""
    try:
        conf()
    except ImproperlyConfigured as error:
        hint = f"Until then get_store() refuses, and no other check of {SETTING} can be made."
        return [Error(str(error), hint=hint, id="stitchkit.E001")]
    return []


def check_dotted_paths(**_: object) -> list[CheckMessage]:
    """E002: a dotted path leads to nothing that can be called."""
    return list(_broken_paths(_usable()))


def check_database_is_known(**_: object) -> list[CheckMessage]:
    """E003: DATABASE names no database of the project."""
    given = _usable()
    if given is None or given.database is None or given.database in connections:
        return []
    known = ", ".join(map(repr, connections))
    message = f"{SETTING}['DATABASE'] names {given.database!r}, which is not in DATABASES."
    hint = f"Name one of {known}, or leave it out to have the router asked."
    return [Error(message, hint=hint, id="stitchkit.E003")]


def check_time_zone(**_: object) -> list[CheckMessage]:
    """E004: USE_TZ is off."""
    if settings.USE_TZ:
        return []
    message = "USE_TZ is off, but moments are kept with their time zone: get_store() refuses."
    return [Error(message, hint="Set USE_TZ = True.", id="stitchkit.E004")]


def check_autocommit(*, databases: Iterable[str] | None = None, **_: object) -> list[CheckMessage]:
    """E005: AUTOCOMMIT of the store's database is off."""
    return [
        Error(
            f"AUTOCOMMIT of database {one.alias!r} is off, so that the store can't tell where a "
            "transaction ends: get_store() refuses.",
            hint="Leave AUTOCOMMIT on, and use transaction.atomic() where you want a transaction.",
            id="stitchkit.E005",
        )
        for one in _of_the_store(databases)
        if not one.settings_dict["AUTOCOMMIT"]
    ]


def check_vendor(*, databases: Iterable[str] | None = None, **_: object) -> list[CheckMessage]:
    """E006: the store's database is of a kind that it has no statements for."""
    return [
        Error(
            f"Database {one.alias!r} is {one.display_name}, which the store has no statements "
            "for: get_store() refuses.",
            hint=f"It knows {', '.join(DIALECTS)}: put conversations into such a database, and "
            f"name it by {SETTING}['DATABASE'] or a router.",
            id="stitchkit.E006",
        )
        for one in _of_the_store(databases)
        if one.vendor not in DIALECTS
    ]


def check_models(**_: object) -> list[CheckMessage]:
    """E007: a model that the setting names can't host what it is named for."""
    if _usable() is None:
        return []
    try:
        hosts()
    except ImproperlyConfigured as error:
        hint = (
            "Name a model of an installed app that has the fields of AbstractConversation or "
            "AbstractMessage, and give the names of those that it calls otherwise."
        )
        return [Error(str(error), hint=hint, id="stitchkit.E007")]
    return []


def check_sqlite(*, databases: Iterable[str] | None = None, **_: object) -> list[CheckMessage]:
    """W001: transactions of the store's SQLite database begin without the writer's place."""
    return [
        Warning(
            f"Transactions of the SQLite database {one.alias!r} begin as readers: one that reads "
            "first and then writes fails at once where another has written meanwhile.",
            hint="Set OPTIONS = {'transaction_mode': 'IMMEDIATE'} for it.",
            id="stitchkit.W001",
        )
        for one in _of_the_store(databases)
        if one.vendor == "sqlite" and not _is_alone(one) and not _begins_as_writer(one)
    ]


def check_isolation(*, databases: Iterable[str] | None = None, **_: object) -> list[CheckMessage]:
    """W002: transactions of the store's PostgreSQL database are stricter than READ COMMITTED."""
    return [
        Warning(
            f"Transactions of database {one.alias!r} are stricter than READ COMMITTED: one that "
            "waited for a conversation's lock is refused. The store runs its own again, but inside "
            "your atomic() it can only raise StoreUnavailableError.",
            hint="Leave the isolation at READ COMMITTED, which the store needs no more than.",
            id="stitchkit.W002",
        )
        for one in _of_the_store(databases)
        if one.vendor == "postgresql" and _is_strict(one.settings_dict["OPTIONS"])
    ]


def check_requests(*, databases: Iterable[str] | None = None, **_: object) -> list[CheckMessage]:
    """W003: each request is one transaction."""
    return [
        Warning(
            f"ATOMIC_REQUESTS of database {one.alias!r} is on: an operation keeps its conversation "
            "locked until the response, events and dispatches wait for that, too, and what the "
            "database refuses can't be run again.",
            hint="Turn it off, or mark the views that use the store by "
            "transaction.non_atomic_requests.",
            id="stitchkit.W003",
        )
        for one in _of_the_store(databases)
        if one.settings_dict["ATOMIC_REQUESTS"]
    ]


def check_horizon(**_: object) -> list[CheckMessage]:
    """W004: it is not said how long a run answers retries."""
    given = _usable()
    if given is None or given.idempotency_horizon is not None:
        return []
    message = (
        f"{SETTING}['IDEMPOTENCY_HORIZON'] is not set: ended runs and receipts are kept for good."
    )
    hint = (
        "Set it to a timedelta longer than any client retries, and run manage.py purge_idempotency "
        "regularly. Silence this check if they are to be kept."
    )
    return [Warning(message, hint=hint, id="stitchkit.W004")]


def _usable() -> Conf | None:
    # What is wrong with the setting as a whole is said once, by check_setting.
    try:
        return conf()
    except ImproperlyConfigured:
        return None


def _broken_paths(given: Conf | None) -> Iterator[CheckMessage]:
    for key, path in given.dotted_paths if given else ():
        try:
            imported(key, path)
        except ImproperlyConfigured as error:
            hint = "Give the dotted path of a function, or of an instance that can be called."
            yield Error(str(error), hint=hint, id="stitchkit.E002")


def _of_the_store(databases: Iterable[str] | None) -> list[BaseDatabaseWrapper]:
    try:
        alias = default_alias()
    except ImproperlyConfigured:
        return []
    return [connections[alias]] if alias in (databases or ()) and alias in connections else []


def _is_alone(connection: Any) -> bool:  # noqa: ANN401 - SQLite's connection declares no types
    # A database in memory has one connection, and so nobody to wait for.
    is_in_memory: bool = connection.is_in_memory_db()
    return is_in_memory


def _begins_as_writer(connection: BaseDatabaseWrapper) -> bool:
    mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode") or "")
    return mode.upper() in {"IMMEDIATE", "EXCLUSIVE"}


def _is_strict(options: dict[str, Any]) -> bool:
    from psycopg import IsolationLevel  # noqa: PLC0415 - only where PostgreSQL is used

    strict = {IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE}
    is_set = options.get("isolation_level") in strict
    return is_set or bool(_STRICT_BY_OPTION.search(str(options.get("options") or "")))
