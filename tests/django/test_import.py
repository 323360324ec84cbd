"""Conversations come into a database line by line, whole or not at all, once."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connections

from stitchkit_django import get_store
from stitchkit_django.core import MemoryDriver, StoreUnavailableError
from stitchkit_django.core.documents import exported
from stitchkit_django.core.transfer import ImportResult
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.integrity import check_all
from stitchkit_django.models import Conversation, Run
from stitchkit_django.stored import StoredConversations
from stitchkit_django.transfer import Imported, export, import_lines
from tests.core import planting
from tests.core.aggregates import (
    admission,
    aggregate,
    answer,
    completed,
    line,
    message,
    recorded,
    run,
    system,
)
from tests.core.steps import acquire, admit, end, view
from tests.django.commanding import SECONDS, called, ran, started
from tests.django.hooks import failing, tables
from tests.replay import histories, replay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from stitchkit_django.core.driver import ConversationRows

IMPORTED = ImportResult.IMPORTED
UNCHANGED = ImportResult.UNCHANGED
REFUSED = ImportResult.REFUSED


def renamed(text: str, conversation_id: str) -> bytes:
    return text.replace('"c"', f'"{conversation_id}"').encode()


def legacy_lines() -> list[bytes]:
    found = (line(recorded(history)[0]) for history in histories())
    return [renamed(text, f"c{number}") for number, text in enumerate(found)]


def results(
    alias: str, lines: Iterable[bytes], **options: bool
) -> list[tuple[int, ImportResult, str | None]]:
    done: Iterator[Imported] = import_lines(DjangoDriver(alias), lines, **options)
    return [(one.line, one.outcome.result, one.outcome.reason) for one in done]


def wrong(alias: str) -> list[str]:
    stored = StoredConversations(alias)
    return [str(one) for checked in check_all(stored, page=50) for one in checked.findings]


# ---------------------------------------------------------------- the retired aggregate


def test_nothing_is_found_after_an_import_of_every_recorded_conversation(alias: str) -> None:
    lines = legacy_lines()

    done = results(alias, lines)

    assert [result for _, result, _ in done] == [IMPORTED] * len(lines)
    assert wrong(alias) == []
    assert len(list(StoredConversations(alias).ids())) == len(lines)


def test_a_second_import_changes_nothing(alias: str) -> None:
    lines = legacy_lines()[:20]
    results(alias, lines)
    before = tables(alias)

    done = results(alias, lines)

    assert {result for _, result, _ in done} == {UNCHANGED}
    assert tables(alias) == before


def test_an_imported_conversation_goes_on(alias: str) -> None:
    history = [
        system("n"),
        message("i1"),
        answer("r1", "streaming"),
        message("i2"),
        system("o"),
    ]
    runs = [run("r1", "i1", state="running", ownerId="w"), run("r2", "i2")]
    results(alias, [renamed(line(aggregate(runs, history)), "c")])
    store = get_store(alias)

    running = view(store, "r1").run
    end(store, running)
    store.accept_input("c", "k3", "More", input_message_id="i3", coalesce_into="r2")
    end(store, acquire(store, view(store, "r2").run))
    end(store, acquire(store, admit(store, "9")))

    assert [one.id for one in store.load_snapshot("c").messages] == [
        "n",
        "i1",
        "a-r1",
        "i2",
        "i3",
        "o",
        "a-r2",
        "i-9",
        "a-r9",
    ]
    assert store.load_snapshot("c").version == 20 + 7
    assert wrong(alias) == []


# ---------------------------------------------------------------- round trips


@pytest.fixture
def source(alias: str) -> str:
    """Give a database with conversations that have everything, one of them purged."""
    store = get_store(alias)
    planting.begin(store)
    for number, history in enumerate(histories()[::15]):
        replay(store, f"h{number}", history)
    store.accept_input("purged", "k", "Hello?", run_id="r")
    store.cancel_run("purged", "r")
    store.purge_conversation("purged")
    hard = "NUL \0, half a pair \ud83d, \u2028\r\n, \U0010ffff, e\u0301"
    store.accept_input("hard", "e\u0301 \U0010ffff", hard, metadata={"\0": [1e100, -0.0, 10**30]})
    return alias


def all_rows(driver: Any, ids: Iterable[str]) -> list[ConversationRows]:
    return [driver.rows(one) for one in ids]


def exports(alias: str) -> dict[str, bytes]:
    stored = StoredConversations(alias)
    found = {}
    for conversation_id in stored.ids():
        made = export(stored, conversation_id)
        assert made is not None
        assert made.unreadable == ()
        found[conversation_id] = made.text.encode()
    return found


def test_rows_go_out_and_come_back_the_same(source: str) -> None:
    driver = DjangoDriver(source)
    lines = exports(source)
    before = all_rows(driver, lines)
    for model in ("conversation", "run", "admissionreceipt", "message"):
        with connections[source].cursor() as cursor:
            cursor.execute(f"DELETE FROM stitchkit_django_{model}")

    done = results(source, lines.values())

    assert {result for _, result, _ in done} == {IMPORTED}
    assert all_rows(driver, lines) == before
    assert exports(source) == lines
    assert wrong(source) == []


def test_rows_go_through_a_memory_driver_the_same(source: str) -> None:
    driver, memory = DjangoDriver(source), MemoryDriver()
    lines = exports(source)

    done = list(import_lines(memory, lines.values()))

    assert {one.outcome.result for one in done} == {IMPORTED}
    before = all_rows(driver, lines)
    assert all_rows(memory, lines) == before
    assert [exported(rows).encode() for rows in before] == list(lines.values())


def test_rows_go_from_one_database_to_the_other_the_same(
    source: str, aliases: tuple[str, ...]
) -> None:
    lines = exports(source)
    before = all_rows(DjangoDriver(source), lines)

    for alias in aliases:
        if alias != source:
            results(alias, lines.values())
            assert all_rows(DjangoDriver(alias), lines) == before
            assert exports(alias) == lines
            assert wrong(alias) == []


# ---------------------------------------------------------------- refusals


def test_a_line_that_is_refused_is_named_and_stops_no_other(alias: str) -> None:
    good = [renamed(line(recorded(history)[0]), f"c{n}") for n, history in enumerate(histories())]
    lines = [*good[:6], b'{"state": {"schemaVersion": 1', b"  \n", b"\xff\n", *good[6:8]]

    done = results(alias, lines)

    assert [number for number, result, _ in done if result is IMPORTED] == [
        1,
        2,
        3,
        4,
        5,
        6,
        10,
        11,
    ]
    refused = {number: reason for number, result, reason in done if result is REFUSED}
    assert list(refused) == [7, 9]
    assert "is no conversation" in str(refused[7])
    assert "is not UTF-8" in str(refused[9])
    assert wrong(alias) == []


def test_a_conversation_that_is_refused_leaves_no_row(alias: str) -> None:
    missing = aggregate([completed("r1", "i1")], [answer("r1")])
    before = tables(alias)

    ((number, result, reason),) = results(alias, [line(missing).encode()])

    assert (number, result) == (1, REFUSED)
    assert "the input 'i1' of key 'k-i1' is not among the messages" in str(reason)
    assert tables(alias) == before


def test_a_conversation_that_went_on_is_not_overwritten(alias: str) -> None:
    lines = legacy_lines()[:1]
    results(alias, lines)
    get_store(alias).accept_input("c0", "later", "Later")
    before = tables(alias)

    ((_, result, reason),) = results(alias, lines)

    assert result is REFUSED
    assert "what is stored is left as it is" in str(reason)
    assert tables(alias) == before


def test_a_dry_run_validates_every_line_and_writes_nothing(alias: str) -> None:
    lines = [*legacy_lines()[:2], b"{"]
    results(alias, lines[:1])
    before = tables(alias)

    done = results(alias, lines, dry_run=True)

    assert [result for _, result, _ in done] == [UNCHANGED, IMPORTED, REFUSED]
    assert tables(alias) == before


def test_what_the_database_objects_to_is_refused_and_stops_no_other(postgres_alias: str) -> None:
    lines = legacy_lines()[:2]
    table = Run._meta.db_table
    with connections[postgres_alias].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT own CHECK (conversation_id <> 'c0')")
        try:
            done = results(postgres_alias, lines)
        finally:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT own")

    assert [result for _, result, _ in done] == [REFUSED, IMPORTED]
    assert "own" in str(done[0][2])
    assert list(StoredConversations(postgres_alias).ids()) == ["c1"]


def test_a_conversation_comes_into_a_row_that_was_made_before_anybody_wrote(alias: str) -> None:
    text = line(aggregate([completed("r1", "i1")], [message("i1"), answer("r1")]))
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    Conversation.objects.using(alias).create(conversation_id="c", version=0, updated_at=moment)

    dry = results(alias, [text.encode()], dry_run=True)
    done = results(alias, [text.encode()])

    assert dry == done == [(1, IMPORTED, None)]
    assert results(alias, [text.encode()]) == [(1, UNCHANGED, None)]
    assert wrong(alias) == []


# ---------------------------------------------------------------- failures


def test_an_import_whose_answer_was_lost_finds_itself_there(postgres_alias: str) -> None:
    text = line(aggregate([completed("r1", "i1")], [message("i1"), answer("r1")]))
    # The last statement of the transaction has run, and then the connection fails.
    with failing(postgres_alias, lambda: OperationalError("gone"), 1) as injected:
        ((_, result, _),) = results(postgres_alias, [text.encode()])

    assert len(injected.failures) == 1
    assert result is IMPORTED
    assert wrong(postgres_alias) == []


def test_a_database_that_fails_ends_the_import_and_nothing_is_half_written(alias: str) -> None:
    lines = legacy_lines()[:3]
    results(alias, lines[:1])
    done = import_lines(DjangoDriver(alias), lines)
    assert next(done).outcome.result is UNCHANGED

    with (
        failing(alias, lambda: OperationalError("out of order"), 6, 999),
        pytest.raises(StoreUnavailableError, match="out of order"),
    ):
        list(done)

    assert list(StoredConversations(alias).ids()) == ["c0"]
    assert [result for _, result, _ in results(alias, lines)] == [UNCHANGED, IMPORTED, IMPORTED]


def test_a_first_input_that_was_admitted_twice_is_refused(alias: str) -> None:
    admissions = [admission("i1", "r1"), admission("i1", "r1") | {"idempotencyKey": "other"}]
    document = aggregate(
        [completed("r1", "i1")], [message("i1"), answer("r1")], admissions=admissions
    )

    ((_, result, reason),) = results(alias, [line(document).encode()])

    assert result is REFUSED
    assert "input 'i1': 2 receipts are of this input (identity)" in str(reason)


# ---------------------------------------------------------------- the command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give a file of eight good lines, the seventh of which is broken."""
    path = tmp_path / "conversations.jsonl"
    good = legacy_lines()[:7]
    path.write_bytes(b"\n".join([*good[:6], b'{"state": {"schemaVersion": 1', *good[6:], b""]))
    return path


