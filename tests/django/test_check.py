"""Planted rows are found, each as what it is; what the store has written is not."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from django.db import OperationalError, connections

from stitchkit_django import get_store
from stitchkit_django.core import AgentStore, StoreUnavailableError, TextPart
from stitchkit_django.core.integrity import Rule
from stitchkit_django.core.records import Message as MessageRecord
from stitchkit_django.core.usage import Cost, Provenance, Usage
from stitchkit_django.core.wire import encode_record
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.integrity import check_all, check_one
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from stitchkit_django.stored import StoredConversations
from tests.core import planting
from tests.core.steps import acquire, admit, checkpoint
from tests.django.commanding import SECONDS, called, started
from tests.django.hooks import counted, failing
from tests.django.unconstrained import unconstrained, written
from tests.replay import histories, replay

if TYPE_CHECKING:
    from django.db.models import Model

A_USAGE = Usage(cost=Cost(amount=Decimal("0.25"), currency="USD", provenance=Provenance.COMPUTED))
PAGE = 100


@pytest.fixture
def store(alias: str) -> AgentStore:
    """Give a store with conversation `c`, which has everything, and `d`, which has a little."""
    found = get_store(alias)
    found.accept_input("b", "k", "Hello?")
    planting.begin(found)
    found.accept_input("d", "k", "Hello?")
    return found


def check(alias: str, **limit: int) -> dict[str, list[tuple[Rule, str]]]:
    return {
        checked.conversation_id: [(one.rule, one.row) for one in checked.findings]
        for checked in check_all(StoredConversations(alias), page=PAGE, **limit)
    }


# ---------------------------------------------------------------- planted


class Plant(NamedTuple):
    """What is changed past the store, and what is found then."""

    model: type[Model]
    row: dict[str, Any]
    columns: dict[str, Any]
    rule: Rule
    named: str


def answer_text(**fields: Any) -> str:
    text = TextPart(text="Another")
    given = {
        "id": "a-r4",
        "conversation_id": "c",
        "run_id": "r4",
        "role": "assistant",
        "status": "completed",
        "parts": (text,),
        **fields,
    }
    moment = planting.sound().head.updated_at
    return encode_record(MessageRecord(created_at=moment, updated_at=moment, **given))


R = {name: {"run_id": name} for name in ("r3", "r4", "r5", "r6", "r7")}
M = {name: {"message_id": name} for name in ("i-1", "a-r4", "a-r5", "s", "i-4", "i-6b", "i-7")}
K4 = {"idempotency_key": "4"}
ANOTHER = json.dumps([{"type": "text", "text": "Another"}])
AT_LAST = "2998-01-01 00:00:00+00:00"
PAST = "2001-01-01 00:00:00+00:00"

PLANTS = {
    # Rows that can't be read.
    "an unknown schema version of a head": Plant(
        Conversation, {}, {"schema_version": 2}, Rule.SCHEMA_VERSION, "the head"
    ),
    "an unknown schema version of a run": Plant(
        Run, R["r4"], {"schema_version": 2}, Rule.SCHEMA_VERSION, "run 'r4'"
    ),
    "parts that are no JSON": Plant(Message, M["i-4"], {"parts": "{"}, Rule.ROW, "message 'i-4'"),
    "metadata that is no object": Plant(
        Message, M["i-4"], {"metadata": "[1]"}, Rule.ROW, "message 'i-4'"
    ),
    "an admitted input that is no message": Plant(
        AdmissionReceipt, K4, {"input": "null"}, Rule.ROW, "receipt '4'"
    ),
    "inputs that are no ids": Plant(
        Run, R["r7"], {"input_message_ids": "[1]"}, Rule.ROW, "run 'r7'"
    ),
    "a usage that is none": Plant(Run, R["r7"], {"usage": "[]"}, Rule.ROW, "run 'r7'"),
    "an end without a reason": Plant(Run, R["r4"], {"terminal_reason": None}, Rule.ROW, "run 'r4'"),
    "a reason of another state": Plant(Run, R["r4"], {"state": "failed"}, Rule.ROW, "run 'r4'"),
    "an unknown state": Plant(Run, R["r7"], {"state": "paused"}, Rule.ROW, "run 'r7'"),
    "an owner of a queued run": Plant(Run, R["r7"], {"owner_id": "w"}, Rule.ROW, "run 'r7'"),
    "an acquired run without its owner": Plant(
        Run, R["r5"], {"owner_id": None}, Rule.ROW, "run 'r5'"
    ),
    "a lease of half a kind": Plant(Run, R["r5"], {"lease_seconds": 60.0}, Rule.ROW, "run 'r5'"),
    "a retained answer of another run": Plant(
        Run,
        R["r4"],
        {"terminal_assistant": answer_text(id="a-r1", run_id="r1")},
        Rule.ROW,
        "run 'r4'",
    ),
    "a retained answer that is missing": Plant(
        Run, R["r4"], {"terminal_assistant": None}, Rule.ROW, "run 'r4'"
    ),
    "a moment before the beginning": Plant(
        Message, M["i-4"], {"updated_at": PAST}, Rule.ROW, "message 'i-4'"
    ),
    "a role that is none": Plant(Message, M["i-4"], {"role": "tool"}, Rule.ROW, "message 'i-4'"),
    "a slot that is none": Plant(Message, M["i-4"], {"slot": -1}, Rule.ROW, "message 'i-4'"),
    # Columns that say something twice.
    "another input in the column": Plant(
        AdmissionReceipt, K4, {"input_message_id": "other"}, Rule.COLUMN, "receipt '4'"
    ),
    "a cost of no usage": Plant(
        Run, R["r7"], {"cost_amount": 1, "cost_currency": "USD"}, Rule.COLUMN, "run 'r7'"
    ),
    # Rows that contradict others.
    "a version behind the turns": Plant(Conversation, {}, {"version": 3}, Rule.VERSION, "run 'r7'"),
    "a head that is older than its rows": Plant(
        Conversation, {}, {"updated_at": PAST}, Rule.UPDATED_AT, "run 'r7'"
    ),
    "a purged head that has rows": Plant(
        Conversation, {}, {"purged_at": PAST}, Rule.PURGED, "the head"
    ),
    "a run of another turn": Plant(Run, R["r4"], {"turn": 10}, Rule.TURN, "run 'r4'"),
    "a run that has lost its fence": Plant(
        Run, R["r4"], {"fencing_token": None, "acquired_at": None}, Rule.OWNER, "run 'r4'"
    ),
    "a revision that went back": Plant(Run, R["r4"], {"revision": 0}, Rule.REVISION, "run 'r4'"),
    "an end that has no moment": Plant(Run, R["r4"], {"ended_at": None}, Rule.ROW, "run 'r4'"),
    "an absorber that is missing": Plant(
        Run, R["r3"], {"absorbed_into_run_id": "gone"}, Rule.ABSORBER, "run 'r3'"
    ),
    "an absorber that is active": Plant(
        Run, R["r3"], {"absorbed_into_run_id": "r5"}, Rule.ABSORBER, "run 'r3'"
    ),
    "inputs in another order": Plant(
        Run, R["r6"], {"input_message_ids": '["i-6b","i-6"]'}, Rule.INPUT_PLACE, "run 'r6'"
    ),
    "an input in another turn": Plant(
        Message, M["i-6b"], {"turn": 18}, Rule.INPUT_PLACE, "run 'r6'"
    ),
    "an input of another role": Plant(
        Message, M["i-4"], {"role": "system"}, Rule.INPUT, "message 'i-4'"
    ),
    "an answer in another slot": Plant(
        Message, M["a-r4"], {"slot": 5}, Rule.ANSWER_PLACE, "message 'a-r4'"
    ),
    "an answer of another status": Plant(
        Message, M["a-r4"], {"status": "failed"}, Rule.ANSWER_STATUS, "message 'a-r4'"
    ),
    "an answer of another run": Plant(
        Message, M["a-r4"], {"run_id": "r1"}, Rule.ANSWER_RUN, "message 'a-r4'"
    ),
    "another text in the history": Plant(
        Message, M["a-r4"], {"parts": ANOTHER}, Rule.RETAINED, "run 'r4'"
    ),
    "another text retained": Plant(
        Run, R["r4"], {"terminal_assistant": answer_text()}, Rule.RETAINED, "run 'r4'"
    ),
    "an input that was changed": Plant(
        Message, M["i-4"], {"parts": ANOTHER}, Rule.RECEIPT_INPUT, "receipt '4'"
    ),
    "an archived message without its summary": Plant(
        Message, M["i-1"], {"replaced_by": None}, Rule.ARCHIVED, "message 'i-1'"
    ),
    "a summary that is none": Plant(
        Message, M["i-1"], {"replaced_by": "i-7"}, Rule.SUMMARY, "message 'i-1'"
    ),
    "a receipt of another run": Plant(
        AdmissionReceipt, K4, {"run_id": "r2"}, Rule.RECEIPT_RUN, "receipt '4'"
    ),
    "a receipt of a run that is missing": Plant(
        AdmissionReceipt, K4, {"run_id": "gone"}, Rule.RECEIPT_RUN, "receipt '4'"
    ),
    "a receipt of another answer": Plant(
        AdmissionReceipt, K4, {"assistant_message_id": "a-r2"}, Rule.RECEIPT_RUN, "receipt '4'"
    ),
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_a_planted_row_is_found_and_nothing_else(
    alias: str,
    store: AgentStore,  # noqa: ARG001 - asked for its rows
    plant: Plant,
) -> None:
    with unconstrained(alias, plant.model):
        written(alias, plant.model, plant.row, **plant.columns)

        assert check(alias) == {"b": [], "c": [(plant.rule, plant.named)], "d": []}


def test_the_plants_are_of_at_least_twenty_kinds() -> None:
    assert len({plant.rule for plant in PLANTS.values()}) >= 20


def test_two_acquired_runs_are_found(postgres_alias: str) -> None:
    planting.begin(get_store(postgres_alias))
    owned = {"state": "running", "owner_id": "w", "fencing_token": 1, "revision": 3}

    with unconstrained(postgres_alias, Run):
        written(postgres_alias, Run, R["r6"], acquired_at=AT_LAST, **owned)
        written(postgres_alias, Run, R["r6"], updated_at=AT_LAST)
        written(postgres_alias, Conversation, {}, updated_at=AT_LAST)

        assert check(postgres_alias) == {"c": [(Rule.ACQUIRED, "run 'r5'")]}


def test_two_messages_in_one_place_are_found(postgres_alias: str) -> None:
    planting.begin(get_store(postgres_alias))

    with unconstrained(postgres_alias, Message):
        written(postgres_alias, Message, M["s"], turn=9, slot=0)

        assert check(postgres_alias) == {
            "c": [
                (Rule.PLACE, "message 's'"),
                (Rule.SUMMARY, "message 'i-1'"),
                (Rule.SUMMARY, "message 'a-r1'"),
            ]
        }


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("turn", "many"),
        ("slot", "x"),
        ("created_at", "yesterday"),
        ("parts", b"\xff\xfe"),
        ("id", ""),
    ],
)
def test_what_sqlite_lets_into_any_column_is_found(
    sqlite_alias: str, column: str, value: str | bytes
) -> None:
    planting.begin(get_store(sqlite_alias))
    name = "message_id" if column == "id" else column

    with unconstrained(sqlite_alias, Message):
        written(sqlite_alias, Message, M["i-4"], **{name: value})

        (found,) = check(sqlite_alias).values()
        assert found[0][0] is Rule.ROW


def test_a_text_that_is_no_utf_8_is_found(sqlite_alias: str) -> None:
    planting.begin(get_store(sqlite_alias))
    with connections[sqlite_alias].cursor() as cursor:
        cursor.execute(
            "UPDATE stitchkit_django_message SET parts = CAST(%s AS TEXT) WHERE message_id = 'i-4'",
            [b'[{"type":"text","text":"\xff"}]'],
        )

    assert check(sqlite_alias) == {"c": [(Rule.ROW, "message 'i-4'")]}
    with connections[sqlite_alias].cursor() as cursor, pytest.raises(Exception, match="UTF-8"):
        cursor.execute("SELECT parts FROM stitchkit_django_message").fetchall()


# ---------------------------------------------------------------- rows without a head


def test_rows_without_a_head_are_found(alias: str, store: AgentStore) -> None:
    store.accept_input("e", "k", "Hello?")
    Conversation.objects.using(alias).filter(conversation_id__in=["b", "e"]).delete()
    Message.objects.using(alias).filter(conversation_id="e").delete()
    AdmissionReceipt.objects.using(alias).filter(conversation_id="b").delete()
    Run.objects.using(alias).filter(conversation_id__in=["b", "e"]).delete()

    found = {
        checked.conversation_id: [str(one) for one in checked.findings]
        for checked in check_all(StoredConversations(alias), page=PAGE)
    }

    assert found == {
        "b": ["the head: is missing, but there are rows: 1 of kind message (head)"],
        "c": [],
        "d": [],
        "e": ["the head: is missing, but there are rows: 1 of kind receipt (head)"],
    }


def test_one_conversation_can_be_checked_alone(alias: str, store: AgentStore) -> None:
    stored = StoredConversations(alias)
    store.accept_input("e", "k", "Hello?")
    Conversation.objects.using(alias).filter(conversation_id="e").delete()

    checked = check_one(stored, "e")

    assert check_one(stored, "c") == ("c", ())
    assert check_one(stored, "unknown") is None
    assert checked is not None
    (finding,) = checked.findings
    assert str(finding) == (
        "the head: is missing, but there are rows: 1 of kind run, 1 of kind receipt, "
        "1 of kind message (head)"
    )
    Message.objects.using(alias).filter(conversation_id="e").update(schema_version=2)
    checked = check_one(stored, "e")
    assert checked is not None
    assert [one.rule for one in checked.findings] == [Rule.SCHEMA_VERSION, Rule.HEAD]


# ---------------------------------------------------------------- all that is wrong, and no more


def test_a_row_that_can_not_be_read_hides_nothing_else(
    alias: str,
    store: AgentStore,  # noqa: ARG001 - asked for its rows
) -> None:
    written(alias, Run, R["r7"], input_message_ids="[")
    written(alias, Message, M["a-r4"], parts=ANOTHER)
    written(alias, Run, R["r6"], usage='{"cost":{}}')

    assert check(alias)["c"] == [
        (Rule.ROW, "run 'r6'"),
        (Rule.ROW, "run 'r7'"),
        (Rule.RETAINED, "run 'r4'"),
    ]


@pytest.mark.parametrize("archives", [True, False], ids=["archiving", "deleting"])
def test_nothing_is_found_in_what_the_store_has_written(alias: str, archives: bool) -> None:
    store = AgentStore(DjangoDriver(alias), archive_compacted=archives)
    told = histories()[::6]
    for number, history in enumerate(told):
        replay(store, f"c{number}", history)

    found = check(alias)

    assert len(found) == len(told)
    assert set(map(len, found.values())) == {0}


def test_nothing_is_found_after_purges(alias: str, store: AgentStore) -> None:
    driver = DjangoDriver(alias)
    later = store.load_snapshot("c").messages[-1].updated_at + timedelta(days=1)
    driver.transaction(lambda one: one.forget("c", "r1", limit=1))
    driver.transaction(lambda one: one.forget("c", "r3", limit=1))
    driver.transaction(lambda one: one.forget_archived("c", later, limit=1))
    admit(store, "8")

    assert check(alias) == {"b": [], "c": [], "d": []}


def test_nothing_is_found_in_a_cost_of_any_size(alias: str) -> None:
    store = get_store(alias)
    amounts = ["0", "0.1", "9999999999999999999999999999", "0.0000000001", "1E+3"]
    for number, amount in enumerate(amounts):
        cost = Cost(amount=Decimal(amount), currency="USD", provenance=Provenance.COMPUTED)
        run = acquire(store, admit(store, str(number)))
        checkpoint(store, run, "x", usage=Usage(cost=cost))
        store.recover_run("c", run.id, expected_revision=2, action="abandon")
    unknown = Cost(currency="USD", provenance=Provenance.UNAVAILABLE)
    checkpoint(store, acquire(store, admit(store, "x")), "x", usage=Usage(cost=unknown))

    assert check(alias) == {"c": []}


def test_a_checkpoint_between_the_reads_is_no_finding(alias: str) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))

    class Late(StoredConversations):
        """Lets the owner write once the rows have been read."""

        def conversation(self, conversation_id: str) -> Any:
            found = super().conversation(conversation_id)
            store.accept_input("c", "late", "Another")
            checkpoint(store, run, "So far", usage=A_USAGE)
            return found

    checked = check_one(Late(alias), "c")

    assert checked == ("c", ())
    assert Run.objects.using(alias).get(run_id="r1").cost_amount == Decimal("0.25")


# ---------------------------------------------------------------- reading


def test_a_check_changes_nothing(
    alias: str,
    store: AgentStore,  # noqa: ARG001 - asked for its rows
) -> None:
    written(alias, Message, M["i-4"], parts="{")
    before = dumped(alias)

    with counted(alias) as sent:
        check(alias)

    assert dumped(alias) == before
    assert {statement.split()[0] for statement in sent} == {"SELECT"}


def dumped(alias: str) -> list[list[Any]]:
    with connections[alias].cursor() as cursor:
        found = []
        for model in (Conversation, Run, AdmissionReceipt, Message):
            cursor.execute(f"SELECT * FROM {model._meta.db_table} ORDER BY 1")
            found.append(cursor.fetchall())
        return found


def test_conversations_are_read_page_by_page_and_one_at_a_time(alias: str) -> None:
    store = get_store(alias)
    for number in range(7):
        store.accept_input(f"c{number}", "k", "Hello?")

    with counted(alias) as sent:
        found = [one.conversation_id for one in check_all(StoredConversations(alias), page=3)]

    assert found == [f"c{number}" for number in range(7)]
    # Four pages of ids, three statements for each conversation, and the rows without a head.
    assert len(sent) == 4 + 3 * 7 + 3


def test_a_limit_counts_conversations(alias: str, store: AgentStore) -> None:
    Conversation.objects.using(alias).filter(conversation_id="d").delete()

    assert list(check(alias, limit=1)) == ["b"]
    assert list(check(alias, limit=0)) == []
    assert list(check(alias)) == ["b", "c", "d"]
    assert store.load_run("d", "unknown") is None


def test_a_lost_connection_is_made_again(postgres_alias: str) -> None:
    planting.begin(get_store(postgres_alias))
    stored = StoredConversations(postgres_alias)
    connections[postgres_alias].ensure_connection()
    session: Any = connections[postgres_alias].connection

    session.close()

    assert check_one(stored, "c") == ("c", ())


def test_a_database_that_fails_is_told(alias: str) -> None:
    stored = StoredConversations(alias)

    with (
        failing(alias, lambda: OperationalError("out of order"), 1, 99),
        pytest.raises(StoreUnavailableError, match="out of order"),
    ):
        check_one(stored, "c")
    assert check_one(stored, "c") is None


# ---------------------------------------------------------------- the command


def test_the_command_reports_what_it_finds_and_ends_with_1(
    alias: str,
    store: AgentStore,  # noqa: ARG001 - asked for its rows
) -> None:
    sound = called("check_conversations", database=alias)
    written(alias, Message, M["a-r4"], parts=ANOTHER)

    broken = called("check_conversations", database=alias)

    assert sound == (0, "3 conversations checked: 0 findings in 0 of them\n", "")
    assert (broken.status, broken.err) == (1, "CommandError: 1 findings, as told above\n")
    assert broken.out == (
        "conversation c: run 'r4': has retained another answer than the one in the history "
        "(retained)\n3 conversations checked: 1 findings in 1 of them\n"
    )


def test_the_report_can_be_one_json_document(
    alias: str,
    store: AgentStore,  # noqa: ARG001 - asked for its rows
) -> None:
    written(alias, Message, M["i-4"], parts="{")
    Conversation.objects.using(alias).filter(conversation_id="d").delete()

    done = called("check_conversations", database=alias, output_format="json")

    report = json.loads(done.out)
    assert done.status == 1
    assert [(one["conversationId"], one["rule"]) for one in report["findings"]] == [
        ("c", "row"),
        ("d", "head"),
    ]
    assert set(report["findings"][0]) == {"conversationId", "rule", "row", "detail"}
    assert report["summary"]["conversations"] == 3
    assert (report["summary"]["broken"], report["summary"]["findings"]) == (2, 2)


def test_one_conversation_can_be_named(
    alias: str,
    store: AgentStore,  # noqa: ARG001 - asked for its rows
) -> None:
    written(alias, Message, M["i-4"], parts="{")

    assert called("check_conversations", database=alias, conversation="b").status == 0
    assert called("check_conversations", database=alias, conversation="c").status == 1
    assert called("check_conversations", database=alias, limit=1).status == 0
    assert called("check_conversations", database=alias, limit=2, batch_size=1).status == 1


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"conversation": "unknown"}, "--conversation: 'unknown' has no row in this database"),
        ({"conversation": "c\0"}, "--conversation: 'c\\x00' has a control character"),
        ({"database": "nowhere"}, "--database: 'nowhere' is no alias in DATABASES"),
        ({"limit": -1}, "--limit: -1 is not a whole number"),
        ({"batch_size": 0}, "--batch-size: 0 is not a whole number"),
        ({"output_format": "xml"}, "--format: 'xml' is not one of text, json"),
    ],
    ids=str,
)
def test_bad_input_is_named(sqlite_alias: str, option: dict[str, Any], told: str) -> None:
    done = called("check_conversations", **({"database": sqlite_alias} | option))

    assert (done.status, done.out) == (2, "")
    assert told in done.err


def test_a_check_survives_a_reader_that_has_gone(
    alias: str,
    store: AgentStore,  # noqa: ARG001 - asked for its rows
    child_environment: dict[str, str],
) -> None:
    written(alias, Message, M["i-4"], parts="{")
    with started(child_environment, "check_conversations", "--database", alias) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        err = process.stderr.read()

        assert process.wait(SECONDS) == 1
    assert err == b"CommandError: 1 findings, as told above\n"
