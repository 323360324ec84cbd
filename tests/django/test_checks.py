"""Each system check fires where it should, and nowhere else; the reference has all of them."""

from __future__ import annotations

import inspect
import io
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import Tags, run_checks
from django.core.checks.registry import registry
from django.core.management import call_command
from django.db import connections
from psycopg import IsolationLevel

from stitchkit_django import checks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "checks.md"

not_callable = "a text"


def callable_thing(*_: object) -> None:
    """Do nothing: is there to be named."""


class NamedByMistake:
    """A class where an instance was meant."""

    def __call__(self, *_: object) -> None:
        """Do nothing."""


class WritesTo:
    """A router that writes to one database."""

    def __init__(self, alias: str) -> None:
        """Take its alias."""
        self._alias = alias

    def db_for_write(self, _model: object, **_: object) -> str:
        return self._alias


def found(*databases: str, deploy: bool = False) -> list[str]:
    """Give the ids of what the project's checks say of this app."""
    messages = run_checks(databases=databases, include_deployment_checks=deploy)
    return [str(one.id) for one in messages if str(one.id).startswith("stitchkit.")]


@pytest.fixture
def options(alias: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give the settings of the store's database, to be changed."""
    return changeable(alias, monkeypatch)


@pytest.fixture
def store_on(settings: Settings, alias: str) -> str:
    """Let the store's database be the alias."""
    settings.STITCHKIT = {"DATABASE": alias}
    return alias


# ---------------------------------------------------------------- the setting


def test_a_setting_that_can_not_be_used_is_said_once(sqlite_alias: str, settings: Settings) -> None:
    settings.STITCHKIT = {"MAX_DEPTH": 0, "DISPATCHER": "nowhere.at_all"}

    assert found(sqlite_alias, deploy=True) == ["stitchkit.E001"]


def test_a_setting_that_can_be_used_says_nothing(settings: Settings) -> None:
    settings.STITCHKIT = {"MAX_DEPTH": 5}

    assert found() == []


@pytest.mark.parametrize("key", ["PUBLISHERS", "DISPATCHER", "RECOVERY_POLICY", "REDACT"])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        pytest.param("nowhere.at_all", "No module named 'nowhere'", id="no module"),
        pytest.param(f"{__name__}.absent", "absent", id="no attribute"),
        pytest.param("nodots", "nodots", id="no dots"),
        pytest.param(".relative", "can't be imported", id="relative"),
        pytest.param(f"{__name__}.not_callable", "can't be called", id="not callable"),
        pytest.param(f"{__name__}.NamedByMistake", "is a class", id="class"),
    ],
)
def test_a_path_that_leads_nowhere_is_named(
    settings: Settings, key: str, path: str, said: str
) -> None:
    settings.STITCHKIT = {key: [path] if key == "PUBLISHERS" else path}

    (message,) = checks.check_dotted_paths()

    assert message.id == "stitchkit.E002"
    assert key in message.msg
    assert path in message.msg
    assert said in message.msg
    assert message.hint


def test_each_path_that_leads_nowhere_is_said(settings: Settings) -> None:
    settings.STITCHKIT = {"PUBLISHERS": ["a.b", "c.d"], "REDACT": "e.f"}

    assert found() == ["stitchkit.E002"] * 3


def test_paths_that_can_be_called_say_nothing(settings: Settings) -> None:
    path = f"{__name__}.callable_thing"
    settings.STITCHKIT = {
        "PUBLISHERS": [path],
        "DISPATCHER": path,
        "RECOVERY_POLICY": path,
        "REDACT": path,
    }

    assert found() == []


def test_an_unknown_database_is_named_with_those_that_are_there(settings: Settings) -> None:
    settings.STITCHKIT = {"DATABASE": "nowhere"}

    (message,) = checks.check_database_is_known()

    assert found("default") == ["stitchkit.E003"]
    assert "'nowhere'" in message.msg
    assert "'default'" in str(message.hint)


def test_a_known_database_says_nothing(settings: Settings) -> None:
    settings.STITCHKIT = {"DATABASE": "default"}

    assert found() == []