def test_the_broken_line_is_named_and_the_rest_is_imported(alias: str, file: Path) -> None:
    done = called("import_conversations", str(file), database=alias)

    assert done.status == 1
    assert done.out == "7 imported, 0 unchanged, 1 refused\n"
    assert f"refused: {file}:7: $: " in done.err
    assert len(list(StoredConversations(alias).ids())) == 7


def test_the_report_can_be_one_json_document(alias: str, file: Path) -> None:
    called("import_conversations", str(file), database=alias, limit=1)

    done = called(
        "import_conversations", str(file), database=alias, output_format="json", verbosity=2
    )

    report = json.loads(done.out)
    assert [one["line"] for one in report["conversations"]] == list(range(1, 9))
    first, *_, broken, last = report["conversations"]
    assert first == {
        "file": str(file),
        "line": 1,
        "conversationId": "c0",
        "result": "unchanged",
        "reason": None,
    }
    assert (broken["result"], broken["conversationId"]) == ("refused", None)
    assert last["result"] == "imported"
    assert report["summary"]["imported"] == 6
    assert (done.status, report["summary"]["failed"]) == (1, 1)


def test_a_dry_run_says_what_would_be(alias: str, file: Path) -> None:
    done = called("import_conversations", str(file), database=alias, dry_run=True, verbosity=2)

    assert done.status == 1
    assert f"would be imported: {file}:1: conversation c0" in done.out
    assert done.out.endswith("Would be: 7 imported, 0 unchanged, 1 refused\n")
    assert list(StoredConversations(alias).ids()) == []


