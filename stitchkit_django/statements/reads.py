"""What is read: the lock, the facts of an operation, and the bounded reads; no write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from stitchkit_django.core.driver import AssistantWanted
from stitchkit_django.core.records import SCHEMA_VERSION
from stitchkit_django.models import Conversation
from stitchkit_django.statements import rows
from stitchkit_django.statements.tables import Piece, Statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from stitchkit_django.core.driver import Place, ReadSet
    from stitchkit_django.statements.tables import Tables

_HEAD: Final = Piece("head", "head", rows.HEAD, "FROM {head} WHERE {head.conversation_id} = %s")

_RECEIPT_KEY: Final = "WHERE {receipt.conversation_id} = %s AND {receipt.idempotency_key} = %s"
# The receipt of a key, its run, and the run that absorbed that one.
_ADMISSION: Final = (
    Piece("receipt", "receipt", rows.RECEIPT, "FROM {receipt} " + _RECEIPT_KEY),
    Piece(
        "receipt_run",
        "run",
        rows.STORED_RUN,
        "FROM {receipt} JOIN {run} ON {run.conversation_id} = {receipt.conversation_id} "
        "AND {run.run_id} = {receipt.run_id} " + _RECEIPT_KEY,
    ),
    Piece(
        "absorber",
        "run",
        rows.STORED_RUN,
        "FROM {receipt} JOIN {absorbed} ON {absorbed.conversation_id} = {receipt.conversation_id} "
        "AND {absorbed.run_id} = {receipt.run_id} "
        "JOIN {run} ON {run.conversation_id} = {absorbed.conversation_id} "
        "AND {run.run_id} = {absorbed.absorbed_into_run_id} " + _RECEIPT_KEY,
    ),
)

_RUN_KEY: Final = "WHERE {run.conversation_id} = %s AND {run.run_id} = %s"
_RUN: Final = Piece("run", "run", rows.RUN, "FROM {run} " + _RUN_KEY)
_STORED_RUN: Final = Piece("run", "run", rows.STORED_RUN, "FROM {run} " + _RUN_KEY)
_ANSWER: Final = (
    "FROM {run} JOIN {message} ON {message.conversation_id} = {run.conversation_id} "
    "AND {message.message_id} = {run.assistant_message_id} "
)
_ASSISTANTS: Final = {
    AssistantWanted.OUTLINE: Piece("outline", "message", rows.OUTLINE, _ANSWER + _RUN_KEY),
    AssistantWanted.WHOLE: Piece("assistant", "message", rows.MESSAGE, _ANSWER + _RUN_KEY),
}
_RUN_KEYS: Final = "WHERE {run.conversation_id} = %s AND {run.run_id} IN ({{marks}})"
# More runs, and which of them have an assistant message.
_OTHERS: Final = (
    Piece("other", "run", rows.RUN, "FROM {run} " + _RUN_KEYS),
    Piece("answered", "run", rows.RUN_ID, _ANSWER + _RUN_KEYS),
)

_ACTIVE_RUNS: Final = "FROM {run} WHERE {run.conversation_id} = %s AND {run.active} = 1"
_ACTIVE: Final = Piece("active", "run", rows.RUN, _ACTIVE_RUNS)
_FIRST_ACTIVE: Final = Piece(
    "first_active", "run", rows.RUN, _ACTIVE_RUNS + " ORDER BY {run.turn} LIMIT 1"
)

# Which new ids are taken: by a message (archived too), by a receipt whose message is gone, or
# reserved for an answer.
_TAKEN: Final = (
    Piece(
        "taken",
        "message",
        rows.MESSAGE_ID,
        "FROM {message} WHERE {message.conversation_id} = %s "
        "AND {message.message_id} IN ({{marks}})",
    ),
    Piece(
        "taken",
        "receipt",
        rows.INPUT_MESSAGE_ID,
        "FROM {receipt} WHERE {receipt.conversation_id} = %s "
        "AND {receipt.input_message_id} IN ({{marks}})",
    ),
    Piece(
        "taken",
        "run",
        rows.ASSISTANT_MESSAGE_ID,
        "FROM {run} WHERE {run.conversation_id} = %s AND {run.assistant_message_id} IN ({{marks}})",
    ),
)
_TAKEN_RUN: Final = Piece("taken", "run", rows.RUN_ID, "FROM {run} " + _RUN_KEY)

_ACTIVE_MESSAGES: Final = (
    "FROM {message} WHERE {message.conversation_id} = %s AND {message.active} = 1"
)
_MEMBERS: Final = Piece(
    "member",
    "message",
    rows.MEMBER,
    _ACTIVE_MESSAGES + " AND {message.message_id} IN ({{marks}})",
)
_COUNT_BETWEEN: Final = (
    "SELECT COUNT(*) FROM (SELECT 1 " + _ACTIVE_MESSAGES + " "
    "AND ({message.turn}, {message.slot}) >= (%s, %s) "
    "AND ({message.turn}, {message.slot}) <= (%s, %s) LIMIT %s) AS passed"
)
_BACKWARDS: Final = " ORDER BY {message.turn} DESC, {message.slot} DESC LIMIT %s"
_NEWEST: Final = Piece("message", "message", rows.MESSAGE, _ACTIVE_MESSAGES + _BACKWARDS)
_OLDER: Final = Piece(
    "message",
    "message",
    rows.MESSAGE,
    _ACTIVE_MESSAGES + " AND ({message.turn}, {message.slot}) < (%s, %s)" + _BACKWARDS,
)
_HISTORY: Final = Piece("message", "message", rows.MESSAGE, _ACTIVE_MESSAGES)
# Runs that have ended and whose answer still stands in the active history.
_NAMED_RUNS: Final = Piece(
    "run",
    "run",
    rows.RUN,
    "FROM {run} WHERE {run.conversation_id} = %s AND {run.active} IS NULL "
    "AND {run.run_id} IN (SELECT {message.run_id} " + _ACTIVE_MESSAGES + ")",
)

_SCAN_ACTIVE: Final = Piece(
    "run",
    "run",
    rows.SCANNED_RUN,
    "FROM {run} WHERE {run.active} = 1 AND {run.id} > %s ORDER BY {run.id} LIMIT %s",
)
_SCAN_ENDED: Final = Piece(
    "run",
    "run",
    rows.SCANNED_RUN,
    "FROM {run} WHERE {run.active} IS NULL AND {run.ended_at} < %s AND {run.id} > %s "
    "ORDER BY {run.id} LIMIT %s",
)

_EVERYTHING: Final = (
    _HEAD,
    Piece("run", "run", rows.STORED_RUN, "FROM {run} WHERE {run.conversation_id} = %s"),
    Piece(
        "receipt", "receipt", rows.RECEIPT, "FROM {receipt} WHERE {receipt.conversation_id} = %s"
    ),
    Piece(
        "message", "message", rows.MESSAGE, "FROM {message} WHERE {message.conversation_id} = %s"
    ),
)

HEAD_FIELDS: Final = ("schema_version", "version", "updated_at", "purged_at")


class ReadStatements:
    """The reads of one database alias; each method gives a statement."""

    def __init__(self, tables: Tables) -> None:
        """Build the texts that never change."""
        self._tables = tables
        self._dialect = tables.dialect
        clock = tables.clock()
        self._snapshot = tables.union(_HEAD, _HISTORY, _ACTIVE, _NAMED_RUNS)
        self._load_run = f"{clock} UNION ALL {tables.union(_HEAD, _STORED_RUN)}"
        self._active_runs = tables.union(_HEAD, _ACTIVE)
        self._newest = tables.union(_HEAD, _NEWEST)
        self._older = tables.union(_HEAD, _OLDER)
        self._scan_active = f"{clock} UNION ALL {tables.union(_SCAN_ACTIVE)}"
        self._scan_ended = f"{clock} UNION ALL {tables.union(_SCAN_ENDED)}"
        self._rows = tables.union(*_EVERYTHING)
        self._members = tables.select(_MEMBERS)
        self._count_between = tables.sql(_COUNT_BETWEEN)
        self._make_head = self._insert_or_lock()
        self._lock_sql: str | None = None
        self._selects: dict[Piece, str] = {}
        self._clock = clock

    def lock(self, conversation_id: str) -> Statement:
        """Lock the head and give it; no row where there is none.

        It is locked alone and before any fact is read: a join that waited for the lock would give
        a fresh head with stale children.
        """
        if self._lock_sql is None:
            self._lock_sql = (
                self._locking_select() if self._dialect.locks_rows else self._locking_update()
            )
        return Statement(self._lock_sql, (conversation_id,))

    def make_head(self, conversation_id: str) -> Statement:
        """Insert the head of a new conversation, or lock the one that has come meanwhile."""
        moment = self._dialect.adapted(self._dialect.now())
        return Statement(self._make_head, (conversation_id, SCHEMA_VERSION, 0, moment))

    def facts(self, wanted: ReadSet) -> Statement:
        """Read the moment and all that an operation wants, but for a range of messages."""
        selects = [self._clock]
        parameters: list[str] = []
        for piece, keys in _wanted_pieces(wanted):
            selects.append(self._select(piece).replace("{marks}", marks(keys)))
            parameters += (wanted.conversation_id, *keys)
        return Statement(" UNION ALL ".join(selects), parameters)

    def members(self, conversation_id: str, identities: Sequence[str]) -> Statement:
        """Read the active messages of these ids, without their bodies."""
        sql = self._members.replace("{marks}", marks(identities))
        return Statement(sql, (conversation_id, *identities))

    def count_between(
        self, conversation_id: str, first: Place, last: Place, most: int
    ) -> Statement:
        """Count the active messages from one place to another, no further than `most`."""
        return Statement(self._count_between, (conversation_id, *first, *last, most))

    def snapshot(self, conversation_id: str) -> Statement:
        """Read the head, the active messages, and the runs that are active or named by one."""
        return Statement(self._snapshot, (conversation_id,) * 5)

    def run(self, conversation_id: str, run_id: str) -> Statement:
        """Read the moment, the head, and one run with its answer."""
        return Statement(self._load_run, (conversation_id, conversation_id, run_id))

    def active_runs(self, conversation_id: str) -> Statement:
        """Read the head and the active runs."""
        return Statement(self._active_runs, (conversation_id,) * 2)

    def messages(self, conversation_id: str, before: Place | None, limit: int) -> Statement:
        """Read the head and the last active messages before a place."""
        if before is None:
            return Statement(self._newest, (conversation_id, conversation_id, limit))
        return Statement(self._older, (conversation_id, conversation_id, *before, limit))

    def scan_active(self, cursor: int, limit: int) -> Statement:
        """Read the moment and the next active runs by surrogate key."""
        return Statement(self._scan_active, (cursor, limit))

    def scan_ended(self, before: datetime, cursor: int, limit: int) -> Statement:
        """Read the moment and the next runs that ended before a moment, by surrogate key."""
        return Statement(self._scan_ended, (self._dialect.adapted(before), cursor, limit))

    def rows(self, conversation_id: str) -> Statement:
        """Read everything that a conversation has."""
        return Statement(self._rows, (conversation_id,) * len(_EVERYTHING))

    def _select(self, piece: Piece) -> str:
        if piece not in self._selects:
            self._selects[piece] = self._tables.select(piece)
        return self._selects[piece]

    def _locking_select(self) -> str:
        # Compiled by the alias's own compiler, and inside a transaction: outside one, or for
        # another alias, Django drops the clause or refuses it.
        alias = self._dialect.using
        no_key = connections[alias].features.has_select_for_no_key_update
        heads = Conversation.objects.using(alias).select_for_update(no_key=no_key)
        query: Any = heads.filter(pk="").values_list(*HEAD_FIELDS).query
        sql, _ = query.get_compiler(using=alias).as_sql()
        return str(sql)

    def _locking_update(self) -> str:
        # Takes the writer's slot before anything is read: a transaction that has read first can
        # not write any more once another one has written.
        head = self._tables["head"]
        version = head.columns(["version"])
        return self._tables.sql(
            f"UPDATE {{head}} SET {version} = {version} WHERE {{head.conversation_id}} = %s "
            f"RETURNING {head.columns(HEAD_FIELDS)}"
        )

    def _insert_or_lock(self) -> str:
        # The conflict's update changes nothing but locks the row that another transaction has
        # inserted, after waiting for it; an insert that does nothing would lock none.
        head = self._tables["head"]
        inserted = ("conversation_id", "schema_version", "version", "updated_at")
        version = head.columns(["version"])
        return self._tables.sql(
            f"INSERT INTO {{head}} ({head.columns(inserted)}) VALUES ({marks(inserted)}) "
            f"ON CONFLICT ({head.columns(['conversation_id'])}) "
            f"DO UPDATE SET {version} = {{head.version}} RETURNING {head.columns(HEAD_FIELDS)}"
        )


def _wanted_pieces(wanted: ReadSet) -> Iterator[tuple[Piece, Sequence[str]]]:
    # Each piece with its keys beside the conversation's id.
    if wanted.idempotency_key is not None:
        yield from ((piece, (wanted.idempotency_key,)) for piece in _ADMISSION)
    if wanted.run_id is not None:
        yield _RUN, (wanted.run_id,)
        if wanted.assistant is not None:
            yield _ASSISTANTS[wanted.assistant], (wanted.run_id,)
    if wanted.other_run_ids:
        yield from ((piece, wanted.other_run_ids) for piece in _OTHERS)
    if wanted.first_active:
        yield _FIRST_ACTIVE, ()
    if wanted.all_active:
        yield _ACTIVE, ()
    if wanted.new_message_ids:
        yield from ((piece, wanted.new_message_ids) for piece in _TAKEN)
    if wanted.new_run_id is not None:
        yield _TAKEN_RUN, (wanted.new_run_id,)


def marks(values: Sequence[object]) -> str:
    """Give as many parameters as there are values."""
    return ", ".join(["%s"] * len(values))
