"""The floors' SQL, as one would write it by hand for the project's own tables."""

from __future__ import annotations

from typing import Final

LOCK: Final = (
    "SELECT schema_version, version, updated_at, purged_at FROM stitchkit_django_conversation "
    "WHERE conversation_id = %s FOR NO KEY UPDATE"
)
MAKE_HEAD: Final = (
    "INSERT INTO stitchkit_django_conversation (conversation_id, schema_version, version, "
    "updated_at) VALUES (%s, 1, 0, %s) ON CONFLICT (conversation_id) DO UPDATE "
    "SET version = stitchkit_django_conversation.version "
    "RETURNING schema_version, version, updated_at, purged_at"
)
UPDATE_HEAD: Final = (
    "UPDATE stitchkit_django_conversation SET version = %s, updated_at = %s "
    "WHERE conversation_id = %s AND version = %s"
)

# Columns that an operation on a run decides by, beside those that it is found by.
_RUN: Final = (
    "r.schema_version, r.turn, r.input_message_ids, r.assistant_message_id, r.state, r.revision, "
    "r.owner_id, r.fencing_token, r.lease_seconds, r.lease_expires_at, r.terminal_reason, "
    "r.terminal_policy_name, r.terminal_detail, r.absorbed_into_run_id, r.usage, r.created_at, "
    "r.updated_at, r.acquired_at, r.ended_at"
)
_ONE_RUN: Final = "WHERE r.conversation_id = %s AND r.run_id = %s"
TURN, ANSWER_ID, REVISION, FENCE = 2, 4, 6, 8
"""Where they stand in a row of facts, behind the moment."""

RECEIPT: Final = (
    "SELECT schema_version, input, run_id, assistant_message_id, created_at "
    "FROM stitchkit_django_admissionreceipt WHERE conversation_id = %s AND idempotency_key = %s"
)
TAKEN: Final = (
    "SELECT clock_timestamp(), "
    "EXISTS (SELECT 1 FROM stitchkit_django_message "
    "WHERE conversation_id = %s AND message_id IN (%s, %s)), "
    "EXISTS (SELECT 1 FROM stitchkit_django_admissionreceipt "
    "WHERE conversation_id = %s AND input_message_id IN (%s, %s)), "
    "EXISTS (SELECT 1 FROM stitchkit_django_run "
    "WHERE conversation_id = %s AND assistant_message_id IN (%s, %s)), "
    "EXISTS (SELECT 1 FROM stitchkit_django_run WHERE conversation_id = %s AND run_id = %s)"
)
QUEUED_RUN: Final = (
    f"SELECT clock_timestamp(), {_RUN}, (SELECT q.run_id FROM stitchkit_django_run q "
    "WHERE q.conversation_id = r.conversation_id AND q.active = 1 ORDER BY q.turn LIMIT 1) "
    f"FROM stitchkit_django_run r {_ONE_RUN}"
)
ANSWERED_RUN: Final = (
    f"SELECT clock_timestamp(), {_RUN}, m.schema_version, m.created_at, m.metadata "
    "FROM stitchkit_django_run r LEFT JOIN stitchkit_django_message m "
    "ON m.conversation_id = r.conversation_id AND m.message_id = r.assistant_message_id "
    f"{_ONE_RUN}"
)
FENCE_CHECK: Final = (
    f"SELECT clock_timestamp(), {_RUN}, r.terminal_assistant, h.schema_version, h.version, "
    "h.updated_at, h.purged_at FROM stitchkit_django_run r JOIN stitchkit_django_conversation h "
    f"ON h.conversation_id = r.conversation_id {_ONE_RUN}"
)

