"""What is read: the lock, the facts of an operation, and the bounded reads; no write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from stitchkit_django.core.driver import AssistantWanted
from stitchkit_django.core.records import SCHEMA_VERSION
from stitchkit_django.statements import rows
from stitchkit_django.statements.tables import Piece, Statement, Union

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stitchkit_django.core.driver import Place, ReadSet
    from stitchkit_django.statements.tables import Tables

_HEAD: Final = Piece("head", "head", rows.HEAD, "FROM {head} WHERE {head.conversation_id} = %s")

_RUN_KEY: Final = "WHERE {run.conversation_id} = {unseen} AND {run.run_id} = %s"
_RUN: Final = Piece("run", "run", rows.RUN, "FROM {run} " + _RUN_KEY)
_STORED_RUN: Final = Piece("run", "run", rows.STORED_RUN, "FROM {run} " + _RUN_KEY)
# One row while there is a head; its run is null where there is no such run.
_LOADED_RUN: Final = Piece(
    "run",
    "run",
    rows.STORED_RUN,
    "FROM {head} LEFT JOIN {run} ON {run.conversation_id} = {head.conversation_id} "
    "AND {run.run_id} = %s WHERE {head.conversation_id} = {unseen}",
    extras=tuple(f"{{head.{field}}}" for field in rows.HEAD_FIELDS),
)
_ANSWER: Final = (
    "JOIN {message} ON {message.conversation_id} = {run.conversation_id} "
    "AND {message.message_id} = {run.assistant_message_id} "
)
# Behind a run: the moment, who is first in the queue, what its assistant message may pass on.
_OUTLINE: Final = ("schema_version", "created_at", "metadata")
_FIRST_ACTIVE: Final = (
    "(SELECT {queued.run_id} FROM {queued} WHERE {queued.conversation_id} = "
    "{run.conversation_id} AND {queued.active} = 1 ORDER BY {queued.turn} LIMIT 1)"
)
_RUN_KEYS: Final = "WHERE {run.conversation_id} = {unseen} AND {run.run_id} IN ({{marks}})"
# More runs, and which of them have an assistant message.
_OTHERS: Final = (
    Piece("other", "run", rows.RUN, "FROM {run} " + _RUN_KEYS),
    Piece("answered", "run", rows.RUN_ID, "FROM {run} " + _ANSWER + _RUN_KEYS),
)

_ACTIVE_RUNS: Final = "FROM {run} WHERE {run.conversation_id} = {unseen} AND {run.active} = 1"
_ACTIVE: Final = Piece("active", "run", rows.RUN, _ACTIVE_RUNS)

# What an admission asks of other rows, each as one truth value: a union of them takes a planner
# twice as long.
_KNOWN_KEY: Final = (
    "EXISTS (SELECT 1 FROM {receipt} WHERE {receipt.conversation_id} = {unseen} "
    "AND {receipt.idempotency_key} = %s)"
)
# Whether a new id is taken: by a message (archived too), by a receipt whose message is gone, or
# reserved for an answer. Each id is looked up by itself: for several at once a planner may rather
# walk all ids of a conversation that it takes for short.
_TAKEN_MESSAGE_ID: Final = (
    "(EXISTS (SELECT 1 FROM {message} WHERE {message.conversation_id} = {unseen} "
    "AND {message.message_id} = %s) "
    "OR EXISTS (SELECT 1 FROM {receipt} WHERE {receipt.conversation_id} = {unseen} "
    "AND {receipt.input_message_id} = %s) "
    "OR EXISTS (SELECT 1 FROM {run} WHERE {run.conversation_id} = {unseen} "
    "AND {run.assistant_message_id} = %s))"
)
_FALSE: Final = "FALSE"
_TAKEN_RUN_ID: Final = "EXISTS (SELECT 1 FROM {run} " + _RUN_KEY + ")"
# One row, whether or not there is such a run: what is asked beside it stands in the same one.
_RUN_OR_NONE: Final = (
    "FROM (SELECT 1 AS one) AS always LEFT JOIN {run} "
    "ON {run.conversation_id} = {unseen} AND {run.run_id} = %s"
)
# A receipt, and the run that it names.
_RECEIPT: Final = Piece(
    "receipt",
    "run",
    rows.STORED_RUN,
    "FROM {receipt} LEFT JOIN {run} ON {run.conversation_id} = {receipt.conversation_id} "
    "AND {run.run_id} = {receipt.run_id} "
    "WHERE {receipt.conversation_id} = {unseen} AND {receipt.idempotency_key} = %s",
    extras=tuple(f"{{receipt.{field}}}" for field in rows.RECEIPT_FIELDS),
)

_ACTIVE_MESSAGES: Final = (
    "FROM {message} WHERE {message.conversation_id} = {unseen} AND {message.active} = 1"
)
# By `archived_at IS NULL`: with `active = 1` the index of the places, which walks all active ones,
# would seem as good as the one of the ids.
_MEMBERS: Final = Piece(
    "member",
    "message",
    rows.MEMBER,
    "FROM {message} WHERE {message.conversation_id} = {unseen} "
    "AND {message.message_id} IN ({{marks}}) AND {message.archived_at} IS NULL",
)
_COUNT_BETWEEN: Final = (
    "SELECT COUNT(*) FROM (SELECT 1 " + _ACTIVE_MESSAGES + " "
    "AND ({message.turn}, {message.slot}) >= (%s, %s) "
    "AND ({message.turn}, {message.slot}) <= (%s, %s) "
    "ORDER BY {message.turn}, {message.slot} LIMIT {unseen}) AS passed"
)
_BACKWARDS: Final = " ORDER BY {message.turn} DESC, {message.slot} DESC LIMIT {unseen}"
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
    "FROM {run} " + _ANSWER + "WHERE {run.conversation_id} = {unseen} "
    "AND {run.active} IS NULL AND {message.archived_at} IS NULL",
)

_SCAN_ACTIVE: Final = Piece(
    "run",
    "run",
    rows.SCANNED_RUN,
    "FROM {run} WHERE {run.active} = 1 AND {run.id} > %s ORDER BY {run.id} LIMIT {unseen}",
)
_SCAN_ENDED: Final = Piece(
    "run",
    "run",
    rows.SCANNED_RUN,
    "FROM {run} WHERE {run.active} IS NULL AND {run.ended_at} < %s AND {run.id} > %s "
    "ORDER BY {run.id} LIMIT {unseen}",
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


class ReadStatements:
    """The reads of one database alias; each method gives a statement."""

    def __init__(self, tables: Tables) -> None:
        """Build the texts that never change."""
        self._tables = tables
        self._dialect = tables.dialect
        self._snapshot = tables.union(_HEAD, _HISTORY, _ACTIVE, _NAMED_RUNS, full=True)
        self._loaded_run = tables.select(
            _LOADED_RUN._replace(extras=(tables.dialect.clock, *_LOADED_RUN.extras))
        )
        self._stored_run = tables.select(_STORED_RUN)
        self._receipt = tables.select(_RECEIPT)
        self._queue = tables.union(_ACTIVE, clock=True)
        self._active_runs = tables.union(_HEAD, _ACTIVE)
        self._newest = tables.union(_HEAD, _NEWEST, full=True)
        self._older = tables.union(_HEAD, _OLDER, full=True)
        self._scan_active = tables.union(_SCAN_ACTIVE, clock=True)
        self._scan_ended = tables.union(_SCAN_ENDED, clock=True)
        self._rows = tables.union(*_EVERYTHING, full=True)
        self._members = tables.select(_MEMBERS)
        self._count_between = tables.sql(_COUNT_BETWEEN)
        self._make_head = self._insert_or_lock()
        self._one_run = {
            (assistant, first_active): self._run_facts(assistant, first_active=first_active)
            for assistant in (None, *AssistantWanted)
            for first_active in (False, True)
        }
        self._others = tables.union(*_OTHERS)
        self._admissions: dict[tuple[bool, bool, int, bool], str] = {}
        self._lock_sql: str | None = None

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

    def run_facts(self, wanted: ReadSet) -> Statement:
        """Read the run that an operation is about, in one row with all that it needs beside it.

        Behind the lanes: the moment, the id of the first active run, or null where it isn't wanted,
        and what is wanted of the assistant message: schema version, creation, metadata, parts.
        """
        sql = self._one_run[wanted.assistant, wanted.first_active]
        return Statement(sql, (wanted.conversation_id, wanted.run_id))

    def admission(self, wanted: ReadSet) -> Statement:
        """Read, in one row, what new rows and a run to join want.

        Behind the lanes of the run, which are there only if one is wanted: the moment, whether the
        key is known, whether each new message id is taken, whether the new run id is.
        """
        shape = (
            wanted.run_id is not None,
            wanted.idempotency_key is not None,
            len(wanted.new_message_ids),
            wanted.new_run_id is not None,
        )
        if shape not in self._admissions:
            self._admissions[shape] = self._admission(*shape)
        where = wanted.conversation_id
        parameters: list[str] = []
        if wanted.idempotency_key is not None:
            parameters += (where, wanted.idempotency_key)
        for identity in wanted.new_message_ids:
            parameters += (where, identity) * 3
        for run_id in (wanted.new_run_id, wanted.run_id):
            if run_id is not None:
                parameters += (where, run_id)
        return Statement(self._admissions[shape], parameters)

    def receipt(self, conversation_id: str, idempotency_key: str) -> Statement:
        """Read a run with its answer, and behind the lanes the receipt that names it."""
        return Statement(self._receipt, (conversation_id, idempotency_key))

    def queue(self, conversation_id: str) -> Statement:
        """Read the moment and the active runs."""
        return _filled(self._queue, (conversation_id,))

    def stored_run(self, conversation_id: str, run_id: str) -> Statement:
        """Read one run with its answer."""
        return Statement(self._stored_run, (conversation_id, run_id))

    def others(self, conversation_id: str, run_ids: Sequence[str]) -> Statement:
        """Read more runs, and which of them have an assistant message."""
        sql, widths = self._others
        parameters = (conversation_id, *run_ids) * len(_OTHERS)
        return Statement(sql.replace("{marks}", marks(run_ids)), parameters, widths)

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
        return _filled(self._snapshot, (conversation_id,) * 4)

    def run(self, conversation_id: str, run_id: str) -> Statement:
        """Read one run with its answer, and behind the lanes the moment and the head."""
        return Statement(self._loaded_run, (run_id, conversation_id))

    def active_runs(self, conversation_id: str) -> Statement:
        """Read the head and the active runs."""
        return _filled(self._active_runs, (conversation_id,) * 2)

    def messages(self, conversation_id: str, before: Place | None, limit: int) -> Statement:
        """Read the head and the last active messages before a place."""
        if before is None:
            return _filled(self._newest, (conversation_id, conversation_id, limit))
        return _filled(self._older, (conversation_id, conversation_id, *before, limit))

    def scan_active(self, cursor: int, limit: int) -> Statement:
        """Read the moment and the next active runs by surrogate key."""
        return _filled(self._scan_active, (cursor, limit))

    def scan_ended(self, before: datetime, cursor: int, limit: int) -> Statement:
        """Read the moment and the next runs that ended before a moment, by surrogate key."""
        return _filled(self._scan_ended, (self._dialect.adapted(before), cursor, limit))

    def rows(self, conversation_id: str) -> Statement:
        """Read everything that a conversation has."""
        return _filled(self._rows, (conversation_id,) * len(_EVERYTHING))

    def _admission(self, joins: bool, has_key: bool, messages: int, has_run: bool) -> str:  # noqa: FBT001 - the shape of a read set
        extras = [self._dialect.clock]
        extras += [_KNOWN_KEY if has_key else _FALSE]
        extras += [_TAKEN_MESSAGE_ID] * messages
        extras += [_TAKEN_RUN_ID if has_run else _FALSE]
        if joins:
            return self._tables.select(_RUN._replace(body=_RUN_OR_NONE, extras=tuple(extras)))
        return self._tables.sql(f"SELECT {', '.join(extras)}")

    def _run_facts(self, assistant: AssistantWanted | None, *, first_active: bool) -> str:
        fields: tuple[str, ...] = () if assistant is None else _OUTLINE
        if assistant is AssistantWanted.WHOLE:
            fields = (*fields, "parts")
        first = _FIRST_ACTIVE if first_active else self._dialect.nulls["text"]
        answer = [f"{{message.{field}}}" for field in fields]
        joined = f"LEFT {_ANSWER}" if fields else ""
        extras = (self._dialect.clock, first, *answer)
        return self._tables.select(
            _RUN._replace(body=f"FROM {{run}} {joined}{_RUN_KEY}", extras=extras)
        )

    def _locking_select(self) -> str:
        # Compiled by the alias's own compiler, and inside a transaction: outside one, or for
        # another alias, Django drops the clause or refuses it.
        alias = self._dialect.using
        no_key = connections[alias].features.has_select_for_no_key_update
        host = self._tables.hosts["head"]
        where, *fields = host.own("conversation_id", *rows.HEAD_FIELDS)
        heads = host.rows(alias).select_for_update(no_key=no_key).filter(**{where: ""})
        query: Any = heads.values_list(*fields).query
        sql, _ = query.get_compiler(using=alias).as_sql()
        return str(sql)

    def _locking_update(self) -> str:
        # Takes the writer's slot before anything is read: a transaction that has read first can
        # not write any more once another one has written.
        head = self._tables["head"]
        version = head.columns(["version"])
        return self._tables.sql(
            f"UPDATE {{head}} SET {version} = {version} WHERE {{head.conversation_id}} = %s "
            f"RETURNING {head.columns(rows.HEAD_FIELDS)}"
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
            f"DO UPDATE SET {version} = {{head.version}} RETURNING {head.columns(rows.HEAD_FIELDS)}"
        )


def _filled(union: Union, parameters: Sequence[Any]) -> Statement:
    return Statement(union.sql, parameters, union.widths)


def marks(values: Sequence[object]) -> str:
    """Give as many parameters as there are values."""
    return ", ".join(["%s"] * len(values))
