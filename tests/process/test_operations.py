"""Commands as operators run them: beside each other, beside workers that die, and ended early."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest

from stitchkit_django import get_store
from stitchkit_django.core.lifecycle import TERMINAL_STATES, MessageRole, MessageStatus
from stitchkit_django.models import Message, Run
from tests.core.steps import run_of
from tests.process.children import ROOT
from tests.process.modules import ended, managed, module
from tests.process.pausing import COMMITTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from stitchkit_django.core import AgentStore

REQUEUE: Final = ("--expired", "--action", "requeue", "--replay-safe")
ENDS: Final = set(MessageStatus) - {MessageStatus.COMMITTED, MessageStatus.STREAMING}


# ---------------------------------------------------------------- beside workers that die


@pytest.mark.parametrize(
    "case",
    [
        pytest.param((20, 4, 1), id="short"),
        pytest.param((200, 40, 2), id="long", marks=pytest.mark.slow),
    ],
)
def test_workers_that_die_over_and_over_leave_one_end_for_each_input(
    postgres_alias: str,
    child_environment: Mapping[str, str],
    tmp_path: Path,
    case: tuple[int, int, int],
) -> None:
    conversations, seconds, seed = case
    store = get_store(postgres_alias)
    where = [f"c{number}" for number in range(conversations)]
    admitted = _admit(store, where, inputs=5)
    journal = tmp_path / "journal"
    commands = [("recover_runs", *REQUEUE), ("purge_idempotency", "--older-than", "0s")] * 2

    with ExitStack() as stack:
        loops = [
            stack.enter_context(
                module(
                    child_environment,
                    "tests.process.looping",
                    *(*command, "--database", postgres_alias),
                )
            )
            for command in commands
        ]
        arguments = (postgres_alias, str(seed), str(seconds), str(journal), *where)
        with module(child_environment, "tests.process.crew", *arguments) as crew:
            crew_ended = ended(crew)
        for loop in loops:
            loop.send_signal(signal.SIGTERM)
        told = [ended(loop) for loop in loops]

    assert (crew_ended.status, crew_ended.err) == (0, "")
    assert int(crew_ended.out) >= 10 * seconds / 4
    _check_loops(postgres_alias, [one.out for one in told], [one.err for one in told], admitted)
    _check_ends(postgres_alias, admitted)
    _check_journal(journal.read_text().splitlines())
    checked = managed(child_environment, "check_conversations", "--database", postgres_alias)
    assert (checked.status, checked.err) == (0, "")


def _admit(store: AgentStore, where: Sequence[str], inputs: int) -> set[tuple[str, str]]:
    return {
        (one, run_of(store.accept_input(one, f"k{number}", f"Input {number}")).id)
        for number in range(inputs)
        for one in where
    }


def _check_loops(
    alias: str, outs: Sequence[str], errs: Sequence[str], admitted: set[tuple[str, str]]
) -> None:
    assert list(errs) == [""] * len(errs)
    found = [json.loads(out) for out in outs]
    for one in found:
        # Each pass was whole, or was ended by the signal; none failed.
        assert set(one["statuses"]) <= {"0", "143"}
        assert one["totals"]["failed"] == 0
    totals: Counter[str] = Counter()
    for one in found:
        totals.update(one["totals"])
    assert totals["requeued"] > 0
    # Each run that is gone was purged once.
    assert totals["runs"] == len(admitted) - Run.objects.using(alias).count() > 0
    assert totals["receipts"] == totals["runs"]


def _check_ends(alias: str, admitted: set[tuple[str, str]]) -> None:
    runs = Run.objects.using(alias).values_list("conversation_id", "run_id", "state")
    left = {(where, run_id): state for where, run_id, state in runs}
    assert set(left) <= admitted
    assert set(left.values()) <= TERMINAL_STATES
    answers: dict[tuple[str, int], list[tuple[str | None, str]]] = defaultdict(list)
    inputs: Counter[tuple[str, int]] = Counter()
    rows = Message.objects.using(alias).exclude(role=MessageRole.SUMMARY)
    for where, turn, role, run_id, status in rows.values_list(
        "conversation_id", "turn", "role", "run_id", "status"
    ):
        if role == MessageRole.ASSISTANT:
            answers[where, turn].append((run_id, status))
        else:
            inputs[where, turn] += 1
    # Archived or not, each input stands in a turn with one answer, which has ended, of one run.
    assert inputs.total() == len(admitted)
    assert set(answers) == set(inputs)
    assert all(len(found) == 1 and found[0][1] in ENDS for found in answers.values())
    answered = [(where, found[0][0]) for (where, _), found in answers.items()]
    assert len(set(answered)) == len(answered)
    assert set(answered) <= admitted


def _check_journal(lines: Sequence[str]) -> None:
    fences: dict[tuple[str, str], list[int]] = defaultdict(list)
    ends: Counter[tuple[str, str]] = Counter()
    for line in lines:
        what, where, run_id, fence = line.split()
        if what == "acquired":
            fences[where, run_id].append(int(fence))
        else:
            ends[where, run_id] += 1
    assert max(ends.values()) == 1
    assert max(len(found) for found in fences.values()) > 1
    # Two workers may note in another order than they acquired in, but never the same fence.
    assert all(len(set(found)) == len(found) for found in fences.values())


# ---------------------------------------------------------------- beside each other


def test_purges_and_recoveries_at_once_handle_each_row_once(
    postgres_alias: str, child_environment: Mapping[str, str]
) -> None:
    store = get_store(postgres_alias)
    for number in range(30):
        where = f"c{number}"
        for key in "12":
            store.cancel_run(where, run_of(store.accept_input(where, key, "Hello?")).id)
        snapshot = store.load_snapshot(where)
        ids = [message.id for message in snapshot.messages]
        store.compact_history(
            where, expected_version=snapshot.version, message_ids=ids, summary_parts="Short."
        )
        run = run_of(store.accept_input(where, "3", "Hello?"))
        lease = timedelta(microseconds=1)
        store.acquire_run(where, run.id, expected_revision=0, owner_id="w", lease=lease)
    purge = ("purge_idempotency", "--older-than", "0s", "--batch-size", "2")
    abandon = ("recover_runs", "--expired", "--action", "abandon", "--batch-size", "3")
    commands = [purge, purge, abandon, abandon]

    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                module(
                    child_environment,
                    "django",
                    *(*command, "--database", postgres_alias, "--format", "json"),
                )
            )
            for command in commands
        ]
        found = [ended(process) for process in processes]

    assert [(one.status, one.err) for one in found] == [(0, "")] * 4
    totals: Counter[str] = Counter()
    for one in found:
        summary = json.loads(one.out)["summary"]
        totals.update({key: value for key, value in summary.items() if type(value) is int})
    assert (totals["runs"], totals["receipts"], totals["abandoned"]) == (60, 60, 30)
    assert set(Run.objects.using(postgres_alias).values_list("state", flat=True)) == {"abandoned"}


# ---------------------------------------------------------------- ended early


@pytest.mark.parametrize(
    ("number", "pattern"),
    [
        (signal.SIGTERM, "UPDATE"),
        (signal.SIGTERM, "^DELETE"),
        (signal.SIGTERM, COMMITTED),
        (signal.SIGINT, "UPDATE"),
    ],
)
def test_a_signal_ends_a_command_after_the_batch_in_hand(
    alias: str, child_environment: Mapping[str, str], number: signal.Signals, pattern: str
) -> None:
    purgeable(get_store(alias), 6)
    command = ("purge_idempotency", "--older-than", "0s", "--batch-size", "4")

    with module(
        child_environment,
        *("tests.process.pausing", alias, pattern, *command, "--database", alias),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "paused\n"
        process.send_signal(number)
        found = ended(process)

    assert found.status == 128 + number
    assert found.out.startswith("Purged 2 runs and 2 receipts; ")
    assert "(ended early: by a signal)" in found.out
    assert f"{number.name} has ended it after the batch in hand" in found.err
    assert Run.objects.using(alias).count() == 4
    again = managed(child_environment, *command, "--database", alias)
    assert again.out.startswith("Purged 4 runs and 4 receipts; ")


@pytest.mark.parametrize("pattern", ["UPDATE", "^DELETE FROM .*run", COMMITTED])
def test_a_second_signal_ends_a_command_at_once_and_leaves_no_half_batch(
    alias: str, child_environment: Mapping[str, str], pattern: str
) -> None:
    purgeable(get_store(alias), 6)
    command = ("purge_idempotency", "--older-than", "0s", "--batch-size", "4")

    with module(
        child_environment,
        *("tests.process.pausing", alias, pattern, *command, "--database", alias),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "paused\n"
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            # Until the first has been taken note of, a second would be the same one.
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        found = ended(process)

    assert found.status == -signal.SIGTERM
    left = 4 if pattern == COMMITTED else 6
    assert Run.objects.using(alias).count() == left
    again = managed(child_environment, *command, "--database", alias)
    assert again.out.startswith(f"Purged {left} runs and {left} receipts; ")


def test_a_recovery_that_is_ended_early_goes_on_in_the_next_pass(
    alias: str, child_environment: Mapping[str, str]
) -> None:
    store = get_store(alias)
    for number in range(5):
        run = run_of(store.accept_input(f"c{number}", "k", "Hello?"))
        lease = timedelta(microseconds=1)
        store.acquire_run(f"c{number}", run.id, expected_revision=0, owner_id="w", lease=lease)
    command = ("recover_runs", "--expired", "--action", "abandon", "--format", "json")

    with module(
        child_environment,
        *("tests.process.pausing", alias, "INSERT", *command, "--database", alias),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "paused\n"
        process.send_signal(signal.SIGTERM)
        first = ended(process)
    second = managed(child_environment, *command, "--database", alias)

    assert (first.status, second.status) == (143, 0)
    summaries = [json.loads(one.out)["summary"] for one in (first, second)]
    assert [one["abandoned"] for one in summaries] == [1, 4]
    assert summaries[0]["endedBy"] == "signal"


def purgeable(store: AgentStore, number: int) -> None:
    """Let so many runs of one conversation end, and their history make room for a summary."""
    for one in range(number):
        store.cancel_run("c", run_of(store.accept_input("c", f"k{one}", "Hello?")).id)
    snapshot = store.load_snapshot("c")
    store.compact_history(
        "c",
        expected_version=snapshot.version,
        message_ids=[message.id for message in snapshot.messages],
        summary_parts="In short.",
    )


# ---------------------------------------------------------------- output


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_goes_away_stops_the_output_and_not_the_work(
    alias: str, child_environment: Mapping[str, str], form: str
) -> None:
    store = get_store(alias)
    for number in range(20):
        run = run_of(store.accept_input(f"c{number}", "k", "Hello?"))
        lease = timedelta(microseconds=1)
        store.acquire_run(f"c{number}", run.id, expected_revision=0, owner_id="w", lease=lease)
    command = ("recover_runs", "--expired", "--action", "abandon", "--format", form)

    # As at a shell, where Python has something left to write when it ends.
    environment = {**child_environment, "PYTHONUNBUFFERED": ""}
    with module(environment, "django", *command, "--database", alias) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        status, err = process.wait(60), process.stderr.read()

    assert (status, err) == (0, "")
    assert not Run.objects.using(alias).active().exists()


@pytest.mark.parametrize(
    "locale", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_locale_that_has_no_such_characters_gets_escapes(
    alias: str, child_environment: Mapping[str, str], locale: dict[str, str], form: str
) -> None:
    get_store(alias).accept_input("größe", "k", "Hello?", run_id="rün")
    get_store(alias).accept_input("日本", "k", "Hello?", run_id="r")
    Run.objects.using(alias).filter(run_id="r").update(schema_version=2)
    # As a test runner may set it, it would go before the locale.
    inherited = {name: it for name, it in child_environment.items() if name != "PYTHONIOENCODING"}
    environment = {**inherited, "PYTHONUTF8": "0", **locale}

    found = managed(environment, "recover_runs", "--database", alias, "--format", form)

    assert found.status == 1
    assert (found.out + found.err).isascii()
    assert found.err.startswith(r"failed: run 'r' in conversation '\u65e5\u672c' has schema")
    if form == "text":
        assert found.out.startswith(r"queued: run r\xfcn in conversation gr\xf6\xdfe: ")
    else:
        assert json.loads(found.out)["runs"][0]["conversationId"] == "größe"


@pytest.mark.parametrize("installed", [True, False], ids=["rich", "no rich"])
def test_a_terminal_shows_how_far_it_has_come_and_a_pipe_gets_the_results(
    sqlite_alias: str, child_environment: Mapping[str, str], tmp_path: Path, *, installed: bool
) -> None:
    if installed:
        pytest.importorskip("rich")
    else:
        (tmp_path / "rich.py").write_text("raise ImportError\n")
    store = get_store(sqlite_alias)
    for number in range(300):
        store.accept_input(f"c{number}", "k", "Hello?", run_id=f"r{number}")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {**child_environment, "PYTHONPATH": path, "TERM": "xterm", "COLUMNS": "100"}
    terminal, end = pty.openpty()

    with subprocess.Popen(
        [sys.executable, "-m", "django", "recover_runs", "--database", sqlite_alias],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=end,
        text=True,
    ) as process:
        os.close(end)
        shown = b""
        while True:
            try:
                some = os.read(terminal, 4096)
            except OSError:
                break
            if not some:
                break
            shown += some
        out, _ = process.communicate(timeout=60)
    os.close(terminal)

    assert process.returncode == 0
    assert len(out.splitlines()) == 301
    assert out.splitlines()[-1].startswith("0 dispatched")
    assert b"runs looked at" in shown
    assert ("━".encode() in shown) is installed
    # Nothing of it stays.
    assert b"runs looked at" not in shown.split(b"\r")[-1]
