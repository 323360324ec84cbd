"""Laws of retention: what is purged or forgotten, what stays, and how whole conversations move."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    ConflictReason,
    ConversationPurgedError,
    MemoryDriver,
)
from stitchkit_django.testing.claims import applied, expect, raised, refused
from stitchkit_django.testing.conversation import Conversation, opened, owned

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from stitchkit_django.core import Run
    from stitchkit_django.core.driver import ConversationRows
    from stitchkit_django.testing.conversation import MakeStore

TICK: Final = timedelta(microseconds=1)


def check_a_purged_id_stays_purged(make_store: MakeStore) -> None:
    """After a purge only the head is left, and every call on the conversation is refused."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit("1"))
        conversation.end(run)
        conversation.compact("i-1")
        version = conversation.version

        purged = applied(conversation.store.purge_conversation(conversation.id))

        expect("version", purged.version, version + 1)
        rows = conversation.rows()
        expect("rows", (rows.runs, rows.receipts, rows.messages), ((), (), ()))
        assert rows.head.purged_at is not None, "the head doesn't tell of the purge"
        with conversation.unchanged("calls on a purged conversation"):
            for call in _calls(conversation, run):
                raised(ConversationPurgedError, call)


def check_a_purge_beside_an_active_run_is_refused(make_store: MakeStore) -> None:
    """A conversation is not purged while it has active runs, which the refusal names."""
    with opened(make_store) as conversation:
        conversation.answered("1")
        running, queued = conversation.acquire(conversation.admit("2")), conversation.admit("3")

        with conversation.unchanged("a purge beside active runs"):
            conflict = refused(
                conversation.store.purge_conversation(conversation.id), ConflictReason.STATE
            )

        expect("runs that the conflict names", conflict.runs, (running, queued))


def check_a_run_is_forgotten_with_its_receipts(make_store: MakeStore) -> None:
    """`forget` deletes receipts of one run up to its limit, and with the last of them the run."""
    with opened(make_store) as conversation:
        run = conversation.admit("1")
        for key in "234":
            conversation.admit(key, joins=run.id)
        conversation.cancel(conversation.view().run)
        conversation.admit("5")
        before = conversation.rows()

        first = _forget(conversation, "r1", 3)
        left = conversation.rows()
        second = _forget(conversation, "r1", 3)

        expect("rows deleted", (first, second), (3, 2))
        expect("receipts left", len(left.receipts), 2)
        expect("runs left", left.runs, before.runs)
        after = conversation.rows()
        expect("runs in the end", [one.run.id for one in after.runs], ["r5"])
        expect("keys in the end", [one.idempotency_key for one in after.receipts], ["5"])
        expect("messages and head", (after.messages, after.head), (before.messages, before.head))
        expect("run that is read", conversation.store.load_run(conversation.id, "r1"), None)


def check_a_batch_that_takes_the_last_receipt_takes_the_run(make_store: MakeStore) -> None:
    """A limit of exactly as many receipts as there are, or of more, takes the run too."""
    with opened(make_store) as conversation:
        for key in ("1", "3", "5"):
            conversation.admit(str(int(key) + 1), joins=conversation.admit(key).id)
            conversation.cancel(conversation.view(f"r{key}").run)

        gone = [_forget(conversation, f"r{key}", limit) for key, limit in ((1, 2), (3, 3), (5, 99))]

        expect("rows deleted", gone, [3, 3, 3])
        rows = conversation.rows()
        expect("what is left", (rows.runs, rows.receipts), ((), ()))


def check_what_is_unknown_is_not_forgotten(make_store: MakeStore) -> None:
    """`forget` and `forget_archived` of what isn't there delete nothing and make nothing."""
    with opened(make_store) as conversation:
        expect("rows of an unknown conversation", _forget(conversation, "r1", 9), 0)
        expect("rows", conversation.driver.rows(conversation.id), None)
        conversation.answered()

        with conversation.unchanged("forgetting what is unknown"):
            expect("rows of an unknown run", _forget(conversation, "r2", 9), 0)
            later = conversation.rows().head.updated_at + timedelta(days=1)
            expect("messages", _forget_archived(conversation, later, 9), 0)


def check_a_forgotten_key_is_new(make_store: MakeStore) -> None:
    """A key, and a run's id, can be used again once the run and its messages are forgotten."""
    with opened(make_store) as made:
        conversation = made.deleting()
        conversation.answered()
        conversation.compact("i-1", "a-r1")
        _forget(conversation, "r1", 9)

        run = conversation.admit("1")

        expect("turn", run.turn, 5)
        expect("run that is read", conversation.view().run, run)


def check_archived_messages_are_forgotten_before_a_moment(make_store: MakeStore) -> None:
    """`forget_archived` deletes archived messages of before a moment, up to its limit."""
    with opened(make_store) as made:
        conversation = made.archiving()
        conversation.answered("1")
        conversation.answered("2")
        conversation.compact("i-1", "a-r1", "i-2")
        before = conversation.rows()
        moment = conversation.row("i-1").archived_at
        assert moment is not None, "a message that was compacted is not archived"

        at_it = _forget_archived(conversation, moment, 9)
        gone = [_forget_archived(conversation, moment + TICK, 2) for _ in range(3)]

        expect("messages deleted at the moment", at_it, 0)
        expect("messages deleted by batches of 2", gone, [2, 1, 0])
        after = conversation.rows()
        left = [placed.message.id for placed in after.messages]
        expect("messages left", left, ["s", "a-r2"])
        expect("head, runs", (after.head, after.runs), (before.head, before.runs))
        expect("receipts", after.receipts, before.receipts)


