"""Which store a project gets, and what it can't be given."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils.connection import ConnectionDoesNotExist

import stitchkit_django
from stitchkit_django import get_store
from stitchkit_django.conf import LEAST_LEASE_SECONDS, MOST_LEASE_SECONDS, conf
from stitchkit_django.core import AgentStore, InvalidValueError, ProviderEnvelope, ProviderPart
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.models import Message
from tests.core.steps import acquire, admit, answered, checkpoint, compact, end, history, requeue
from tests.django.hooks import counted, silent, tables

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

FUTURE = datetime(2999, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class ReplicaRouter:
    """Sends reads to one database and writes to another."""

    def __init__(self, *, reads: str, writes: str) -> None:
        """Take both aliases."""
        self._reads = reads
        self._writes = writes

    def db_for_read(self, _model: object, **_: object) -> str:
        return self._reads

    def db_for_write(self, _model: object, **_: object) -> str:
        return self._writes


# ---------------------------------------------------------------- which store


def test_each_database_has_one_store(aliases: tuple[str, ...]) -> None:
    stores = [get_store(alias) for alias in aliases]

    assert [get_store(alias) for alias in aliases] == stores
    assert len(set(map(id, stores))) == len(aliases)


def test_without_a_setting_the_default_database_is_used(sqlite_alias: str) -> None:
    assert get_store() is get_store(sqlite_alias)


def test_the_setting_names_the_database(postgres_alias: str, settings: Settings) -> None:
    settings.STITCHKIT = {"DATABASE": postgres_alias}

    store = get_store()

    assert store is get_store(postgres_alias)
    with silent("default"):
        admit(store)
    assert tables(postgres_alias)["Run"]


def test_the_setting_goes_before_the_router_and_an_argument_before_both(
    sqlite_alias: str, postgres_alias: str, settings: Settings
) -> None:
    settings.DATABASE_ROUTERS = [ReplicaRouter(reads=sqlite_alias, writes=sqlite_alias)]
    settings.STITCHKIT = {"DATABASE": postgres_alias}

    assert get_store() is get_store(postgres_alias)
    assert get_store(sqlite_alias) is not get_store()


@pytest.mark.parametrize("writes_to_postgres", [True, False])
def test_locks_reads_and_writes_of_a_store_go_where_the_router_writes(
    sqlite_alias: str, postgres_alias: str, settings: Settings, *, writes_to_postgres: bool
) -> None:
    both = (sqlite_alias, postgres_alias)
    reads, writes = both if writes_to_postgres else both[::-1]
    settings.DATABASE_ROUTERS = [ReplicaRouter(reads=reads, writes=writes)]

    store = get_store()
    with silent(reads), counted(writes) as sent:
        use_all(store, writes)

    assert store is get_store(writes)
    assert sent
    assert not any(tables(reads).values())
    assert tables(writes)["Conversation"]


def test_a_change_of_the_settings_gives_a_new_store(sqlite_alias: str, settings: Settings) -> None:
    before = get_store(sqlite_alias)

    settings.STITCHKIT = {"MAX_DEPTH": 3}

    assert get_store(sqlite_alias) is not before
    assert conf().max_depth == 3


# ---------------------------------------------------------------- what the settings do


def test_the_limit_of_a_message_is_set(alias: str, settings: Settings) -> None:
    settings.STITCHKIT = {"MAX_MESSAGE_BYTES": 100}
    store = get_store(alias)

    admit(store, "1", "x" * 60)
    with silent(alias), pytest.raises(InvalidValueError, match="at most 100"):
        admit(store, "2", "x" * 100)

    assert history(store) == ["i-1"]


def test_the_limit_of_depth_is_set(alias: str, settings: Settings) -> None:
    settings.STITCHKIT = {"MAX_DEPTH": 2}
    store = get_store(alias)

    admit(store, "1", [opaque([[1]])])
    with silent(alias), pytest.raises(InvalidValueError, match="at most 2"):
        admit(store, "2", [opaque([[[1]]])])

    assert history(store) == ["i-1"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param({}, ["i-1", "a-r1"], id="by default"),
        pytest.param({"ARCHIVE_COMPACTED": True}, ["i-1", "a-r1"], id="archived"),
        pytest.param({"ARCHIVE_COMPACTED": False}, [], id="deleted"),
    ],
)
def test_what_a_summary_has_replaced_is_archived_or_deleted(
    alias: str, settings: Settings, given: dict[str, Any], kept: list[str]
) -> None:
    settings.STITCHKIT = given
    store = get_store(alias)
    answered(store)

    compact(store, "i-1", "a-r1")

    archived = Message.objects.using(alias).filter(archived_at__isnull=False).order_by("id")
    assert [row.message_id for row in archived] == kept
    assert {row.replaced_by for row in archived} <= {"s"}
    assert history(store) == ["s"]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("given", "named"),
    [
        pytest.param([], "make it a dict", id="no dict"),
        pytest.param(None, "make it a dict", id="None"),
        pytest.param({"DATABSE": "default"}, "DATABSE", id="unknown key"),
        pytest.param({"database": "default"}, "'database'", id="key in small letters"),
        pytest.param({1: 1}, "unknown key 1", id="key that is no text"),
        pytest.param({"DATABASE": 1}, r"\['DATABASE'\] is 1:", id="database that is no text"),
        pytest.param({"DATABASE": ""}, r"\['DATABASE'\] is '':", id="database without a name"),
        pytest.param({"MAX_MESSAGE_BYTES": "1"}, r"\['MAX_MESSAGE_BYTES'\] is '1':", id="as text"),
        pytest.param({"MAX_MESSAGE_BYTES": 0}, r"\['MAX_MESSAGE_BYTES'\] is 0:", id="no bytes"),
        pytest.param({"MAX_MESSAGE_BYTES": 2**63}, "MAX_MESSAGE_BYTES", id="bytes over a bigint"),
        pytest.param({"MAX_MESSAGE_BYTES": True}, "MAX_MESSAGE_BYTES", id="bytes as a flag"),
        pytest.param({"MAX_MESSAGE_BYTES": None}, "MAX_MESSAGE_BYTES", id="bytes as None"),
        pytest.param({"MAX_DEPTH": 1.5}, "MAX_DEPTH", id="depth as a fraction"),
        pytest.param({"MAX_DEPTH": -1}, "MAX_DEPTH", id="negative depth"),
        pytest.param({"MAX_DEPTH": 501}, "MAX_DEPTH.*501.*1 to 500", id="depth over the ceiling"),
        pytest.param({"ARCHIVE_COMPACTED": 1}, "ARCHIVE_COMPACTED", id="flag as a number"),
        pytest.param({"ARCHIVE_COMPACTED": "no"}, "ARCHIVE_COMPACTED", id="flag as text"),
        pytest.param({"PUBLISHERS": "a.b"}, "PUBLISHERS.*list or tuple", id="one path for many"),
        pytest.param({"PUBLISHERS": [len]}, "PUBLISHERS", id="callable for its path"),
        pytest.param({"DISPATCHER": len}, "DISPATCHER.*dotted path", id="dispatcher itself"),
        pytest.param({"DISPATCHER": ""}, "DISPATCHER", id="dispatcher without a name"),
        pytest.param({"RECOVERY_POLICY": 1}, "RECOVERY_POLICY", id="policy as a number"),
        pytest.param({"REDACT": True}, "REDACT", id="mask as a flag"),
        pytest.param({"IDEMPOTENCY_HORIZON": timedelta()}, "HORIZON", id="no horizon at all"),
        pytest.param({"IDEMPOTENCY_HORIZON": -HOUR}, "HORIZON", id="negative horizon"),
        pytest.param({"IDEMPOTENCY_HORIZON": 30}, "HORIZON.*timedelta", id="horizon as a number"),
        pytest.param({"IDEMPOTENCY_HORIZON": "P30D"}, "HORIZON", id="horizon as text"),
        pytest.param({"LEASE_SECONDS": 0}, "LEASE_SECONDS", id="no lease"),
        pytest.param({"LEASE_SECONDS": float("nan")}, "LEASE_SECONDS", id="no number"),
        pytest.param({"LEASE_SECONDS": float("inf")}, "LEASE_SECONDS", id="lease without end"),
        pytest.param({"LEASE_SECONDS": HOUR}, "LEASE_SECONDS", id="lease as a timedelta"),
        pytest.param({"MAX_ATTEMPTS": 0}, "MAX_ATTEMPTS", id="no attempts"),
        pytest.param({"MAX_ATTEMPTS": 1.5}, "MAX_ATTEMPTS", id="attempts as a fraction"),
    ],
)
def test_a_setting_that_can_not_be_used_is_named(
    sqlite_alias: str, settings: Settings, given: object, named: str
) -> None:
    settings.STITCHKIT = given

    with pytest.raises(ImproperlyConfigured, match=f"STITCHKIT.*{named}"):
        get_store(sqlite_alias)


def test_every_key_is_read(settings: Settings) -> None:
    given = {
        "DATABASE": "default",
        "MAX_MESSAGE_BYTES": 1,
        "MAX_DEPTH": 500,
        "ARCHIVE_COMPACTED": False,
        "PUBLISHERS": ["a.b", "c.d"],
        "DISPATCHER": "e.f",
        "RECOVERY_POLICY": "g.h",
        "IDEMPOTENCY_HORIZON": HOUR,
        "LEASE_SECONDS": 30,
        "MAX_ATTEMPTS": 1,
        "REDACT": "i.j",
    }
    settings.STITCHKIT = given

    read = conf()

    assert {key: getattr(read, key.lower()) for key in given} == {
        **given,
        "PUBLISHERS": ("a.b", "c.d"),
    }
    assert read.dotted_paths == (
        ("PUBLISHERS", "a.b"),
        ("PUBLISHERS", "c.d"),
        ("DISPATCHER", "e.f"),
        ("RECOVERY_POLICY", "g.h"),
        ("REDACT", "i.j"),
    )


@pytest.mark.parametrize("seconds", [LEAST_LEASE_SECONDS, MOST_LEASE_SECONDS])
def test_a_lease_that_can_be_set_can_be_given(
    sqlite_alias: str, settings: Settings, seconds: float
) -> None:
    settings.STITCHKIT = {"LEASE_SECONDS": seconds}
    store = get_store(sqlite_alias)

    run = acquire(store, admit(store), lease=timedelta(seconds=conf().lease_seconds))

    assert run.lease_seconds == seconds


@pytest.mark.parametrize("key", ["PUBLISHERS", "DISPATCHER"])
def test_a_store_whose_paths_lead_nowhere_is_refused(
    sqlite_alias: str, settings: Settings, key: str
) -> None:
    settings.STITCHKIT = {key: ["nowhere.at_all"] if key == "PUBLISHERS" else "nowhere.at_all"}

    with pytest.raises(ImproperlyConfigured, match=f"{key}.*'nowhere.at_all'"):
        get_store(sqlite_alias)


@pytest.mark.parametrize("by_setting", [True, False])
def test_an_unknown_database_is_named(settings: Settings, *, by_setting: bool) -> None:
    settings.STITCHKIT = {"DATABASE": "nowhere"} if by_setting else {}

    with pytest.raises(ConnectionDoesNotExist, match="nowhere"):
        get_store(None if by_setting else "nowhere")


def test_moments_without_a_time_zone_are_refused(alias: str, settings: Settings) -> None:
    settings.USE_TZ = False

    with pytest.raises(ImproperlyConfigured, match="USE_TZ"):
        get_store(alias)


def test_a_database_that_is_set_to_no_autocommit_is_refused(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections[alias].settings_dict, "AUTOCOMMIT", value=False)

    with pytest.raises(ImproperlyConfigured, match=f"'{alias}'.*AUTOCOMMIT"):
        DjangoDriver(alias)


def test_a_connection_whose_autocommit_was_turned_off_is_refused(alias: str) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))
    untouched = tables(alias)

    transaction.set_autocommit(autocommit=False, using=alias)
    with silent(alias):
        for call in (
            lambda: admit(store, "2"),
            lambda: store.load_snapshot("c"),
            lambda: store.renew_lease("c", run.id, owner_id="worker", fencing_token=1),
        ):
            with pytest.raises(ImproperlyConfigured, match="not in autocommit mode"):
                call()
    transaction.set_autocommit(autocommit=True, using=alias)

    assert tables(alias) == untouched
    assert admit(store, "2").turn == 3


def test_a_database_that_the_package_does_not_know_is_refused(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections[alias], "vendor", "oracle")

    with pytest.raises(ImproperlyConfigured, match="knows postgresql, sqlite"):
        DjangoDriver(alias)


# ---------------------------------------------------------------- what is loaded

PROGRAM = """
import sys