@pytest.mark.parametrize("key", ["CONVERSATION_MODEL", "MESSAGE_MODEL"])
@pytest.mark.parametrize("model", ["nowhere.Model", "auth.User"])
def test_a_model_that_can_host_no_rows_is_said(settings: Settings, key: str, model: str) -> None:
    settings.STITCHKIT = {key: model}

    (message,) = checks.check_models()

    assert found("default") == ["stitchkit.E007"]
    assert model in message.msg


def test_moments_without_a_time_zone_are_said(settings: Settings) -> None:
    before = found()
    settings.USE_TZ = False

    assert before == []
    assert found() == ["stitchkit.E004"]


def test_without_a_horizon_a_deployment_is_warned(settings: Settings) -> None:
    settings.STITCHKIT = {}

    assert found(deploy=True) == ["stitchkit.W004"]
    assert found() == []


def test_with_a_horizon_a_deployment_is_not_warned(settings: Settings) -> None:
    settings.STITCHKIT = {"IDEMPOTENCY_HORIZON": timedelta(days=30)}

    assert found(deploy=True) == []


# ---------------------------------------------------------------- the database


def test_a_database_without_autocommit_is_said(store_on: str, options: dict[str, Any]) -> None:
    before = ids_of(checks.check_autocommit(databases=[store_on]))
    options["AUTOCOMMIT"] = False

    assert before == []
    assert ids_of(checks.check_autocommit(databases=[store_on])) == ["stitchkit.E005"]


def test_a_database_of_an_unknown_kind_is_said(
    store_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ids_of(checks.check_vendor(databases=[store_on]))
    monkeypatch.setattr(connections[store_on], "vendor", "oracle")

    assert before == []
    assert ids_of(checks.check_vendor(databases=[store_on])) == ["stitchkit.E006"]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (None, ["stitchkit.W001"]),
        ("DEFERRED", ["stitchkit.W001"]),
        ("IMMEDIATE", []),
        ("immediate", []),
        ("EXCLUSIVE", []),
    ],
)
def test_sqlite_is_to_begin_transactions_as_a_writer(
    sqlite_alias: str, monkeypatch: pytest.MonkeyPatch, mode: str | None, said: list[str]
) -> None:
    options = changeable(sqlite_alias, monkeypatch)
    options["OPTIONS"]["transaction_mode"] = mode

    assert ids_of(checks.check_sqlite(databases=[sqlite_alias])) == said


@pytest.mark.parametrize("name", [":memory:", "file:memorydb_default?mode=memory&cache=shared"])
def test_sqlite_in_memory_has_nobody_to_wait_for(
    sqlite_alias: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    options = changeable(sqlite_alias, monkeypatch)
    options["OPTIONS"]["transaction_mode"] = None
    options["NAME"] = name

    assert checks.check_sqlite(databases=[sqlite_alias]) == []


def test_what_is_said_of_sqlite_is_not_said_of_postgresql(
    postgres_alias: str, settings: Settings
) -> None:
    settings.STITCHKIT = {"DATABASE": postgres_alias}

    assert checks.check_sqlite(databases=[postgres_alias]) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, []),
        ({"isolation_level": IsolationLevel.READ_UNCOMMITTED}, []),
        ({"isolation_level": IsolationLevel.READ_COMMITTED}, []),
        ({"isolation_level": IsolationLevel.REPEATABLE_READ}, ["stitchkit.W002"]),
        ({"isolation_level": IsolationLevel.SERIALIZABLE}, ["stitchkit.W002"]),
        ({"isolation_level": 4}, ["stitchkit.W002"]),
        ({"options": "-c search_path=a"}, []),
        ({"options": "-c default_transaction_isolation=read\\ committed"}, []),
        ({"options": "-c default_transaction_isolation=serializable"}, ["stitchkit.W002"]),
        ({"options": "-c default_transaction_isolation=repeatable\\ read"}, ["stitchkit.W002"]),
    ],
    ids=str,
)
def test_postgresql_is_to_be_no_stricter_than_read_committed(
    postgres_alias: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    said: list[str],
) -> None:
    settings.STITCHKIT = {"DATABASE": postgres_alias}
    changeable(postgres_alias, monkeypatch)["OPTIONS"] = given

    assert ids_of(checks.check_isolation(databases=[postgres_alias])) == said


