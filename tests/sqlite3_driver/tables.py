"""The tables, and how a row becomes a record again; what is written stands in `transaction.py`.

A record is one JSON text. Beside it a table has columns for what statements look for, guard or
change by themselves: a lease is renewed without the rest of its run, so it stands in columns alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from stitchkit_django.core import (
    AdmissionReceipt,
    CorruptRecordError,
    Head,
    Message,
    Place,
    PlacedMessage,
    Run,
    StitchkitError,
    StoredRun,
    UnsupportedSchemaVersionError,
)
from stitchkit_django.core.wire import decode_record

if TYPE_CHECKING:
    import sqlite3

    from stitchkit_django.core.records import Document

DocumentT = TypeVar("DocumentT", bound="Document")

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS head (
    conversation_id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    record TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS run (
    key INTEGER PRIMARY KEY AUTOINCREMENT, -- orders scans; AUTOINCREMENT never uses one again
    conversation_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    assistant_message_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    state TEXT NOT NULL,
    revision INTEGER NOT NULL,
    owner_id TEXT,
    fencing_token INTEGER,
    lease_seconds REAL,
    lease_expires_at TEXT,
    ended_at TEXT,
    record TEXT NOT NULL,
    answer TEXT, -- the retained one
    UNIQUE (conversation_id, run_id)
);
CREATE INDEX IF NOT EXISTS active_run ON run (conversation_id, turn) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS reserved_answer ON run (conversation_id, assistant_message_id);
CREATE TABLE IF NOT EXISTS receipt (
    conversation_id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    input_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (conversation_id, idempotency_key)
);
CREATE INDEX IF NOT EXISTS receipt_of_input ON receipt (conversation_id, input_id);
CREATE INDEX IF NOT EXISTS receipt_of_run ON receipt (conversation_id, run_id);
CREATE TABLE IF NOT EXISTS message (
    conversation_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    archived_at TEXT, -- null: active
    replaced_by TEXT,
    record TEXT NOT NULL,
    PRIMARY KEY (conversation_id, message_id)
);
CREATE UNIQUE INDEX IF NOT EXISTS active_place
    ON message (conversation_id, turn, slot) WHERE archived_at IS NULL;
"""


def moment_text(moment: datetime | None) -> str | None:
    """Give a moment as text; texts compare as their moments do, which are all in UTC."""
    return None if moment is None else moment.isoformat(timespec="microseconds")


def head(row: sqlite3.Row) -> Head:
    """Build a head."""
    return _record(Head, row["record"], "head", row["conversation_id"], row)


def run(row: sqlite3.Row) -> Run:
    """Build a run, with the lease that its columns tell."""
    found = _record(Run, row["record"], "run", row["run_id"], row)
    if row["lease_expires_at"] is None:
        return found
    return replace(
        found,
        lease_seconds=row["lease_seconds"],
        lease_expires_at=datetime.fromisoformat(row["lease_expires_at"]),
    )


def stored_run(row: sqlite3.Row) -> StoredRun:
    """Build a run with its answer."""
    answer = row["answer"]
    if answer is not None:
        answer = _record(Message, answer, "the answer of run", row["run_id"], row)
    return StoredRun(run=run(row), terminal_assistant=answer)


def receipt(row: sqlite3.Row) -> AdmissionReceipt:
    """Build a receipt."""
    return _record(AdmissionReceipt, row["record"], "receipt", row["idempotency_key"], row)


def placed(row: sqlite3.Row) -> PlacedMessage:
    """Build a message with its place."""
    archived_at = row["archived_at"]
    return PlacedMessage(
        message=_record(Message, row["record"], "message", row["message_id"], row),
        place=Place(row["turn"], row["slot"]),
        archived_at=None if archived_at is None else datetime.fromisoformat(archived_at),
        replaced_by=row["replaced_by"],
    )


def _record(
    kind: type[DocumentT], text: str, name: str, identity: str, row: sqlite3.Row
) -> DocumentT:
    where = f"{name} {identity!r} in conversation {row['conversation_id']!r}"
    try:
        return decode_record(kind, text)
    except UnsupportedSchemaVersionError as error:
        raise UnsupportedSchemaVersionError(where, error.schema_version) from error
    except StitchkitError as error:
        raise CorruptRecordError(where, str(error)) from error
