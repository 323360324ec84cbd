"""Laws of ids: what is taken stays taken, and no two texts are the same id."""

from __future__ import annotations

import unicodedata
from functools import partial
from typing import TYPE_CHECKING, Final

from stitchkit_django.core import IdentityTakenError, NotFound
from stitchkit_django.testing.claims import expect, raised, run_of
from stitchkit_django.testing.conversation import Conversation, fresh_ids, opened

if TYPE_CHECKING:
    from stitchkit_django.testing.conversation import MakeStore

ALIKE: Final = (
    "k",
    "K",
    "e",
    unicodedata.normalize("NFC", "é"),
    unicodedata.normalize("NFD", "é"),
    "ss",
    "ß",
    "1",
    "01",
    "1.0",
)
"""Ids that some collation, or some column type, takes for one another."""

AWKWARD: Final = (
    "%",
    "_",
    "a'b",
    'a"b',
    "a\\b",
    "a/b c",
    "NULL",
    "{}",
    "\N{GRINNING FACE}" * 255,
)
"""Ids that SQL, patterns or too short columns get wrong."""


def check_the_id_of_a_reserved_answer_is_taken(make_store: MakeStore) -> None:
    """A message id that a run has reserved for its answer is refused, long before the answer."""
    with opened(make_store) as conversation:
        conversation.admit()

        _check_taken(conversation, "a-r1")


def check_the_id_of_a_deleted_input_is_taken(make_store: MakeStore) -> None:
    """An input's id is refused while its receipt stands, when the message itself is gone."""
    with opened(make_store) as made:
        conversation = made.deleting()
        conversation.answered()
        conversation.compact("i-1", "a-r1")

        _check_taken(conversation, "i-1")


def check_the_id_of_an_archived_message_is_taken(make_store: MakeStore) -> None:
    """The id of an archived message, which no receipt and no run has, is refused."""
    with opened(make_store) as made:
        conversation = made.archiving()
        conversation.answered()
        conversation.compact("i-1", summary_id="s1")
        conversation.compact("s1", "a-r1", summary_id="s2")

        _check_taken(conversation, "s1")


def check_the_id_of_a_message_is_taken(make_store: MakeStore) -> None:
    """The id of an active message, which no receipt and no run has, is refused."""
    with opened(make_store) as conversation:
        conversation.answered()
        conversation.compact("i-1")

        _check_taken(conversation, "s")


def check_the_id_of_an_ended_run_is_taken(make_store: MakeStore) -> None:
    """The id of a run is refused for another one after its end, too."""
    with opened(make_store) as conversation:
        conversation.answered()

        with conversation.unchanged("an admission for a run id that is taken"):
            error = raised(
                IdentityTakenError,
                lambda: conversation.store.accept_input(
                    conversation.id, "2", "Hello?", run_id="r1"
                ),
            )

        expect("id that the error names", error.identifier, "r1")


def check_the_id_of_a_message_is_taken_for_a_summary(make_store: MakeStore) -> None:
    """A summary's id is refused when a message has it."""
    with opened(make_store) as conversation:
        conversation.answered("1")
        conversation.admit("2")

        with conversation.unchanged("a compaction whose summary id is taken"):
            raised(IdentityTakenError, lambda: conversation.compact("i-1", summary_id="i-2"))


def check_ids_are_compared_byte_for_byte(make_store: MakeStore) -> None:
    """Keys and ids that look alike are different ones."""
    with opened(make_store) as conversation:
        _check_distinct(conversation, ALIKE)


def check_ids_of_any_characters_are_kept(make_store: MakeStore) -> None:
    """Keys and ids are what they are, whatever characters they have, up to their full length."""
    with opened(make_store) as conversation:
        _check_distinct(conversation, AWKWARD)


def check_conversation_ids_are_compared_byte_for_byte(make_store: MakeStore) -> None:
    """Conversations whose ids look alike are different ones."""
    (fresh,) = fresh_ids(1)
    ids = [f"{fresh}{alike}" for alike in ALIKE]
    with make_store(ids) as store:
        for number, one in enumerate(ids):
            run_of(store.accept_input(one, "1", "Hello?", run_id=f"r-{number}"))

        for number, one in enumerate(ids):
            expect(f"version of {one!r}", store.load_snapshot(one).version, 1)
            runs = [run.id for run in store.list_active_runs(one)]
            expect(f"runs of {one!r}", runs, [f"r-{number}"])


def _check_taken(conversation: Conversation, identity: str) -> None:
    send = partial(conversation.store.accept_input, conversation.id, "new", "Hello?")
    calls = {
        "an input": partial(send, input_message_id=identity),
        "an answer": partial(send, assistant_message_id=identity),
    }
    for name, call in calls.items():
        with conversation.unchanged(f"{name} whose id is taken"):
            error = raised(IdentityTakenError, call)
        expect("id that the error names", error.identifier, identity)


def _check_distinct(conversation: Conversation, ids: tuple[str, ...]) -> None:
    # In a message's id a letter stands before each of these, so that a pair differs there too.
    store = conversation.store
    runs = []
    for one in ids:
        admitted = store.accept_input(
            conversation.id, one, one, input_message_id=f"i{one[:254]}", run_id=one
        )
        runs.append(run_of(admitted))

    for one, run in zip(ids, runs, strict=True):
        retry = conversation.retry(one, one)
        expect(f"retry of key {one!r}", (retry.run, retry.same_input), (run, True))
        expect(f"run {one!r}", conversation.view(one).run, run)
    expect("keys", {one.idempotency_key for one in conversation.rows().receipts}, set(ids))
    expect("history", conversation.history(), [f"i{one[:254]}" for one in ids])
    expect("run of no such id", store.load_run(conversation.id, "nobody"), None)
    cancelled = store.cancel_run(conversation.id, "nobody")
    assert isinstance(cancelled, NotFound), f"found a run of no such id: {cancelled!r}"