def check_a_conversation_is_restored_whole(make_store: MakeStore) -> None:
    """All rows of a conversation can be put where there is none, and the conversation goes on."""
    with opened(make_store) as conversation:
        model = Conversation(AgentStore(MemoryDriver()), conversation.id)
        _fill(model)
        held = model.rows()

        expect("restore", _restore(conversation, held), expected=True)

        expect("rows", conversation.rows(), held)
        snapshot = conversation.store.load_snapshot(conversation.id)
        expect("snapshot", snapshot, model.store.load_snapshot(model.id))
        expect("answer of an absorbed run's retry", conversation.retry("3").run.id, "r2")
        conversation.end(conversation.view("r4").run)
        expect("next turn", conversation.admit("7").turn, held.head.version + 2)


def check_rows_are_a_whole_conversation(make_store: MakeStore) -> None:
    """What `Driver.rows` gives can be put into another driver, and is the same there."""
    with opened(make_store) as conversation:
        _fill(conversation)
        held = conversation.rows()
        other = Conversation(AgentStore(MemoryDriver()), conversation.id)

        expect("restore", _restore(other, held), expected=True)

        expect("rows", other.rows(), held)
        expect("runs", [one.run.id for one in held.runs], ["r1", "r2", "r3", "r4", "r5"])
        keys = [one.idempotency_key for one in held.receipts]
        expect("keys", keys, ["1", "2", "3", "4", "5", "6"])
        snapshot = other.store.load_snapshot(other.id)
        expect("snapshot", snapshot, conversation.store.load_snapshot(conversation.id))


def check_a_conversation_is_not_restored_over_another(make_store: MakeStore) -> None:
    """`restore` is False, and writes nothing, where a head is: of a live or a purged one."""
    with opened(make_store) as conversation:
        conversation.answered("1")
        model = Conversation(AgentStore(MemoryDriver()), conversation.id)
        _fill(model)

        with conversation.unchanged("a restore over a conversation"):
            expect("restore", _restore(conversation, model.rows()), expected=False)
        conversation.store.purge_conversation(conversation.id)
        with conversation.unchanged("a restore over a purged conversation"):
            expect("restore", _restore(conversation, model.rows()), expected=False)


def _fill(conversation: Conversation) -> None:
    # Archived, absorbed, joined, requeued, leased, running and queued: everything that rows tell.
    conversation.answered("1")
    conversation.archiving().compact("i-1", "a-r1")
    run, queued = conversation.acquire(conversation.admit("2")), conversation.admit("3")
    absorb = [Absorption(run_id=queued.id, input_message_ids=queued.input_message_ids)]
    conversation.end(run, "All \0 \ud83d", detail="\ud83d", absorb=absorb)
    conversation.archiving().compact("s", "i-2", summary_id="s2")
    conversation.requeue(conversation.acquire(conversation.admit("4")))
    run = conversation.acquire(conversation.view("r4").run, lease=timedelta(hours=1))
    conversation.checkpoint(run, "So far", metadata={"b": 1, "a": [1.0, True]})
    conversation.admit("5")
    conversation.admit("6", joins="r5")


def _forget(conversation: Conversation, run_id: str, limit: int) -> int:
    return conversation.driver.transaction(
        lambda transaction: transaction.forget(conversation.id, run_id, limit=limit)
    )


def _forget_archived(conversation: Conversation, before: datetime, limit: int) -> int:
    return conversation.driver.transaction(
        lambda transaction: transaction.forget_archived(conversation.id, before, limit=limit)
    )


def _restore(conversation: Conversation, rows: ConversationRows) -> bool:
    return conversation.driver.transaction(lambda transaction: transaction.restore(rows))


def _calls(conversation: Conversation, run: Run) -> list[Callable[[], object]]:
    store, where = conversation.store, conversation.id
    revision = run.revision
    return [
        conversation.send,
        lambda: store.acquire_run(where, run.id, owner_id="another", expected_revision=revision),
        lambda: store.checkpoint_run(where, run.id, **owned(run), parts="Late"),
        lambda: store.renew_lease(where, run.id, owner_id="worker", fencing_token=1),
        lambda: store.request_interrupt(where, run.id),
        lambda: store.cancel_run(where, run.id),
        lambda: store.recover_run(where, run.id, action="abandon", expected_revision=revision),
        lambda: store.commit_terminal(where, run.id, **owned(run), parts="Late", reason="success"),
        lambda: conversation.store.compact_history(
            where, expected_version=1, message_ids=["i-1"], summary_parts="Late"
        ),
        lambda: store.purge_conversation(where),
        lambda: store.load_snapshot(where),
        lambda: store.load_run(where, run.id),
        lambda: store.list_active_runs(where),
        lambda: store.load_history(where),
    ]
