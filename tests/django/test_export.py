"""Conversations go out whole, whatever shape their rows are in."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from stitchkit_django import get_store
from stitchkit_django.core import MemoryDriver, Part, TextPart
from stitchkit_django.core.documents import rows_of
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from stitchkit_django.registry import replaced
from stitchkit_django.stored import StoredConversations
from stitchkit_django.transfer import export
from tests.core import planting
from tests.django.commanding import called, ran
from tests.django.unconstrained import unconstrained, written

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

HARD = "NUL \0, half a pair \ud83d, \u2028\r\n, \U0010ffff, e\u0301"


def masked(part: Part) -> Part:
    """Stand for a project's own redaction."""
    return TextPart(text="***") if isinstance(part, TextPart) else part


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def ids(text: str) -> list[str]:
    return [one["conversation"]["head"]["conversationId"] for one in lines(text)]


@pytest.fixture
def whole(alias: str) -> str:
    """Give a database with three conversations."""
    store = get_store(alias)
    planting.begin(store)
    store.accept_input("b", "k", HARD, metadata={HARD: [HARD, 1e100]})
    store.accept_input("d", "k", "Hello?")
    return alias


# ---------------------------------------------------------------- what comes out


def test_each_conversation_is_one_line(whole: str) -> None:
    one = called("export_conversation", "c", database=whole)
    two = called("export_conversation", "d", "b", database=whole)
    every = called("export_conversation", "--all", database=whole)

    assert (one.status, one.err) == (0, "")
    assert (ids(one.out), ids(two.out), ids(every.out)) == (["c"], ["d", "b"], ["b", "c", "d"])
    assert rows_of(one.out) == DjangoDriver(whole).rows("c")
    assert rows_of(every.out.splitlines()[0]) == DjangoDriver(whole).rows("b")