def test_isolation_is_no_matter_of_sqlite(sqlite_alias: str) -> None:
    assert checks.check_isolation(databases=[sqlite_alias]) == []


def test_requests_that_are_transactions_are_said(store_on: str, options: dict[str, Any]) -> None:
    options["ATOMIC_REQUESTS"] = False
    before = ids_of(checks.check_requests(databases=[store_on]))
    options["ATOMIC_REQUESTS"] = True

    assert before == []
    assert ids_of(checks.check_requests(databases=[store_on])) == ["stitchkit.W003"]


@pytest.fixture
def wrong_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every database have something to be said of."""
    for connection in connections.all():
        monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", value=True)


@pytest.mark.usefixtures("wrong_everywhere")
def test_only_the_database_of_the_store_is_looked_at(
    sqlite_alias: str, postgres_alias: str, settings: Settings
) -> None:
    settings.STITCHKIT = {"DATABASE": postgres_alias}

    assert ids_of(checks.check_requests(databases=[sqlite_alias])) == []
    assert ids_of(checks.check_requests(databases=[sqlite_alias, postgres_alias])) == [
        "stitchkit.W003"
    ]


@pytest.mark.usefixtures("wrong_everywhere")
def test_where_the_setting_names_none_the_router_says_which_database_is_the_store_s(
    sqlite_alias: str, postgres_alias: str, settings: Settings
) -> None:
    settings.DATABASE_ROUTERS = [WritesTo(postgres_alias)]

    assert ids_of(checks.check_requests(databases=[sqlite_alias])) == []
    assert ids_of(checks.check_requests(databases=[postgres_alias])) == ["stitchkit.W003"]


@pytest.mark.usefixtures("wrong_everywhere", "sqlite_alias")
def test_no_database_is_looked_at_unless_it_is_asked_for() -> None:
    assert found() == []


def test_nothing_is_asked_of_a_server(store_on: str) -> None:
    connections[store_on].close()

    found(store_on, deploy=True)
    checks.check_sqlite(databases=[store_on])

    assert connections[store_on].connection is None


# ---------------------------------------------------------------- as a whole


def test_the_command_runs_the_checks_by_their_tag(settings: Settings) -> None:
    settings.STITCHKIT = {"IDEMPOTENCY_HORIZON": None}
    errors = io.StringIO()

    call_command("check", tags=[checks.TAG], deploy=True, stderr=errors)

    assert "stitchkit.W004" in errors.getvalue()


def test_what_looks_at_a_database_has_djangos_tag_for_it_and_all_have_ours() -> None:
    every = registry.get_checks(include_deployment_checks=True)
    ours = [check for check in every if check.__module__ == checks.__name__]

    looking = [check for check in ours if "databases" in inspect.signature(check).parameters]
    tagged = [check for check in ours if Tags.database in check.tags]

    assert len(set(ours)) == 11
    assert looking == tagged
    assert all(checks.TAG in check.tags for check in ours)


def test_the_reference_has_each_check_and_no_other() -> None:
    used = set(re.findall(r"stitchkit\.([EW]\d{3})", Path(checks.__file__).read_text()))
    reference = REFERENCE.read_text()

    anchors = re.findall(r"^\(stitchkit-([ew]\d{3})\)=$", reference, re.MULTILINE)

    assert sorted(anchors) == sorted(one.lower() for one in used)
    assert {f"stitchkit.{one}" for one in used} == set(
        re.findall(r"stitchkit\.[EW]\d{3}", reference)
    )


def changeable(alias: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    kept = connections[alias].settings_dict
    copied = {**kept, "OPTIONS": dict(kept["OPTIONS"])}
    monkeypatch.setattr(connections[alias], "settings_dict", copied)
    return copied


def ids_of(messages: list[Any]) -> list[str]:
    assert all(one.hint for one in messages)
    return [one.id for one in messages]
