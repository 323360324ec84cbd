"""Laws of admission: an input is accepted once, and its retry gets what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core import ConflictReason
from stitchkit_django.testing.claims import applied, duplicate, expect, refused
from stitchkit_django.testing.conversation import opened

if TYPE_CHECKING:
    from stitchkit_django.testing.conversation import Conversation, MakeStore


def check_an_input_is_admitted_once(make_store: MakeStore) -> None:
    """An input that is sent twice under one key and its own ids is admitted once."""
    with opened(make_store) as conversation:
        first = applied(conversation.send())

        second = duplicate(conversation.send())

        expect("version of both", (first.version, second.version), (1, 1))
        expect("input of the second", second.input, first.input)
        expect("run of the second", second.run, first.run)
        expect("pending answer of the second", second.pending, first.pending)
        expect("whether the input is the same", second.same_input, expected=True)
        expect("history", conversation.history(), ["i-1"])
        rows = conversation.rows()
        expect("runs and receipts", (len(rows.runs), len(rows.receipts)), (1, 1))


def check_a_retry_gets_the_original(make_store: MakeStore) -> None:
    """A retry under other ids gets the run of the first admission, and later its answer."""
    with opened(make_store) as conversation:
        run = conversation.admit()
        waiting = conversation.retry()
        ended = conversation.end(conversation.acquire(run))
        answered = conversation.retry()
        other = conversation.retry(parts="Something else?")

        expect("run, while it is queued", waiting.run, run)
        expect("input, while the run is queued", waiting.input, conversation.message("i-1"))
        assert waiting.pending is not None, "no answer is pending while the run is queued"
        expect("run, when it has ended", answered.run, ended)
        expect("retained answer", answered.assistant, conversation.message("a-r1"))
        expect("whether an answer is still pending", answered.pending, None)
        expect("same input of each", (answered.same_input, other.same_input), (True, False))
        expect("input of a retry that brings another", other.input, waiting.input)


def check_a_retry_is_answered_after_archiving(make_store: MakeStore) -> None:
    """A retry gets input, run and answer when both messages were compacted and archived."""
    with opened(make_store) as conversation:
        _check_compacted(conversation.archiving())


def check_a_retry_is_answered_after_deletion(make_store: MakeStore) -> None:
    """A retry gets input, run and answer when both messages were compacted and deleted."""
    with opened(make_store) as conversation:
        _check_compacted(conversation.deleting())


def check_a_joined_input_is_admitted_once(make_store: MakeStore) -> None:
    """A retry of an input that joined a queued run gets that run."""
    with opened(make_store) as conversation:
        run = conversation.admit("1")
        joined = conversation.admit("2", joins=run.id)

        retry = conversation.retry("2")

        expect("run of the retry", retry.run, joined)
        expect("input of the retry", retry.input.id, "i-2")
        expect("history", conversation.history(), ["i-1", "i-2"])


def check_inputs_join_in_order(make_store: MakeStore) -> None:
    """Inputs that join a queued run stand in its turn, in the order in which they joined."""
    with opened(make_store) as conversation:
        run = conversation.admit("1")
        conversation.admit("2")
        # More than ten, so that their places have two digits.
        keys = [*"9876543", *"abcde"]
        for key in keys:
            run = conversation.admit(key, joins="r1")
        waiting = conversation.history()
        ended = conversation.end(conversation.acquire(run))

        inputs = ["i-1", *(f"i-{key}" for key in keys)]
        expect("inputs of the run", ended.input_message_ids, tuple(inputs))
        expect("run that is read", conversation.view().run, ended)
        expect("history before the answer", waiting, [*inputs, "i-2"])
        expect("history", conversation.history(), [*inputs, "a-r1", "i-2"])


def check_a_pending_answer_is_not_in_history(make_store: MakeStore) -> None:
    """A run's answer is no message before it has said something, in no read."""
    with opened(make_store) as conversation:
        run = conversation.admit()
        queued = conversation.history()
        taken = conversation.acquire(run)
        running = conversation.history()
        page = conversation.store.load_history(conversation.id)
        conversation.checkpoint(taken)

        expect("history of a queued run", queued, ["i-1"])
        expect("history of a running one", running, ["i-1"])
        expect("page", [message.id for message in page.messages], ["i-1"])
        expect("history after a checkpoint", conversation.history(), ["i-1", "a-r1"])


def check_an_admission_at_another_version_is_refused(make_store: MakeStore) -> None:
    """An input for a version that a checkpoint has moved is refused, and writes nothing."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit())
        seen = conversation.version
        conversation.checkpoint(run)

        with conversation.unchanged("an admission at an older version"):
            conflict = refused(
                conversation.send("2", expected_version=seen), ConflictReason.VERSION
            )

        expect("version that the conflict tells", conflict.version, seen + 1)
        applied(conversation.send("2", expected_version=seen + 1))


def check_a_refused_admission_makes_no_conversation(make_store: MakeStore) -> None:
    """An admission that is refused leaves no head where nobody has written."""
    with opened(make_store) as conversation:
        refused(conversation.send(expected_version=7), ConflictReason.VERSION)

        expect("rows", conversation.driver.rows(conversation.id), None)
        expect("version", conversation.version, 0)
        applied(conversation.send(expected_version=0))


def check_only_an_admission_makes_a_conversation(make_store: MakeStore) -> None:
    """Operations on a conversation that nobody has written to find nothing, and leave nothing."""
    with opened(make_store) as conversation:
        store, where = conversation.store, conversation.id
        outcomes = [
            store.acquire_run(where, "r1", expected_revision=0, owner_id="worker"),
            store.request_interrupt(where, "r1"),
            store.cancel_run(where, "r1"),
            store.recover_run(where, "r1", expected_revision=0, action="abandon"),
            store.renew_lease(where, "r1", owner_id="worker", fencing_token=1),
            store.compact_history(
                where, expected_version=0, message_ids=["i-1"], summary_parts="In short."
            ),
            store.purge_conversation(where),
            store.accept_input(where, "1", "Hello?", coalesce_into="r1"),
        ]

        expect("outcomes", [one.outcome for one in outcomes], ["not_found"] * len(outcomes))
        expect("rows", conversation.driver.rows(where), None)


def _check_compacted(conversation: Conversation) -> None:
    ended = conversation.answered()
    admitted, answer = conversation.message("i-1"), conversation.message("a-r1")
    conversation.answered("2")
    conversation.compact("i-1", "a-r1")

    retry = conversation.retry()

    expect("history", conversation.history(), ["s", "i-2", "a-r2"])
    expect("input", retry.input, admitted)
    expect("run", retry.run, ended)
    expect("answer", retry.assistant, answer)
    view = conversation.view()
    expect("run and answer that are read", (view.run, view.assistant), (ended, answer))