import stitchkit_django

loaded = [name for name in sys.modules if name.partition(".")[0] == "django"]
assert not loaded, loaded

import django
from django.conf import settings

# The admin, where it is installed, asks for the store as soon as it is set up.
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["stitchkit_django"],
)
django.setup()
assert "stitchkit_django.registry" not in sys.modules
assert "stitchkit_django.driver" not in sys.modules

assert callable(stitchkit_django.get_store)
assert "stitchkit_django.registry" in sys.modules

from django.db import connections

assert not [one for one in connections.all(initialized_only=True) if one.connection]
"""


def test_nothing_of_django_is_loaded_and_no_connection_opened_before_a_store_is_asked_for(
    child_environment: dict[str, str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=child_environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_package_has_no_other_attribute() -> None:
    with pytest.raises(AttributeError, match="get_stores"):
        stitchkit_django.get_stores  # noqa: B018 - asked for, so that it is looked up


# ---------------------------------------------------------------- what the tests do


def opaque(value: Any) -> ProviderPart:
    envelope = ProviderEnvelope(schema_version=1, provider="p", data=value)
    return ProviderPart(envelope=envelope)


def use_all(store: AgentStore, using: str) -> None:
    """Let a store and its driver do something of everything."""
    answered(store, "1")
    run = acquire(store, admit(store, "2"))
    store.renew_lease("c", run.id, owner_id="worker", fencing_token=1)
    run = acquire(store, requeue(store, checkpoint(store, run, "So far")))
    store.request_interrupt("c", run.id)
    end(store, store.list_active_runs("c")[0])
    admit(store, "3")
    store.accept_input("c", "3", "Hello?")
    store.cancel_run("c", "r3")
    compact(store, "i-1", "a-r1")
    store.load_history("c")
    store.load_run("c", "r1")
    store.scan_recoverable()
    driver = DjangoDriver(using)
    held = driver.rows("c")
    assert held is not None
    driver.scan_ended(FUTURE, 0, 9)
    assert driver.transaction(lambda current: current.forget_archived("c", FUTURE, limit=9)) == 2
    assert driver.transaction(lambda current: current.forget("c", "r1", limit=9)) == 2
    assert not driver.transaction(lambda current: current.restore(held))
    store.purge_conversation("c")
