"""Each rule finds its own kind of corruption, and nothing where all is well."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from msgspec.structs import replace

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    MemoryDriver,
    MessageRole,
    MessageStatus,
    PlacedMessage,
    TerminalReason,
    TextPart,
)
from stitchkit_django.core.driver import LAST_SLOT, ConversationRows, Place
from stitchkit_django.core.integrity import LAWS, Finding, Rule, findings
from stitchkit_django.core.lifecycle import RunState
from tests.core import planting
from tests.core.clock import Clock
from tests.core.planting import CALL, STEP, head, message, receipt, run, sound, without
from tests.core.steps import acquire, admit, answered, compact, end
from tests.factories import MOMENT, MessageFactory, ReceiptFactory
from tests.replay import histories, replay

if TYPE_CHECKING:
    from stitchkit_django.core.records import StoredRun

Plant: TypeAlias = Callable[[ConversationRows], ConversationRows]

OTHER = (TextPart(text="Another"),)
LATER = MOMENT + 10 * STEP
# When the newest rows of `sound()` were written.
LATEST = MOMENT + 2 * STEP


def found(rows: ConversationRows, **whole: bool) -> list[tuple[Rule, str]]:
    return [(one.rule, one.row) for one in findings(rows, **whole)]


def add(rows: ConversationRows, *, turn: int = 1, slot: int = 0, **fields: Any) -> ConversationRows:
    where = {name: fields.pop(name) for name in ("archived_at", "replaced_by") if name in fields}
    placed = PlacedMessage(message=MessageFactory.build(**fields), place=Place(turn, slot), **where)
    return replace(rows, messages=(*rows.messages, placed))


def stored(rows: ConversationRows, run_id: str) -> StoredRun:
    (one,) = (one for one in rows.runs if one.run.id == run_id)
    return one


def twin_of_run(rows: ConversationRows) -> ConversationRows:
    return replace(rows, runs=(*rows.runs, stored(rows, "r4")))


def answered_by_the_absorbed(rows: ConversationRows) -> ConversationRows:
    return add(
        rows,
        answer=True,
        id="a-r3",
        run_id="r3",
        status=MessageStatus.SUPERSEDED,
        turn=7,
        slot=LAST_SLOT,
    )


def interrupted_absorber(rows: ConversationRows) -> ConversationRows:
    given: dict[str, Any] = {
        "state": RunState.INTERRUPTED,
        "terminal_reason": TerminalReason.INTERRUPTED,
        "answer_status": MessageStatus.INTERRUPTED,
    }
    return message(run(rows, "r2", **given), "a-r2", status=MessageStatus.INTERRUPTED)


def absorbed_in_a_chain(rows: ConversationRows) -> ConversationRows:
    # r4 points to r3, which was absorbed itself.
    given: dict[str, Any] = {
        "state": RunState.SUPERSEDED,
        "terminal_reason": TerminalReason.ABSORBED,
        "owner_id": None,
        "absorbed_into_run_id": "r3",
    }
    runs = tuple(
        replace(one, run=replace(one.run, **given), terminal_assistant=None)
        if one.run.id == "r4"
        else one
        for one in rows.runs
    )
    return without(replace(rows, runs=runs), messages=("a-r4", "i-4"), receipts=("4",))


def absorbed_in_a_circle(rows: ConversationRows) -> ConversationRows:
    return run(absorbed_in_a_chain(rows), "r3", absorbed_into_run_id="r4")


def second_acquired(rows: ConversationRows) -> ConversationRows:
    given = {"owner_id": "another", "fencing_token": 1, "acquired_at": LATEST}
    return run(rows, "r6", state=RunState.RUNNING, **given)


def acquired_out_of_turn(rows: ConversationRows) -> ConversationRows:
    queued = {"state": RunState.QUEUED, "owner_id": None}
    return run(second_acquired(rows), "r5", **queued)


def twice_in_a_place(rows: ConversationRows) -> ConversationRows:
    first = add(rows, id="n1", role=MessageRole.SYSTEM, turn=2)
    return add(first, id="n2", role=MessageRole.SYSTEM, turn=2)


PLANTS: dict[str, tuple[Plant, list[tuple[Rule, str]]]] = {
    # -------------------------------------------------------- the head
    "a version behind a turn": (
        lambda rows: head(rows, version=18),
        [(Rule.VERSION, "run 'r7'")],
    ),
    "a version that was put back to the beginning": (
        lambda rows: head(rows, version=0),
        [(Rule.VERSION, "run 'r7'")],
    ),
    "a run of a turn to come": (
        lambda rows: run(rows, "r7", turn=99),
        [(Rule.VERSION, "run 'r7'")],
    ),
    "a run-less message of a turn to come": (
        lambda rows: add(rows, id="n", role=MessageRole.SYSTEM, turn=99),
        [(Rule.VERSION, "message 'n'")],
    ),
    "a head older than a run": (
        lambda rows: run(rows, "r7", updated_at=LATER),
        [(Rule.UPDATED_AT, "run 'r7'")],
    ),
    "a head older than a message": (
        lambda rows: message(rows, "a-r5", updated_at=LATER),
        [(Rule.UPDATED_AT, "message 'a-r5'")],
    ),
    "a head older than a receipt": (
        lambda rows: receipt(rows, "4", created_at=LATER),
        [(Rule.UPDATED_AT, "receipt '4'")],
    ),
    "a head older than its own purge": (
        lambda rows: replace(head(rows, purged_at=LATER), runs=(), receipts=(), messages=()),
        [(Rule.UPDATED_AT, "the head")],
    ),
    "a purged conversation that has rows": (
        lambda rows: head(rows, purged_at=MOMENT),
        [(Rule.PURGED, "the head")],
    ),
    "a purged conversation that has a part of its rows": (
        lambda rows: head(
            without(rows, messages=("i-6", "i-7"), receipts=("7",)), purged_at=MOMENT
        ),
        [(Rule.PURGED, "the head")],
    ),
    "a run of another conversation": (
        lambda rows: run(rows, "r7", conversation_id="d"),
        [(Rule.CONVERSATION, "run 'r7'")],
    ),
    "a message of another conversation": (
        lambda rows: message(rows, "a-r5", conversation_id="d"),
        [(Rule.CONVERSATION, "message 'a-r5'")],
    ),
    "a receipt of another conversation": (
        lambda rows: receipt(
            rows, "1", conversation_id="d", input=replace(admitted(rows, "1"), conversation_id="d")
        ),
        [(Rule.CONVERSATION, "receipt '1'"), (Rule.RECEIPT_INPUT, "receipt '1'")],
    ),
    # -------------------------------------------------------- ids
    "two runs of one id": (
        twin_of_run,
        [
            (Rule.IDENTITY, "run 'r4'"),
            (Rule.IDENTITY, "answer 'a-r4'"),
            (Rule.TURN, "run 'r4'"),
            (Rule.INPUT, "message 'i-4'"),
        ],
    ),
    "two messages of one id": (
        lambda rows: add(rows, id="s", role=MessageRole.SUMMARY, turn=2),
        [(Rule.IDENTITY, "message 's'")],
    ),
    "two receipts of one key": (
        lambda rows: receipt(rows, "7", idempotency_key="6"),
        [(Rule.IDENTITY, "receipt '6'")],
    ),
    "two receipts of one input": (
        lambda rows: replace(
            rows,
            receipts=(*rows.receipts, receipt_like(rows, "4", "again")),
        ),
        [(Rule.IDENTITY, "input 'i-4'")],
    ),
    "a reserved id that a message has taken": (
        lambda rows: add(rows, id="a-r7", role=MessageRole.SYSTEM, turn=2),
        [(Rule.IDENTITY, "run 'r7'")],
    ),
    "a reserved id that an input has taken": (
        lambda rows: run(rows, "r1", assistant_message_id="i-7", answer_id="i-7"),
        [
            (Rule.IDENTITY, "run 'r1'"),
            (Rule.ANSWER_RUN, "message 'a-r1'"),
            (Rule.RECEIPT_RUN, "receipt '1'"),
        ],
    ),
    "a reserved id of an input whose message is gone": (
        lambda rows: run(
            receipt(without(rows, messages=("i-1",)), "7", assistant_message_id="i-1"),
            "r7",
            assistant_message_id="i-1",
        ),
        [(Rule.IDENTITY, "run 'r7'")],
    ),
    # -------------------------------------------------------- runs
    "two runs of one turn": (
        lambda rows: run(rows, "r3", turn=9),
        [(Rule.TURN, "run 'r3'")],
    ),
    "a run of another turn than all its messages": (
        lambda rows: run(rows, "r4", turn=10),
        [(Rule.TURN, "run 'r4'")],
    ),
    "two acquired runs": (second_acquired, [(Rule.ACQUIRED, "run 'r5'")]),
    "a run that was acquired out of turn": (
        acquired_out_of_turn,
        [(Rule.QUEUE, "run 'r6'")],
    ),
    "an owner without a fence": (
        lambda rows: run(rows, "r4", fencing_token=None, acquired_at=None),
        [(Rule.OWNER, "run 'r4'")],
    ),
    "an end by nobody": (
        lambda rows: run(rows, "r4", owner_id=None),
        [(Rule.OWNER, "run 'r4'")],
    ),
    "a revision behind the fence": (
        lambda rows: run(rows, "r5", revision=1),
        [(Rule.REVISION, "run 'r5'")],
    ),
    "an end that no revision counts": (
        lambda rows: run(rows, "r3", revision=0),
        [(Rule.REVISION, "run 'r3'")],
    ),
    "an end before the acquisition": (
        lambda rows: run(rows, "r2", acquired_at=LATEST, updated_at=LATEST),
        [(Rule.RUN_MOMENTS, "run 'r2'")],
    ),
    # -------------------------------------------------------- absorption
    "a pointer to a run that is missing": (
        lambda rows: run(rows, "r3", absorbed_into_run_id="gone"),
        [(Rule.ABSORBER, "run 'r3'")],
    ),
    "an absorber that did not complete": (interrupted_absorber, [(Rule.ABSORBER, "run 'r3'")]),
    "an absorber without the inputs": (
        lambda rows: run(rows, "r3", absorbed_into_run_id="r1"),
        [(Rule.ABSORBER, "run 'r3'")],
    ),
    "an absorber of a later turn": (
        lambda rows: run(rows, "r3", turn=3),
        [(Rule.ABSORBER, "run 'r3'")],
    ),
    "a chain of absorbed runs": (absorbed_in_a_chain, [(Rule.ABSORBER, "run 'r4'")]),
    "a circle of absorbed runs": (
        absorbed_in_a_circle,
        [(Rule.ABSORBER, "run 'r3'"), (Rule.ABSORBER, "run 'r4'")],
    ),
    "an answer of an absorbed run": (
        answered_by_the_absorbed,
        [(Rule.ANSWER_STATUS, "message 'a-r3'")],
    ),
    # -------------------------------------------------------- inputs
    "an input of two runs": (
        lambda rows: run(rows, "r4", input_message_ids=("i-4", "i-2")),
        [(Rule.INPUT, "message 'i-2'")],
    ),
    "an input that is no user message": (
        lambda rows: message(rows, "i-4", role=MessageRole.SYSTEM),
        [(Rule.INPUT, "message 'i-4'")],
    ),
    "inputs in another order than they joined": (
        lambda rows: run(rows, "r6", input_message_ids=("i-6b", "i-6")),
        [(Rule.INPUT_PLACE, "run 'r6'")],
    ),
    "inputs of a run that ended in another order": (
        lambda rows: run(rows, "r2", input_message_ids=("i-3", "i-2")),
        [(Rule.INPUT_PLACE, "run 'r2'")],
    ),
    "an input in another turn": (
        lambda rows: message(rows, "i-6b", place=Place(18, 1)),
        [(Rule.INPUT_PLACE, "run 'r6'")],
    ),
    "an input of a queued run where the next one will stand": (
        lambda rows: message(rows, "i-6b", place=Place(17, 2)),
        [(Rule.INPUT_PLACE, "run 'r6'")],
    ),
    "an input in the answer's slot": (
        lambda rows: message(rows, "i-7", place=Place(19, LAST_SLOT)),
        [(Rule.INPUT_PLACE, "run 'r7'")],
    ),
    "an input that alone stands in another turn": (
        lambda rows: message(rows, "i-7", place=Place(18, 0)),
        [(Rule.INPUT_PLACE, "run 'r7'")],
    ),
    "an input in the slot of an answer that is there": (
        lambda rows: message(rows, "i-4", place=Place(9, LAST_SLOT)),
        [(Rule.INPUT_PLACE, "run 'r4'"), (Rule.PLACE, "message 'i-4'")],
    ),
    "an active run without a receipt": (
        lambda rows: without(rows, receipts=("6b",)),
        [(Rule.INPUT_RECEIPT, "run 'r6'")],
    ),
    # -------------------------------------------------------- answers
    "an answer of a run that is missing": (
        lambda rows: without(rows, runs=("r4",), receipts=("4",)),
        [(Rule.ANSWER_RUN, "message 'a-r4'")],
    ),
    "an answer of a run that reserved another": (
        lambda rows: message(rows, "a-r4", run_id="r1"),
        [(Rule.ANSWER_RUN, "message 'a-r4'")],
    ),
    "an answer in another place": (
        lambda rows: message(rows, "a-r4", place=Place(9, 7)),
        [(Rule.ANSWER_PLACE, "message 'a-r4'")],
    ),
    "an answer in a turn to come": (
        lambda rows: message(rows, "a-r4", place=Place(99, LAST_SLOT)),
        [(Rule.ANSWER_PLACE, "message 'a-r4'")],
    ),
    "an answer of another end": (
        lambda rows: message(rows, "a-r4", status=MessageStatus.FAILED),
        [(Rule.ANSWER_STATUS, "message 'a-r4'")],
    ),
    "a finished answer of an active run": (
        lambda rows: message(rows, "a-r5", status=MessageStatus.COMPLETED),
        [(Rule.ANSWER_STATUS, "message 'a-r5'")],
    ),
    "an archived answer of an active run": (
        lambda rows: message(rows, "a-r5", archived_at=MOMENT + STEP, replaced_by="s"),
        [(Rule.ANSWER_STATUS, "message 'a-r5'")],
    ),
    "an answer of a run that was never acquired": (
        lambda rows: add(
            rows,
            answer=True,
            id="a-r7",
            run_id="r7",
            status=MessageStatus.STREAMING,
            turn=19,
            slot=LAST_SLOT,
        ),
        [(Rule.ANSWER_STATUS, "message 'a-r7'")],
    ),
    "an unfinished answer that outlived its run": (
        lambda rows: message(
            without(rows, runs=("r1",), receipts=("1",)), "a-r1", status=MessageStatus.STREAMING
        ),
        [(Rule.ANSWER_STATUS, "message 'a-r1'")],
    ),
    "another answer in the history than the retained": (
        lambda rows: message(rows, "a-r4", parts=OTHER),
        [(Rule.RETAINED, "run 'r4'")],
    ),
    "another answer retained than in the history": (
        lambda rows: run(rows, "r1", answer_metadata={"a": 1}),
        [(Rule.RETAINED, "run 'r1'")],
    ),
    "an open tool call in an answer": (
        lambda rows: message(run(rows, "r4", answer_parts=(CALL,)), "a-r4", parts=(CALL,)),
        [(Rule.OPEN_CALL, "run 'r4'")],
    ),
    # -------------------------------------------------------- history
    "two messages in one place": (twice_in_a_place, [(Rule.PLACE, "message 'n2'")]),
    "a system message in the last slot": (
        lambda rows: add(rows, id="n", role=MessageRole.SYSTEM, turn=2, slot=LAST_SLOT),
        [(Rule.PLACE, "message 'n'")],
    ),
    "an archived message without its summary's name": (
        lambda rows: message(rows, "i-1", replaced_by=None),
        [(Rule.ARCHIVED, "message 'i-1'")],
    ),
    "an active message with a summary's name": (
        lambda rows: message(rows, "i-4", replaced_by="s"),
        [(Rule.ARCHIVED, "message 'i-4'")],
    ),
    "a message that was replaced by no summary": (
        lambda rows: message(rows, "i-1", replaced_by="i-7"),
        [(Rule.SUMMARY, "message 'i-1'")],
    ),
    "a message that was replaced by itself": (
        lambda rows: message(rows, "s", archived_at=MOMENT + STEP, replaced_by="s"),
        [(Rule.SUMMARY, "message 's'")],
    ),
    "a summary behind what it replaced": (
        lambda rows: message(rows, "s", place=Place(1, 1)),
        [(Rule.SUMMARY, "message 'i-1'")],
    ),
    "a summary of another moment": (
        lambda rows: message(rows, "i-1", archived_at=LATEST),
        [(Rule.SUMMARY, "message 'i-1'")],
    ),
    "a summary that is missing": (
        lambda rows: without(rows, messages=("s",)),
        [(Rule.SUMMARY, "message 'i-1'"), (Rule.SUMMARY, "message 'a-r1'")],
    ),
    "an answer that is missing": (
        lambda rows: without(rows, messages=("s", "i-1", "a-r1", "a-r4"), runs=("r1",)),
        [(Rule.ANSWER_MESSAGE, "run 'r4'"), (Rule.RECEIPT_RUN, "receipt '1'")],
    ),
    "an input that is missing": (
        lambda rows: without(
            rows, messages=("s", "i-1", "a-r1", "i-6b"), runs=("r1",), receipts=("1",)
        ),
        [(Rule.INPUT_MESSAGE, "run 'r6'")],
    ),
    "messages that are missing before the only summary": (
        lambda rows: message(
            without(
                rows,
                runs=("r1",),
                receipts=("1",),
                messages=("i-1", "a-r1", "i-4", "a-r4", "i-6", "i-7"),
            ),
            "s",
            place=Place(16, 0),
        ),
        [(Rule.INPUT_MESSAGE, "run 'r4'"), (Rule.ANSWER_MESSAGE, "run 'r4'")],
    ),
    # -------------------------------------------------------- receipts
    "a receipt of a run that is missing": (
        lambda rows: receipt(rows, "4", run_id="gone"),
        [(Rule.RECEIPT_RUN, "receipt '4'")],
    ),
    "a receipt of another run": (
        lambda rows: receipt(rows, "4", run_id="r2"),
        [(Rule.RECEIPT_RUN, "receipt '4'")],
    ),
    "a receipt of another answer": (
        lambda rows: receipt(rows, "4", assistant_message_id="a-r2"),
        [(Rule.RECEIPT_RUN, "receipt '4'")],
    ),
    "a receipt of another text": (
        lambda rows: receipt(rows, "4", input=replace(admitted(rows, "4"), parts=OTHER)),
        [(Rule.RECEIPT_INPUT, "receipt '4'")],
    ),
    "an input that was changed": (
        lambda rows: message(rows, "i-1", parts=OTHER),
        [(Rule.RECEIPT_INPUT, "receipt '1'")],
    ),
}


def admitted(rows: ConversationRows, key: str) -> Any:
    return receipt_like(rows, key, key).input


def receipt_like(rows: ConversationRows, key: str, new_key: str) -> Any:
    (one,) = (one for one in rows.receipts if one.idempotency_key == key)
    return replace(one, idempotency_key=new_key)


@pytest.mark.parametrize(("plant", "expected"), PLANTS.values(), ids=PLANTS.keys())
def test_a_planted_corruption_is_found_and_nothing_else(
    plant: Plant, expected: list[tuple[Rule, str]]
) -> None:
    rows = sound()
    assert found(rows) == []

    planted = plant(rows)

    assert planted != rows
    assert found(planted) == expected


def test_every_rule_between_rows_is_broken_by_some_plant() -> None:
    broken = {rule for _, expected in PLANTS.values() for rule, _ in expected}

    assert broken == set(Rule) - {Rule.ROW, Rule.SCHEMA_VERSION, Rule.COLUMN, Rule.HEAD}
    assert len(PLANTS) >= 20
    assert set(LAWS) == set(Rule)


def test_a_finding_names_conversation_row_and_what_is_wrong() -> None:
    (finding,) = findings(receipt(sound(), "4", run_id="r2"))

    assert finding.conversation_id == "c"
    assert str(finding) == (
        "receipt '4': names run 'r2', which does not have its input 'i-4' (receipt-run)"
    )
    assert isinstance(finding, Finding)


# ---------------------------------------------------------------- what is as it should be


@pytest.mark.parametrize("archives", [True, False], ids=["archiving", "deleting"])
@pytest.mark.parametrize("history", histories(), ids=lambda history: f"seed {history['seed']}")
def test_nothing_is_found_in_what_the_store_has_written(
    history: dict[str, Any], archives: bool
) -> None:
    driver = MemoryDriver()
    replay(AgentStore(driver, archive_compacted=archives), "c", history)
    rows = driver.rows("c")
    assert rows is not None

    assert found(rows) == []


def test_nothing_is_found_after_old_runs_and_messages_are_purged() -> None:
    clock = Clock()
    driver = MemoryDriver(clock)
    planting.begin(AgentStore(driver), clock)
    clock.move(by=STEP)

    driver.transaction(lambda one: one.forget("c", "r1", limit=1))
    driver.transaction(lambda one: one.forget("c", "r3", limit=1))
    driver.transaction(lambda one: one.forget_archived("c", clock.moment, limit=1))
    rows = driver.rows("c")

    assert rows is not None
    assert [one.run.id for one in rows.runs] == ["r2", "r4", "r5", "r6", "r7"]
    assert found(rows) == []


def test_a_run_may_have_lost_a_part_of_its_receipts_and_wait_for_the_rest_of_its_purge() -> None:
    assert found(without(sound(), receipts=("4",))) == []


def test_nothing_is_found_where_summaries_were_summarised_and_old_ones_purged() -> None:
    clock = Clock()
    driver = MemoryDriver(clock)
    store = AgentStore(driver)
    answered(store, "1")
    compact(store, "i-1", "a-r1", summary_id="s1")
    clock.move(by=STEP)
    answered(store, "2")
    compact(store, "s1", "i-2", summary_id="s2")
    rows = driver.rows("c")
    assert rows is not None

    assert found(rows) == []
    assert found(without(rows, messages=("s1",))) == []


def test_an_input_that_was_absorbed_after_its_compaction_is_not_missed() -> None:
    driver = MemoryDriver()
    store = AgentStore(driver, archive_compacted=False)
    first = acquire(store, admit(store, "1"))
    second = admit(store, "2")
    compact(store, "i-2")
    named = Absorption(run_id="r2", input_message_ids=second.input_message_ids)
    end(store, first, absorb=[named])
    rows = driver.rows("c")
    assert rows is not None

    assert found(rows) == []


def test_a_conversation_that_nobody_has_written_to_is_sound() -> None:
    nothing = replace(head(sound(), version=0), runs=(), receipts=(), messages=())

    assert found(nothing) == []


def test_a_purged_conversation_is_sound() -> None:
    driver = MemoryDriver()
    store = AgentStore(driver)
    answered(store)
    store.purge_conversation("c")
    rows = driver.rows("c")
    assert rows is not None

    assert rows.head.purged_at is not None
    assert found(rows) == []


def test_a_run_that_was_cancelled_without_ever_having_an_owner_needs_none() -> None:
    driver = MemoryDriver()
    store = AgentStore(driver)
    store.cancel_run("c", admit(store).id)
    rows = driver.rows("c")
    assert rows is not None

    assert found(rows) == []


# ---------------------------------------------------------------- some rows can't be read


@pytest.mark.parametrize(
    "taken",
    [
        {"runs": ("r1", "r2", "r4", "r5")},
        {"receipts": ("5", "6", "6b")},
        {"messages": ("s", "i-2", "a-r4", "i-7")},
    ],
    ids=["runs", "receipts", "messages"],
)
def test_nothing_is_said_of_what_may_stand_in_a_row_that_can_not_be_read(
    taken: dict[str, tuple[str, ...]],
) -> None:
    rows = without(sound(), **taken)

    assert found(rows, whole=False) == []
    assert found(rows) != [] or "messages" in taken


def test_what_can_be_read_is_judged_all_the_same() -> None:
    rows = run(without(sound(), messages=("i-7",)), "r5", revision=1)

    assert found(rows, whole=False) == [(Rule.REVISION, "run 'r5'")]


def test_a_receipt_of_no_message_is_sound() -> None:
    rows = sound()
    gone = without(rows, messages=("i-1", "a-r1"))
    other = ReceiptFactory.build(input=MessageFactory.build(id="i-9"), run_id="gone")

    assert found(gone) == []
    assert found(replace(gone, receipts=(*gone.receipts, other))) == [
        (Rule.RECEIPT_RUN, "receipt 'k1'")
    ]
