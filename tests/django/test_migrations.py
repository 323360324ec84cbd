"""The migration makes what the models say, on every database, and can be taken back."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections, models
from django.db.migrations.state import ProjectState
from django.test import override_settings

from stitchkit_django import get_store
from stitchkit_django.compression import LZ4_SERVERS, CompressQuickly
from stitchkit_django.fields import IdentifierField, RecordField
from stitchkit_django.models import Message, Run
from tests.core.steps import admit

MODELS = list(apps.get_app_config("stitchkit_django").get_models())


@pytest.mark.parametrize(
    "auto_field", ["django.db.models.AutoField", "django.db.models.BigAutoField"]
)
def test_the_models_need_no_further_migration(sqlite_alias: str, auto_field: str) -> None:
    output = io.StringIO()

    with override_settings(DEFAULT_AUTO_FIELD=auto_field):
        call_command("makemigrations", "stitchkit_django", check=True, dry_run=True, stdout=output)

    assert "No changes detected" in output.getvalue()
    assert sqlite_alias == "default"


def test_the_migration_can_be_taken_back(alias: str) -> None:
    def tables() -> set[str]:
        names = connections[alias].introspection.table_names()
        return {name for name in names if name.startswith("stitchkit_django_")}

    before = tables()

    call_command("migrate", "stitchkit_django", "zero", database=alias, verbosity=0)
    taken_back = tables()
    call_command("migrate", "stitchkit_django", database=alias, verbosity=0)

    assert taken_back == set()
    assert tables() == before == {model._meta.db_table for model in MODELS}


def test_migrations_give_no_warning_either_way(
    alias: str, child_environment: dict[str, str]
) -> None:
    migrate = [sys.executable, "-W", "error", "-m", "django", "migrate", "--skip-checks"]

    for target in (["stitchkit_django", "zero"], []):
        done = subprocess.run(
            [*migrate, "--database", alias, *target],
            env=child_environment,
            capture_output=True,
            text=True,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, "")
    admit(get_store(alias))


def test_identifiers_are_compared_byte_for_byte(postgres_alias: str) -> None:
    with connections[postgres_alias].cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, collation_name FROM information_schema.columns "
            "WHERE table_name LIKE 'stitchkit_django_%'"
        )
        collations = {(table, column): collation for table, column, collation in cursor.fetchall()}

    identifiers = [
        (model._meta.db_table, field.column)
        for model in MODELS
        for field in model._meta.concrete_fields
        if isinstance(field, IdentifierField)
    ]
    assert len(identifiers) > 10
    assert {collations[one] for one in identifiers} == {"C"}


def test_texts_are_compressed_as_quickly_as_the_server_can(postgres_alias: str) -> None:
    with connections[postgres_alias].cursor() as cursor:
        cursor.execute(LZ4_SERVERS)
        method = "l" if cursor.fetchone() else ""
        cursor.execute(
            "SELECT attrelid::regclass::text, attname, attcompression FROM pg_attribute "
            "WHERE attrelid IN (SELECT oid FROM pg_class WHERE relname LIKE 'stitchkit_django_%')"
        )
        methods = {(table, column): found for table, column, found in cursor.fetchall()}

    texts = [
        (model._meta.db_table, field.column)
        for model in MODELS
        for field in model._meta.concrete_fields
        if isinstance(field, RecordField)
    ]
    assert len(texts) == 7
    assert {methods[one] for one in texts} == {method}


def test_the_compression_of_a_database_without_a_choice_is_left(
    sqlite_alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ProjectState.from_apps(apps)
    sent: list[str] = []
    with connections[sqlite_alias].schema_editor(collect_sql=True) as editor:
        monkeypatch.setattr(editor, "execute", sent.append)
        operation = CompressQuickly("message")

        operation.database_forwards("stitchkit_django", editor, state, state)
        operation.database_backwards("stitchkit_django", editor, state, state)

    assert sent == []
    assert operation.describe() == "Compress the JSON texts of message quickly"
    assert operation.migration_name_fragment == "compress_message"


def test_names_fit_every_database() -> None:
    names = [
        named.name for model in MODELS for named in (*model._meta.indexes, *model._meta.constraints)
    ]

    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 30


def test_what_a_checkpoint_changes_is_in_no_index() -> None:
    changed = {"revision", "updated_at", "lease_seconds", "lease_expires_at", "usage"}

    indexed = {field for named in Run._meta.indexes for field in named.fields}
    for constraint in Run._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint):
            indexed |= set(constraint.fields)

    assert indexed & changed == set()


@pytest.mark.parametrize(
    "field", [Run._meta.get_field("usage"), Message._meta.get_field("message_id")], ids=str
)
def test_a_field_is_rebuilt_from_what_a_migration_keeps(
    field: IdentifierField | RecordField,
) -> None:
    _, path, arguments, keywords = field.deconstruct()

    rebuilt = type(field)(*arguments, **keywords)

    assert path == f"stitchkit_django.fields.{type(field).__name__}"
    assert rebuilt.deconstruct()[1:] == field.deconstruct()[1:]
    assert isinstance(rebuilt, IdentifierField | RecordField)
