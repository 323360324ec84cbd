"""`purge_history` deletes archived messages that are old enough, and no other row."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connections
from django.db.models import F

from stitchkit_django import get_store
from stitchkit_django.core import AgentStore, InvalidValueError, MemoryDriver
from stitchkit_django.models import Conversation, Message
from stitchkit_django.retention import purge_archived, purge_runs
from tests.core.steps import run_of
from tests.django.commands import ran
from tests.django.hooks import tables
from tests.product.models import Chat, ChatMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_django.fixtures import Settings

NOW = timedelta()
HOUR = timedelta(hours=1)


def archived(store: AgentStore, conversation_id: str, number: int) -> list[str]:
    """Let so many messages be replaced by a summary; give their ids."""
    for one in range(number):
        run = run_of(store.accept_input(conversation_id, f"k{one}", "Hello?"))
        store.cancel_run(conversation_id, run.id)
    snapshot = store.load_snapshot(conversation_id)
    ids = [message.id for message in snapshot.messages]
    store.compact_history(
        conversation_id,
        expected_version=snapshot.version,
        message_ids=ids[:number],
        summary_parts="In short.",
    )
    return ids[:number]


def left(alias: str) -> int:
    return Message.objects.using(alias).archived().count()


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_archived_messages_go_in_batches_and_the_rest_stays(alias: str, batch_size: int) -> None:
    store = get_store(alias)
    for where in "abc":
        archived(store, where, 3)
    before = [store.load_snapshot(where) for where in "abc"], tables(alias)["Run"]

    steps = list(purge_archived(store, NOW, batch_size=batch_size))

    assert sum(step.messages for step in steps) == 9
    assert max(step.messages for step in steps) == min(batch_size, 3)
    assert ([store.load_snapshot(where) for where in "abc"], tables(alias)["Run"]) == before
    assert left(alias) == 0


def test_what_was_archived_lately_stays(alias: str) -> None:
    store = get_store(alias)
    old, *lately = archived(store, "c", 4)
    rows = Message.objects.using(alias).filter(message_id=old)
    rows.update(archived_at=F("archived_at") - HOUR)

    would, gone = [
        sum(step.messages for step in purge_archived(store, HOUR, dry_run=dry_run))
        for dry_run in (True, False)
    ]

    assert (would, gone) == (1, 1)
    kept = Message.objects.using(alias).archived().values_list("message_id", flat=True)
    assert sorted(kept) == sorted(lately)


def test_every_conversation_is_visited_whatever_the_pages(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = get_store(alias)
    for where in ("XeLu", "XGeU", "a_z", "ab", "é"):
        archived(store, where, 1)
    monkeypatch.setattr("stitchkit_django.retention.KEYS_AT_ONCE", 2)

    steps = list(purge_archived(store, NOW))

    assert [step.conversation_id for step in steps if step.messages] == [
        "XGeU",
        "XeLu",
        "a_z",
        "ab",
        "é",
    ]


def test_a_purge_moves_no_version(alias: str) -> None:
    store = get_store(alias)
    archived(store, "c", 2)
    before = list(Conversation.objects.using(alias).values())

    list(purge_archived(store, NOW))

    assert list(Conversation.objects.using(alias).values()) == before


def test_a_conversation_that_fails_hides_no_other(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = get_store(alias)
    for where in "abc":
        archived(store, where, 2)

    def hook(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        is_locked.extend(["b" in rest[0]] if "stitchkit_django_conversation" in sql else [])
        if sql.startswith("DELETE") and is_locked[-1]:
            msg = "a disk is full"
            raise OperationalError(msg)
        return execute(sql, *rest)

    is_locked: list[bool] = []
    with connections[alias].execute_wrapper(hook):
        found = ran(capsys, "purge_history", "--database", alias, "--older-than", "0s")

    assert (found.status, found.out) == (1, "Purged 4 archived messages\n")
    assert found.err.startswith("failed: conversation b: StoreUnavailableError: the database")
    assert left(alias) == 2


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_dry_run_says_what_would_go_and_deletes_nothing(
    alias: str, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    archived(get_store(alias), "c", 3)
    command = ("purge_history", "--database", alias, "--older-than", "0s", "--format", form)

    would = ran(capsys, *command, "--dry-run")
    after = left(alias)
    does = ran(capsys, *command)

    assert (after, left(alias)) == (3, 0)
    if form == "text":
        assert (would.out, does.out) == (
            "Would purge 3 archived messages\n",
            "Purged 3 archived messages\n",
        )
    else:
        assert would.document["summary"] == does.document["summary"] | {"dryRun": True}
        assert does.document["summary"]["messages"] == 3


def test_a_limit_bounds_how_many_messages_go(
    alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for where in "ab":
        archived(get_store(alias), where, 3)
    command = ("purge_history", "--database", alias, "--older-than", "0s", "--limit", "4")

    found = [ran(capsys, *command, *more).out for more in (["--dry-run"], [], [])]

    assert found == [
        "Would purge 4 archived messages\n",
        "Purged 4 archived messages\n",
        "Purged 2 archived messages\n",
    ]


@pytest.mark.parametrize(
    "arguments", [(), ("--older-than", "soon"), ("--older-than", "1d", "--limit", "-1")]
)
def test_what_can_not_be_is_refused_by_its_option(
    alias: str, capsys: pytest.CaptureFixture[str], arguments: Sequence[str]
) -> None:
    archived(get_store(alias), "c", 1)

    found = ran(capsys, "purge_history", "--database", alias, *arguments)

    option = "--limit" if "--limit" in arguments else "--older-than"
    assert (found.status, found.out, left(alias)) == (2, "", 1)
    assert found.err.startswith(f"CommandError: {option}: ")


def test_rows_of_a_product_are_purged_like_the_packages_own(alias: str, settings: Settings) -> None:
    settings.STITCHKIT = {
        "CONVERSATION_MODEL": {"model": "product.Chat", "columns": {"conversation_id": "key"}},
        "MESSAGE_MODEL": {"model": "product.ChatMessage", "columns": {"parts": "body"}},
    }
    Chat.objects.using(alias).create(key="never used")
    store = get_store(alias)
    try:
        archived(store, "c", 3)

        messages = sum(step.messages for step in purge_archived(store, NOW))
        runs = sum(step.runs for step in purge_runs(store, NOW))

        # Of the second run the question was archived, and the answer stands in the history.
        assert (messages, runs) == (3, 1)
        assert ChatMessage._base_manager.using(alias).count() == 4
    finally:
        for model in (Chat, ChatMessage):
            model._base_manager.using(alias).all().delete()


def test_a_store_that_does_not_tell_where_archived_messages_are_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="not over Django's driver"):
        next(purge_archived(AgentStore(MemoryDriver()), NOW))
