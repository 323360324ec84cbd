"""A row that can't be read is refused by an error that names it, and hurts no one else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from stitchkit_django import get_store
from stitchkit_django.core import (
    Applied,
    CorruptRecordError,
    Duplicate,
    StitchkitError,
    UnsupportedSchemaVersionError,
)
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Model

    from stitchkit_django.core import AgentStore


@pytest.fixture
def store(alias: str) -> AgentStore:
    """Give a store with two conversations of one ended and one queued run each."""
    found = get_store(alias)
    for conversation_id in ("c", "other"):
        found.accept_input(conversation_id, "k1", "Hello?", run_id="r1", input_message_id="i1")
        found.acquire_run(conversation_id, "r1", expected_revision=0, owner_id="w")
        found.commit_terminal(
            conversation_id,
            "r1",
            expected_revision=1,
            owner_id="w",
            parts="Hello!",
            reason="success",
            metadata={"a": 1},
        )
        found.accept_input(conversation_id, "k2", "And?", run_id="r2", input_message_id="i2")
    return found


def overwrite(alias: str, model: type[Model], column: str, value: Any, **row: Any) -> None:
    table = connections[alias].ops.quote_name(model._meta.db_table)
    where = " AND ".join(f"{name} = %s" for name in row)
    with connections[alias].cursor() as cursor:
        sql = f"UPDATE {table} SET {column} = %s WHERE conversation_id = 'c' AND {where}"
        cursor.execute(sql, [value, *row.values()])
        assert cursor.rowcount == 1


def use_all(store: AgentStore, conversation_id: str) -> None:
    store.load_snapshot(conversation_id)
    store.load_run(conversation_id, "r1")
    store.load_run(conversation_id, "r2")
    store.list_active_runs(conversation_id)
    store.load_history(conversation_id)
    assert isinstance(store.accept_input(conversation_id, "k1", "Hello?"), Duplicate)
    store.cancel_run(conversation_id, "r2")


READS_RUN_1: list[Callable[[AgentStore], object]] = [
    lambda store: store.load_run("c", "r1"),
    lambda store: store.accept_input("c", "k1", "Hello?"),
]
READS_RUN_2: list[Callable[[AgentStore], object]] = [
    lambda store: store.load_run("c", "r2"),
    lambda store: store.load_snapshot("c"),
    lambda store: store.list_active_runs("c"),
    lambda store: store.scan_recoverable(),
    lambda store: store.acquire_run("c", "r2", expected_revision=0, owner_id="w"),
    lambda store: store.cancel_run("c", "r2"),
]
READS_MESSAGE: list[Callable[[AgentStore], object]] = [
    lambda store: store.load_snapshot("c"),
    lambda store: store.load_history("c"),
]
READS_RECEIPT: list[Callable[[AgentStore], object]] = [
    lambda store: store.accept_input("c", "k1", "Hello?"),
]
READS_HEAD: list[Callable[[AgentStore], object]] = [
    *READS_RUN_2[:3],
    *READS_MESSAGE,
    lambda store: store.accept_input("c", "k3", "More"),
    lambda store: store.purge_conversation("c"),
]


@pytest.mark.parametrize(
    ("model", "row", "uses", "named"),
    [
        (Conversation, {"version": 4}, READS_HEAD, "head"),
        (Run, {"run_id": "r1"}, READS_RUN_1, "run 'r1'"),
        (Run, {"run_id": "r2"}, READS_RUN_2, "run 'r2'"),
        (Message, {"message_id": "i1"}, READS_MESSAGE, "message 'i1'"),
        (AdmissionReceipt, {"idempotency_key": "k1"}, READS_RECEIPT, "receipt 'k1'"),
    ],
    ids=["head", "ended run", "queued run", "message", "receipt"],
)
def test_an_unknown_schema_version_is_refused(  # noqa: PLR0917 - parametrised
    alias: str,
    store: AgentStore,
    model: type[Model],
    row: dict[str, Any],
    uses: list[Callable[[AgentStore], object]],
    named: str,
) -> None:
    overwrite(alias, model, "schema_version", 2, **row)

    for use in uses:
        with pytest.raises(UnsupportedSchemaVersionError) as refused:
            use(store)
        assert named in refused.value.row
        assert "conversation 'c'" in refused.value.row
        assert refused.value.schema_version == 2
    use_all(store, "other")


ANSWER_OF_ANOTHER = {
    "schemaVersion": 1,
    "id": "a-other",
    "conversationId": "c",
    "runId": "r-other",
    "role": "assistant",
    "status": "completed",
    "parts": [],
    "createdAt": "2026-03-01T12:00:00Z",
    "updatedAt": "2026-03-01T12:00:00Z",
}


@pytest.mark.parametrize(
    ("model", "column", "value", "row", "uses", "named"),
    [
        (Run, "terminal_assistant", ANSWER_OF_ANOTHER, {"run_id": "r1"}, READS_RUN_1, "run 'r1'"),
        (Run, "terminal_assistant", "{", {"run_id": "r1"}, READS_RUN_1, "run 'r1'"),
        (Run, "input_message_ids", "[", {"run_id": "r2"}, READS_RUN_2, "run 'r2'"),
        (Run, "input_message_ids", "[]", {"run_id": "r2"}, READS_RUN_2, "run 'r2'"),
        (Run, "input_message_ids", "[1]", {"run_id": "r2"}, READS_RUN_2, "run 'r2'"),
        (Run, "usage", "[]", {"run_id": "r2"}, READS_RUN_2, "run 'r2'"),
        (Run, "usage", '{"cost":{"value":1}}', {"run_id": "r2"}, READS_RUN_2, "run 'r2'"),
        (Run, "terminal_detail", "not JSON", {"run_id": "r1"}, READS_RUN_1, "run 'r1'"),
        (Message, "parts", "", {"message_id": "i1"}, READS_MESSAGE, "message 'i1'"),
        (Message, "parts", '[{"type":"x"}]', {"message_id": "i1"}, READS_MESSAGE, "message 'i1'"),
        (Message, "parts", "[" * 9_000, {"message_id": "i1"}, READS_MESSAGE, "message 'i1'"),
        (Message, "metadata", "[1]", {"message_id": "i1"}, READS_MESSAGE, "message 'i1'"),
        (Message, "metadata", '"\\ud83d', {"message_id": "i1"}, READS_MESSAGE, "message 'i1'"),
        (AdmissionReceipt, "input", "null", {"idempotency_key": "k1"}, READS_RECEIPT, "'k1'"),
        (AdmissionReceipt, "input", "{}", {"idempotency_key": "k1"}, READS_RECEIPT, "'k1'"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_a_row_that_contradicts_itself_is_named(  # noqa: PLR0917 - parametrised
    alias: str,
    store: AgentStore,
    model: type[Model],
    column: str,
    value: object,
    row: dict[str, Any],
    uses: list[Callable[[AgentStore], object]],
    named: str,
) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    overwrite(alias, model, column, text, **row)

    for use in uses:
        with pytest.raises(CorruptRecordError) as refused:
            use(store)
        assert named in refused.value.row
        assert "conversation 'c'" in refused.value.row
    use_all(store, "other")


def test_a_receipt_without_its_run_is_named(alias: str, store: AgentStore) -> None:
    Run.objects.using(alias).filter(conversation_id="c", run_id="r1").delete()

    with pytest.raises(CorruptRecordError) as refused:
        store.accept_input("c", "k1", "Hello?")

    assert refused.value.row == "receipt 'k1' in conversation 'c'"
    use_all(store, "other")


def test_a_corrupt_row_stops_no_write_that_does_not_need_it(alias: str, store: AgentStore) -> None:
    overwrite(alias, Message, "parts", "", message_id="i1")
    overwrite(alias, Run, "terminal_detail", "not JSON", run_id="r1")

    assert isinstance(store.accept_input("c", "k3", "More"), Applied)
    assert isinstance(store.cancel_run("c", "r2"), Applied)


def test_no_operation_changes_a_receipt(alias: str, store: AgentStore) -> None:
    def receipts() -> list[dict[str, Any]]:
        rows = AdmissionReceipt.objects.using(alias).filter(conversation_id="c")
        return [dict(row) for row in rows.order_by("id").values()]

    before = receipts()

    store.accept_input("c", "k1", "Hello?")
    store.accept_input("c", "k1", "Something else?")
    store.accept_input("c", "k3", "More", coalesce_into="r2")
    store.acquire_run("c", "r2", expected_revision=1, owner_id="w")
    store.checkpoint_run("c", "r2", expected_revision=2, owner_id="w", parts="Well")
    store.request_interrupt("c", "r2")
    store.recover_run("c", "r2", expected_revision=4, action="requeue", replay_safe=True)
    store.cancel_run("c", "r2")
    version = store.load_snapshot("c").version
    store.compact_history("c", expected_version=version, message_ids=["i1"], summary_parts="Hi")

    assert receipts()[:2] == before
    assert len(receipts()) == 3


def test_every_error_is_one_of_ours(alias: str, store: AgentStore) -> None:
    overwrite(alias, Message, "role", "system", message_id="i1")
    assert store.load_snapshot("c").messages[0].role == "system"
    overwrite(alias, Run, "created_at", "2999-01-01 00:00:00", run_id="r2")

    with pytest.raises(StitchkitError, match="run 'r2'"):
        store.load_run("c", "r2")
