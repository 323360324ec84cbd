"""`purge_conversation` deletes what a conversation holds, and only where nothing is in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stitchkit_django import get_store
from stitchkit_django.core import ConversationPurgedError
from tests.core.steps import acquire, admit, answered, checkpoint
from tests.django.commands import ran
from tests.django.hooks import tables

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_conversations_that_are_named_are_purged(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    answered(store)
    for where in "de":
        store.accept_input(where, "k", "Hello?", run_id="r")
        store.cancel_run(where, "r")
    kept = tables(alias, "e")

    found = ran(capsys, "purge_conversation", "--database", alias, "c", "d", "c")

    assert found == (
        0,
        "purged: conversation c\npurged: conversation d\nPurged 2 conversations\n",
        "",
    )
    rows = tables(alias, "c")
    assert [len(rows[name]) for name in ("Conversation", "Run", "Message")] == [1, 0, 0]
    assert tables(alias, "e") == kept


def test_a_conversation_that_is_at_work_is_refused_and_hides_no_other(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))
    for number in range(2, 9):
        admit(store, str(number))
    store.accept_input("d", "k", "Hello?", run_id="r")
    store.cancel_run("d", "r")
    before = tables(alias, "c")

    found = ran(capsys, "purge_conversation", "--database", alias, "c", "nowhere", "d")

    assert (found.status, found.lines[0]) == (1, "purged: conversation d")
    assert found.err.splitlines()[:2] == [
        (
            "failed: conversation c: it has active runs, which end first "
            "(r1, r2, r3, r4, r5 and 3 more)"
        ),
        "failed: conversation nowhere: there is no such conversation",
    ]
    assert tables(alias, "c") == before
    assert checkpoint(store, run, "Still here").revision == 2


def test_a_conversation_that_was_purged_before_is_left_and_takes_nothing_new(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    answered(store)
    command = ("purge_conversation", "--database", alias, "c")
    ran(capsys, *command)
    before = tables(alias)

    found = ran(capsys, *command)

    assert (found.status, found.lines[0]) == (
        0,
        "unchanged: conversation c: it was purged before",
    )
    with pytest.raises(ConversationPurgedError):
        admit(store, "2")
    assert tables(alias) == before


@pytest.mark.parametrize("version", [0, 99])
def test_a_version_that_has_moved_is_refused(
    alias: str, capsys: pytest.CaptureFixture[str], version: int
) -> None:
    answered(get_store(alias))
    command = ("purge_conversation", "--database", alias, "c", "--expected-version")

    moved = ran(capsys, *command, version)
    current = ran(capsys, *command, 3)

    assert (moved.status, current.status) == (1, 0)
    assert moved.err.startswith("failed: conversation c: it is at version 3\n")


def test_a_dry_run_tells_each_answer_and_changes_nothing(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    answered(store)
    for where in "de":
        store.accept_input(where, "k", "Hello?", run_id="r")
    store.cancel_run("e", "r")
    store.purge_conversation("e")
    before = tables(alias)
    command = ("purge_conversation", "--database", alias, *"cdef", "--format", "json")

    would = ran(capsys, *command, "--dry-run")
    after = tables(alias)
    does = ran(capsys, *command)

    assert after == before
    assert (would.status, would.err) == (does.status, does.err)
    assert would.document["conversations"] == does.document["conversations"]
    assert [one["result"] for one in does.document["conversations"]] == [
        "purged",
        "failed",
        "unchanged",
        "failed",
    ]


def test_a_limit_bounds_how_many_are_purged(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = get_store(alias)
    for where in "cd":
        store.accept_input(where, "k", "Hello?", run_id="r")
        store.cancel_run(where, "r")

    found = ran(capsys, "purge_conversation", "--database", alias, "c", "d", "--limit", "1")

    assert found.lines == ["purged: conversation c", "Purged 1 conversation"]
    assert store.load_run("d", "r") is not None


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("ID", ["c", " d"]),
        ("ID", ["c", "x" * 300]),
        ("--expected-version", ["c", "d", "--expected-version", "3"]),
        ("--expected-version", ["c", "--expected-version", "-1"]),
        ("--limit", ["c", "--limit", "0"]),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_done(
    alias: str, capsys: pytest.CaptureFixture[str], option: str, arguments: Sequence[str]
) -> None:
    answered(get_store(alias))
    before = tables(alias)

    found = ran(capsys, "purge_conversation", "--database", alias, *arguments)

    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"CommandError: {option}: ")
    assert tables(alias) == before