def test_a_file_holds_the_lines_and_standard_output_the_report(whole: str, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"

    done = called(
        "export_conversation",
        "--all",
        "--output",
        str(path),
        "--format",
        "json",
        database=whole,
    )

    assert done.status == 0
    assert ids(path.read_text(encoding="ascii")) == ["b", "c", "d"]
    assert path.read_text() == called("export_conversation", "--all", database=whole).out
    assert json.loads(done.out)["summary"]["exported"] == 3


def test_a_file_that_is_there_is_not_written_over(whole: str, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("mine")

    done = called("export_conversation", "c", "--output", str(path), database=whole)

    assert done.status == 2
    assert "--output: " in done.err
    assert "File exists" in done.err
    assert path.read_text() == "mine"


def test_a_limit_counts_conversations(whole: str) -> None:
    assert ids(called("export_conversation", "--all", "--limit", "2", database=whole).out) == [
        "b",
        "c",
    ]


def test_a_dry_run_writes_no_line(whole: str, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    arguments = ["export_conversation", "c", "unknown", "--dry-run"]

    plain = called(*arguments, database=whole)
    filed = called(*arguments, "--output", str(path), database=whole)

    assert (plain.status, plain.out) == (1, "")
    assert filed.out == "Would be: 1 exported\n"
    assert not path.exists()


def test_a_purged_conversation_is_its_head(alias: str) -> None:
    store = get_store(alias)
    store.accept_input("c", "k", "Hello?", run_id="r")
    store.cancel_run("c", "r")
    store.purge_conversation("c")

    done = called("export_conversation", "c", database=alias)

    assert list(lines(done.out)[0]["conversation"]) == ["head"]
    assert rows_of(done.out) == DjangoDriver(alias).rows("c")


# ---------------------------------------------------------------- rows that can't be read


def test_a_row_that_can_not_be_read_goes_out_as_it_is(whole: str) -> None:
    written(whole, Message, {"message_id": "i-4"}, parts='[{"type":"text","text":"\u0001"}')
    written(whole, Run, {"run_id": "r7"}, schema_version=9)

    done = called("export_conversation", "c", database=whole)

    assert done.status == 1
    (document,) = lines(done.out)
    run, message = document["conversation"]["unreadable"]
    assert (run["kind"], run["id"], run["columns"]["schema_version"]) == ("run", "r7", 9)
    assert (message["kind"], message["id"]) == ("message", "i-4")
    assert message["columns"]["parts"] == '[{"type":"text","text":"\u0001"}'
    assert message["columns"]["created_at"].startswith("20")
    assert len(document["conversation"]["messages"]) == 12
    assert "conversation c: message 'i-4' can't be read, and is exported as its" in done.err
    assert "conversation c: run 'r7' can't be read" in done.err


@pytest.mark.parametrize(
    ("model", "row", "columns", "kind"),
    [
        (Conversation, {}, {"version": -1}, "head"),
        (Run, {"run_id": "r4"}, {"terminal_assistant": "{"}, "run"),
        (AdmissionReceipt, {"idempotency_key": "4"}, {"input": "\x7f"}, "receipt"),
        (Message, {"message_id": "i-4"}, {"slot": -1}, "message"),
    ],
    ids=["head", "run", "receipt", "message"],
)
def test_a_row_of_any_kind_can_be_unreadable(
    whole: str, model: Any, row: dict[str, Any], columns: dict[str, Any], kind: str
) -> None:
    with unconstrained(whole, model):
        written(whole, model, row, **columns)
        made = export(StoredConversations(whole), "c")

    assert made is not None
    (unreadable,) = made.unreadable
    assert unreadable.kind == kind
    assert {name: unreadable.columns[name] for name in columns} == columns
    assert json.loads(made.text)["conversation"]["unreadable"][0]["reason"]


def test_bytes_that_are_no_text_go_out(sqlite_alias: str) -> None:
    planting.begin(get_store(sqlite_alias))
    text = b'[{"type":"text","text":"\xff"}]'.decode(errors="surrogateescape")
    with connections[sqlite_alias].cursor() as cursor:
        cursor.execute(
            "UPDATE stitchkit_django_message SET parts = CAST(%s AS TEXT) WHERE message_id = 'i-4'",
            [text.encode(errors="surrogateescape")],
        )

    done = called("export_conversation", "c", database=sqlite_alias)

    (unreadable,) = lines(done.out)[0]["conversation"]["unreadable"]
    assert unreadable["columns"]["parts"] == text


def test_rows_without_a_head_go_out_and_are_told(whole: str) -> None:
    Conversation.objects.using(whole).filter(conversation_id="d").delete()

    done = called("export_conversation", "d", database=whole)

    assert done.status == 1
    assert sorted(lines(done.out)[0]["conversation"]) == ["messages", "receipts", "runs"]
    assert "conversation d: has rows, but no head: it can't be imported" in done.err


def test_a_row_that_was_made_before_anybody_wrote_is_no_conversation(whole: str) -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    Conversation.objects.using(whole).create(conversation_id="e", version=0, updated_at=moment)

    named = called("export_conversation", "e", database=whole)
    every = called("export_conversation", "--all", database=whole)

    assert (named.status, named.out) == (1, "")
    assert "conversation e: is unknown: nobody has written to it" in named.err
    assert (every.status, ids(every.out)) == (0, ["b", "c", "d"])
    assert called("check_conversations", database=whole).status == 0


# ---------------------------------------------------------------- redaction


def test_parts_go_out_as_the_project_shows_them(whole: str, settings: Settings) -> None:
    settings.STITCHKIT = {"REDACT": f"{__name__}.masked"}

    shown = called("export_conversation", "d", database=whole)
    plain = called("export_conversation", "d", "--unredacted", database=whole)

    assert "Hello?" not in shown.out
    assert "***" in shown.out
    assert lines(shown.out)[0]["conversation"]["redacted"] is True
    assert rows_of(plain.out) == DjangoDriver(whole).rows("d")


def test_what_was_redacted_does_not_come_back_in(
    whole: str, settings: Settings, tmp_path: Path
) -> None:
    settings.STITCHKIT = {"REDACT": f"{__name__}.masked"}
    path = tmp_path / "d.jsonl"
    called("export_conversation", "d", "--output", str(path), database=whole)

    done = called("import_conversations", str(path), database=whole)

    assert done.status == 1
    assert "it was redacted when it was exported" in done.err


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "ID: name conversations, or give --all, and not both"),
        (["c", "--all"], "ID: name conversations, or give --all, and not both"),
        (["c "], "ID: 'c ' has white space at an end"),
        (["c\0"], "ID: 'c\\x00' has a control character"),
        (["c", "--format", "json"], "--format: a report in 'json' would stand among the lines"),
        (["c", "--format", "xml", "--output", "x"], "--format: 'xml' is not one of text, json"),
        (["c", "--limit", "-1"], "--limit: '-1' is not a whole number"),
        (["c", "--database", "nowhere"], "--database: 'nowhere' is no alias in DATABASES"),
    ],
    ids=str,
)
def test_bad_input_is_named_and_nothing_is_done(
    sqlite_alias: str,  # noqa: ARG001 - asked for its effect
    arguments: list[str],
    told: str,
) -> None:
    done = called("export_conversation", *arguments)

    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert not Path("x").exists()


def test_an_unknown_conversation_is_told_and_the_rest_goes_out(whole: str) -> None:
    done = called("export_conversation", "unknown", "d", database=whole)

    assert done.status == 1
    assert ids(done.out) == ["d"]
    assert "conversation unknown: is unknown: nobody has written to it" in done.err


def test_a_store_without_a_database_has_no_rows_to_export(sqlite_alias: str) -> None:
    with replaced(drivers=lambda _: MemoryDriver()):
        done = called("export_conversation", "c", database=sqlite_alias)

    assert done.status == 2
    assert "the store keeps its rows in no database, but in a MemoryDriver" in done.err


# ---------------------------------------------------------------- a process of its own


def test_a_pipe_carries_conversations_from_one_process_to_another(
    whole: str, child_environment: dict[str, str]
) -> None:
    before = {one: DjangoDriver(whole).rows(one) for one in ("b", "c", "d")}
    child_environment |= {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    out = ran(child_environment, "export_conversation", "--all", "--database", whole)
    for model in (Conversation, Run, AdmissionReceipt, Message):
        model._base_manager.using(whole).all().delete()

    done = ran(
        child_environment, "import_conversations", "--database", whole, stdin=out.out.encode()
    )

    assert (out.status, out.err) == (0, "")
    assert (done.status, done.out) == (0, "3 imported, 0 unchanged, 0 refused\n")
    assert {one: DjangoDriver(whole).rows(one) for one in before} == before