INSERT_RUN: Final = (
    "INSERT INTO stitchkit_django_run (conversation_id, run_id, schema_version, turn, "
    "input_message_ids, assistant_message_id, state, revision, created_at, updated_at) "
    "VALUES (%s, %s, 1, %s, %s, %s, 'queued', 0, %s, %s)"
)
INSERT_RECEIPT: Final = (
    "INSERT INTO stitchkit_django_admissionreceipt (conversation_id, idempotency_key, "
    "schema_version, input, input_message_id, run_id, assistant_message_id, created_at) "
    "VALUES (%s, %s, 1, %s, %s, %s, %s, %s)"
)
INSERT_INPUT: Final = (
    "INSERT INTO stitchkit_django_message (conversation_id, message_id, schema_version, turn, "
    "slot, role, status, parts, created_at, updated_at) "
    "VALUES (%s, %s, 1, %s, 0, 'user', 'committed', %s, %s, %s)"
)
_IF_UNMOVED: Final = "WHERE conversation_id = %s AND run_id = %s AND revision = %s"
_IF_OWNED: Final = f"{_IF_UNMOVED} AND owner_id = %s AND fencing_token = %s"
TAKE_RUN: Final = (
    "UPDATE stitchkit_django_run SET state = 'running', revision = %s, owner_id = %s, "
    "fencing_token = %s, updated_at = %s, acquired_at = %s, lease_seconds = %s, "
    f"lease_expires_at = %s {_IF_UNMOVED}"
)
KEEP_RUN: Final = (
    "UPDATE stitchkit_django_run SET revision = %s, updated_at = %s, lease_seconds = %s, "
    f"lease_expires_at = %s {_IF_OWNED}"
)
END_RUN: Final = (
    "UPDATE stitchkit_django_run SET state = 'completed', revision = %s, "
    "terminal_reason = 'success', updated_at = %s, ended_at = %s, terminal_assistant = %s, "
    f"lease_seconds = NULL, lease_expires_at = NULL {_IF_OWNED}"
)
INSERT_ANSWER: Final = (
    "INSERT INTO stitchkit_django_message (conversation_id, message_id, schema_version, turn, "
    "slot, run_id, role, status, parts, created_at, updated_at) "
    "VALUES (%s, %s, 1, %s, 2147483647, %s, 'assistant', %s, %s, %s, %s)"
)
UPDATE_ANSWER: Final = (
    "UPDATE stitchkit_django_message SET status = %s, parts = %s, updated_at = %s "
    "WHERE conversation_id = %s AND message_id = %s"
)

CHECKPOINT_AT_ONCE: Final = (
    "WITH head AS (UPDATE stitchkit_django_conversation SET version = version + 1, "
    "updated_at = clock_timestamp() WHERE conversation_id = %s RETURNING 1), "
    "run AS (UPDATE stitchkit_django_run SET revision = %s, updated_at = clock_timestamp(), "
    "lease_seconds = %s, lease_expires_at = clock_timestamp() + make_interval(secs => %s) "
    f"{_IF_OWNED} AND EXISTS (SELECT 1 FROM head) RETURNING assistant_message_id) "
    "UPDATE stitchkit_django_message SET status = 'streaming', parts = %s, "
    "updated_at = clock_timestamp() FROM run "
    "WHERE conversation_id = %s AND message_id = run.assistant_message_id"
)

_TEXTS: Final = "message_id, run_id, role, status, parts, metadata, replaced_by"
_COLUMNS: Final = f"{_TEXTS}, schema_version, turn, slot, created_at, updated_at, archived_at"
_ACTIVE: Final = "FROM stitchkit_django_message WHERE conversation_id = %s AND active = 1"
_BACKWARDS: Final = "ORDER BY turn DESC, slot DESC LIMIT %s"
NEWEST_TEXTS: Final = f"SELECT {_TEXTS} {_ACTIVE} {_BACKWARDS}"
NEWEST: Final = f"SELECT {_COLUMNS} {_ACTIVE} {_BACKWARDS}"
ALL_TEXTS: Final = f"SELECT {_TEXTS} {_ACTIVE} ORDER BY turn, slot"
ALL: Final = f"SELECT {_COLUMNS} {_ACTIVE} ORDER BY turn, slot"
_NAMED: Final = (
    "FROM stitchkit_django_run r WHERE r.conversation_id = %s AND (r.active = 1 OR EXISTS ("
    "SELECT 1 FROM stitchkit_django_message m WHERE m.conversation_id = r.conversation_id "
    "AND m.message_id = r.assistant_message_id AND m.active = 1))"
)
ALL_RUN_TEXTS: Final = (
    "SELECT r.run_id, r.assistant_message_id, r.input_message_ids, r.state, r.owner_id, "
    "r.terminal_reason, r.terminal_policy_name, r.terminal_detail, r.absorbed_into_run_id, "
    f"r.usage {_NAMED}"
)
ALL_RUNS: Final = f"SELECT {_RUN}, r.run_id {_NAMED}"
INPUTS: Final = 2
"""Where the ids of a run's inputs stand in both."""
SCAN: Final = (
    f"SELECT clock_timestamp(), {_RUN}, r.conversation_id, r.id FROM stitchkit_django_run r "
    "WHERE r.active = 1 AND r.id > %s ORDER BY r.id LIMIT %s"
)
KEY: Final = -1
"""Where the surrogate key stands in its rows."""