def test_files_are_taken_in_turn_and_standard_input_where_it_is_named(
    alias: str, file: Path, child_environment: dict[str, str]
) -> None:
    last = legacy_lines()[9]

    done = ran(
        child_environment,
        "import_conversations",
        str(file),
        "-",
        "--database",
        alias,
        "-v2",
        stdin=last,
    )

    assert done.status == 1
    assert "imported: stdin:1: conversation c9\n8 imported" in done.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["{file}", "nowhere.jsonl"], "'nowhere.jsonl' can't be read: No such file"),
        (["{file}", "."], "'.' can't be read: Is a directory"),
        (["{file}", "--limit", "-1"], "--limit: '-1' is not a whole number"),
        (["{file}", "--database", "nowhere"], "--database: 'nowhere' is no alias"),
        (["{file}", "--format", "xml"], "--format: 'xml' is not one of text, json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_named_and_nothing_is_imported(
    sqlite_alias: str, file: Path, arguments: list[str], told: str
) -> None:
    given = [one.format(file=file) for one in arguments]

    done = called("import_conversations", *given)

    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert list(StoredConversations(sqlite_alias).ids()) == []


def test_a_signal_ends_an_import_after_the_line_in_hand(
    alias: str, child_environment: dict[str, str]
) -> None:
    first, second, third = (one.rstrip() + b"\n" for one in legacy_lines()[:3])
    with started(child_environment, "import_conversations", "--database", alias, "-v2") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(first)
        process.stdin.flush()
        assert process.stdout.readline() == b"imported: stdin:1: conversation c0\n"

        process.send_signal(signal.SIGTERM)
        process.stdin.write(second + third)
        process.stdin.close()
        out = process.stdout.read()

        assert process.wait(SECONDS) == 143
    # The signal came before or after the second line was asked for; never the third.
    found = list(StoredConversations(alias).ids())
    assert found in (["c0"], ["c0", "c1"])
    assert b"%d imported, 0 unchanged, 0 refused (ended early: by a signal)" % len(found) in out
    assert wrong(alias) == []


def test_two_imports_at_once_import_each_conversation_once(
    alias: str, child_environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"\n".join(legacy_lines()))
    command = ["import_conversations", str(path), "--database", alias, "--format", "json"]
    with (
        started(child_environment, *command) as one,
        started(child_environment, *command) as other,
    ):
        outs = [process.communicate(timeout=SECONDS)[0] for process in (one, other)]
        assert [process.returncode for process in (one, other)] == [0, 0]

    summaries = [json.loads(out)["summary"] for out in outs]
    assert sum(summary["imported"] for summary in summaries) == len(legacy_lines())
    assert sum(summary["unchanged"] for summary in summaries) == len(legacy_lines())
    assert wrong(alias) == []
