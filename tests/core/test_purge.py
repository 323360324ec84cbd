"""A purged conversation is gone for good, and its id with it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import (
    AgentStore,
    Applied,
    Conflict,
    ConflictReason,
    ConversationPurgedError,
    Head,
    MemoryDriver,
    NotFound,
)
from stitchkit_django.core.driver import ConversationRows
from tests.core.steps import acquire, admit, answered, compact, end, rows, run_of
from tests.factories import MOMENT

if TYPE_CHECKING:
    from tests.core.clock import Clock


def test_a_purge_leaves_the_head_alone(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    answered(store)
    compact(store, "i-1")
    clock.move(by=timedelta(days=1))

    outcome = store.purge_conversation("c", expected_version=4)

    assert outcome == Applied(version=5)
    head = Head(
        conversation_id="c",
        version=5,
        updated_at=MOMENT + timedelta(days=1),
        purged_at=MOMENT + timedelta(days=1),
    )
    assert rows(driver) == ConversationRows(head=head)


def test_a_purge_leaves_every_other_conversation_alone(
    store: AgentStore, driver: MemoryDriver
) -> None:
    answered(store)
    other = run_of(store.accept_input("d", "1", "Hello?"))
    before = driver.rows("d")

    store.purge_conversation("c")

    assert driver.rows("d") == before
    assert store.accept_input("d", "1", "Hello?").outcome == "duplicate"
    assert store.list_active_runs("d") == (other,)


def test_a_conversation_with_active_runs_is_not_purged(
    store: AgentStore, driver: MemoryDriver
) -> None:
    answered(store, "1")
    running, waiting = acquire(store, admit(store, "2")), admit(store, "3")
    before = rows(driver)

    outcome = store.purge_conversation("c")

    assert outcome == Conflict(
        reason=ConflictReason.STATE, version=before.head.version, runs=(running, waiting)
    )
    assert rows(driver) == before
    assert end(store, running).is_active is False


def test_a_version_that_moved_is_told_before_active_runs(store: AgentStore) -> None:
    admit(store)

    outcome = store.purge_conversation("c", expected_version=0)

    assert outcome == Conflict(reason=ConflictReason.VERSION, version=1)


def test_a_conversation_that_nobody_has_written_to_is_not_found(
    store: AgentStore, driver: MemoryDriver
) -> None:
    assert store.purge_conversation("c") == NotFound()
    assert store.purge_conversation("c", expected_version=0) == NotFound()
    assert store.purge_conversation("c", expected_version=1).outcome == "conflict"
    assert driver.rows("c") is None


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.accept_input("c", "1", "Hello?"),
        lambda store: store.accept_input("c", "2", "Hello?", expected_version=9),
        lambda store: store.acquire_run("c", "r1", expected_revision=0, owner_id="w"),
        lambda store: store.checkpoint_run("c", "r1", expected_revision=0, owner_id="w", parts="x"),
        lambda store: store.renew_lease("c", "r1", owner_id="w", fencing_token=1),
        lambda store: store.request_interrupt("c", "r1"),
        lambda store: store.cancel_run("c", "r1"),
        lambda store: store.recover_run("c", "r1", expected_revision=0, action="abandon"),
        lambda store: store.commit_terminal(
            "c", "r1", expected_revision=0, owner_id="w", parts="x", reason="success"
        ),
        lambda store: store.compact_history(
            "c", expected_version=9, message_ids=["i-1"], summary_parts="x"
        ),
        lambda store: store.purge_conversation("c", expected_version=9),
        lambda store: store.load_snapshot("c"),
        lambda store: store.load_run("c", "r1"),
        lambda store: store.list_active_runs("c"),
        lambda store: store.load_history("c"),
    ],
    ids=[
        "known key",
        "accept",
        "acquire",
        "checkpoint",
        "renew",
        "interrupt",
        "cancel",
        "recover",
        "end",
        "compact",
        "purge",
        "snapshot",
        "run",
        "active runs",
        "history",
    ],
)
def test_every_call_on_a_purged_conversation_is_refused(
    store: AgentStore, driver: MemoryDriver, call: Any
) -> None:
    answered(store)
    store.purge_conversation("c")
    before = rows(driver)

    with pytest.raises(ConversationPurgedError) as refused:
        call(store)

    assert refused.value.conversation_id == "c"
    assert rows(driver) == before


def test_a_scan_finds_nothing_of_a_purged_conversation(store: AgentStore) -> None:
    answered(store)
    store.purge_conversation("c")

    assert store.scan_recoverable().items == ()
