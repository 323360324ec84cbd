"""The law of isolation: what happens in one conversation leaves the others as they are."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from stitchkit_django.core import Absorption
from stitchkit_django.testing.claims import expect
from stitchkit_django.testing.conversation import opened_pair

if TYPE_CHECKING:
    from stitchkit_django.testing.conversation import Conversation, MakeStore


def check_conversations_are_isolated(make_store: MakeStore) -> None:
    """Each operation, on a conversation that has the same ids as another, leaves that one alone."""
    with opened_pair(make_store) as (one, other):
        _fill(other)

        with other.unchanged("a course of operations in another conversation"):
            _fill(one)
            _empty(one)

        with other.unchanged("a purge of another conversation"):
            one.store.purge_conversation(one.id)
        expect("active run", [run.id for run in other.store.list_active_runs(other.id)], ["r5"])


def check_ids_are_taken_in_one_conversation_alone(make_store: MakeStore) -> None:
    """Keys and ids that one conversation has are free in every other one, and so is its queue."""
    with opened_pair(make_store) as (one, other):
        _fill(one)

        # Fails where an id is refused, a key is known, or the queue is not empty.
        _fill(other)

        expect("history", other.history(), one.history())
        expect("version", other.version, one.version)


def _fill(conversation: Conversation) -> None:
    conversation.answered("1")
    conversation.compact("i-1", "a-r1")
    run = conversation.acquire(conversation.admit("2"), lease=timedelta(hours=1))
    queued = conversation.admit("3")
    absorb = [Absorption(run_id=queued.id, input_message_ids=queued.input_message_ids)]
    conversation.end(conversation.checkpoint(run), absorb=absorb)
    conversation.cancel(conversation.admit("4"))
    conversation.checkpoint(conversation.acquire(conversation.admit("5")))


def _empty(conversation: Conversation) -> None:
    run = conversation.interrupt(conversation.view("r5").run)
    run = conversation.acquire(conversation.requeue(run))
    conversation.abandon(run)
    conversation.compact("s", "i-2", summary_id="s2")
    transaction = conversation.driver.transaction
    before = conversation.rows().head.updated_at + timedelta(days=1)
    transaction(lambda one: one.forget(conversation.id, "r1", limit=9))
    transaction(lambda one: one.forget_archived(conversation.id, before, limit=9))
