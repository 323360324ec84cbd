"""The purge of a conversation: its id is typed, and a lost race is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.models import CHANGE, DELETION, LogEntry

from stitchkit_django import get_store
from stitchkit_django.models import Message
from tests.admin.pages import READING, conversation_url, got, seen, told
from tests.core.steps import admit, answered
from tests.django.hooks import tables

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.pages import LogIn

PURGE = {"typed": "c", "version": "3"}


def post(client: Client, **fields: Any) -> Any:
    return client.post(conversation_url(view="purge"), PURGE | fields, follow=True)


def test_a_conversation_is_purged_once_its_id_is_typed(alias: str, client: Client) -> None:
    answered(get_store(alias))

    page = got(client, conversation_url(view="purge"))
    response = post(client)

    assert 'name="version" value="3"' in page
    assert "for good" in seen(page)
    assert told(response) == ["The conversation was purged for good."]
    assert not Message.objects.using(alias).exists()
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.object_id) == (DELETION, "c")
    assert "purged for good" in got(client, conversation_url(view="history"))


def test_another_id_purges_nothing(alias: str, client: Client) -> None:
    answered(get_store(alias))
    before = tables(alias)

    for typed in ("", "C", "other", "c\0", "x" * 10_000):
        assert 'class="errorlist"' in post(client, typed=typed).content.decode()

    assert tables(alias) == before
    assert not LogEntry.objects.exists()


def test_a_conversation_that_moved_is_left_and_that_is_told(alias: str, client: Client) -> None:
    store = get_store(alias)
    answered(store)
    store.accept_input("c", "late", "Wait!")
    store.cancel_run("c", store.list_active_runs("c")[0].id)
    before = tables(alias)

    response = post(client)

    assert told(response) == [
        "Nothing was purged: the conversation has been written since. Look at it again."
    ]
    assert tables(alias) == before
    assert LogEntry.objects.get().action_flag == CHANGE


def test_active_runs_stand_in_its_way(alias: str, client: Client) -> None:
    admit(get_store(alias))
    before = tables(alias)

    page = seen(got(client, conversation_url(view="purge")))
    response = post(client, version="1")

    assert "It can't be purged while runs are active: queued r1" in page
    assert told(response) == ["Nothing was purged: runs are active: r1"]
    assert tables(alias) == before


def test_what_is_purged_already_is_told(alias: str, client: Client) -> None:
    store = get_store(alias)
    answered(store)
    store.purge_conversation("c")

    page = seen(got(client, conversation_url(view="purge")))
    response = post(client, version="4")

    assert "It is purged already." in page
    assert "was purged and its id can't be used again" in told(response)[0]


def test_a_purge_needs_its_own_permission(alias: str, log_in: LogIn) -> None:
    answered(get_store(alias))
    reader = log_in(*READING, "abandon_run")

    assert "Purge…" not in got(reader, conversation_url())
    assert reader.get(conversation_url(view="purge")).status_code == 403
    assert reader.post(conversation_url(view="purge"), PURGE).status_code == 403
    assert Message.objects.using(alias).exists()
    assert "Purge…" in got(log_in(*READING, "purge_conversation"), conversation_url())
