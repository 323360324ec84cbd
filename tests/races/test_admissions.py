"""Inputs that arrive at once: all are admitted, in one order, each key once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stitchkit_django import get_store
from stitchkit_django.core import Applied, ConflictReason, Duplicate
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.core.steps import admit, answered, history, reason_of, run_of
from tests.races.threads import HEAD_LOCK, aside, before, racing

if TYPE_CHECKING:
    from stitchkit_django.core import Outcome

THREADS = 16
INPUTS = 25


def test_inputs_of_many_threads_to_a_new_conversation_are_all_admitted_in_one_order(
    alias: str,
) -> None:
    store = get_store(alias)

    def admit_some(thread: int) -> list[tuple[int, str]]:
        runs = [admit(store, f"{thread}-{number}") for number in range(INPUTS)]
        return [(run.turn, run.input_message_ids[0]) for run in runs]

    admitted = racing(alias, *(partial(admit_some, thread) for thread in range(THREADS)))

    inputs = dict(one for some in admitted for one in some)
    assert sorted(inputs) == list(range(1, THREADS * INPUTS + 1))
    assert Conversation.objects.using(alias).get().version == THREADS * INPUTS
    assert history(store) == [inputs[turn] for turn in sorted(inputs)]


def test_one_key_with_two_inputs_from_many_threads_begins_one_run(alias: str) -> None:
    store = get_store(alias)
    texts = ["Yes", "No"] * 5

    def admit_one(text: str) -> tuple[str, Outcome]:
        return text, store.accept_input("c", "key", text)

    outcomes = racing(alias, *(partial(admit_one, text) for text in texts))

    ((accepted, applied),) = [(text, one) for text, one in outcomes if isinstance(one, Applied)]
    duplicates = [(text, one) for text, one in outcomes if isinstance(one, Duplicate)]
    assert len(duplicates) == len(texts) - 1
    for text, duplicate in duplicates:
        assert (duplicate.run, duplicate.input) == (run_of(applied), applied.input)
        assert duplicate.same_input is (text == accepted)
    assert Run.objects.using(alias).count() == 1
    assert Message.objects.using(alias).count() == 1
    assert AdmissionReceipt.objects.using(alias).count() == 1


def test_an_input_and_a_summary_at_once_lose_no_message_and_repeat_none(alias: str) -> None:
    store = get_store(alias)
    answered(store)

    def summarise() -> Outcome:
        return store.compact_history(
            "c",
            expected_version=3,
            message_ids=["i-1", "a-r1"],
            summary_parts="In short.",
            summary_id="s",
        )

    def accept() -> Outcome:
        return store.accept_input("c", "2", "More", input_message_id="i-2")

    summarised, accepted = racing(alias, summarise, accept)

    assert isinstance(accepted, Applied)
    if isinstance(summarised, Applied):
        assert history(store) == ["s", "i-2"]
    else:
        assert reason_of(summarised) is ConflictReason.VERSION
        assert history(store) == ["i-1", "a-r1", "i-2"]


def test_messages_are_read_in_the_order_of_commits_not_of_beginnings(alias: str) -> None:
    store = get_store(alias)

    def overtake() -> None:
        aside(partial(admit, store, "2"))

    with before(alias, HEAD_LOCK, overtake):
        admit(store, "1")

    assert history(store) == ["i-2", "i-1"]
