"""What is written, each statement guarded by the head's version or by the run's own state."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stitchkit_django.core import wire
from stitchkit_django.core.driver import InsertMessage, PlacedMessage, UpdateMessage
from stitchkit_django.core.records import SCHEMA_VERSION
from stitchkit_django.statements.reads import marks
from stitchkit_django.statements.tables import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from stitchkit_django.core import records
    from stitchkit_django.core.driver import (
        Place,
        ReplaceRange,
        RunGuard,
        RunWrite,
        WriteSet,
    )
    from stitchkit_django.core.usage import Usage
    from stitchkit_django.statements.tables import Table, Tables

# What of a run changes after its admission, and the columns that hold it.
_RUN_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "input_message_ids": ("input_message_ids",),
        "state": ("state",),
        "revision": ("revision",),
        "owner_id": ("owner_id",),
        "fencing_token": ("fencing_token",),
        "terminal_reason": ("terminal_reason",),
        "terminal_policy_name": ("terminal_policy_name",),
        "terminal_detail": ("terminal_detail",),
        "absorbed_into_run_id": ("absorbed_into_run_id",),
        "usage": ("usage", "cost_amount", "cost_currency"),
        "updated_at": ("updated_at",),
        "acquired_at": ("acquired_at",),
        "ended_at": ("ended_at",),
    }
)
_ANSWER: Final = "terminal_assistant"
_RUN_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = MappingProxyType(
    {
        "input_message_ids": wire.IDENTIFIERS.encode,
        "state": str,
        "terminal_reason": str,
        "terminal_detail": wire.TEXT.encode,
    }
)
_RUN_MOMENTS: Final = frozenset({"updated_at", "acquired_at", "ended_at"})
_RUN_LEASE: Final = ("lease_seconds", "lease_expires_at")
_RUN_BEGINNING: Final = (
    "conversation_id",
    "run_id",
    "schema_version",
    "turn",
    "assistant_message_id",
    "created_at",
)
_MESSAGE_CHANGES: Final = ("status", "parts", "metadata", "updated_at")
_MESSAGE_BEGINNING: Final = (
    "conversation_id",
    "message_id",
    "schema_version",
    "turn",
    "slot",
    "run_id",
    "role",
    "created_at",
)
_ARCHIVED: Final = ("archived_at", "replaced_by")
_RECEIPT: Final = (
    "conversation_id",
    "idempotency_key",
    "schema_version",
    "input",
    "input_message_id",
    "run_id",
    "assistant_message_id",
    "created_at",
)
_HEAD: Final = ("version", "updated_at", "purged_at")

_RANGE: Final = (
    "WHERE {message.conversation_id} = {unseen} AND {message.active} = 1 "
    "AND ({message.turn}, {message.slot}) >= (%s, %s) "
    "AND ({message.turn}, {message.slot}) <= (%s, %s)"
)


class Following(NamedTuple):
    """A write that follows the guarded ones."""

    sql: str
    """Alone, after the head has been written."""
    combined: str
    """As a part of a combined write: it happens if the head is written there."""
    parameters: Sequence[Any]
    """The same for both."""


class _Texts(NamedTuple):
    alone: str
    combined: str


# In a combined write the head is the last of the guarded parts.
_IF_HEAD: Final = "EXISTS (SELECT 1 FROM guarded_0)"


class WriteStatements:
    """The writes of one database alias; each method gives a statement."""

    def __init__(self, tables: Tables) -> None:
        """Build the texts that never change."""
        self._dialect = tables.dialect
        self._moment = tables.dialect.adapted
        self._build_runs(tables)
        head, message = tables["head"], tables["message"]
        self._update_head = tables.sql(
            f"UPDATE {{head}} SET {head.assignments(_HEAD)} "
            "WHERE {head.conversation_id} = %s AND {head.version} = %s"
        )
        self._insert_receipt = _insert(tables["receipt"], _RECEIPT)
        self._insert_message = _insert(message, _MESSAGE_BEGINNING + _MESSAGE_CHANGES + _ARCHIVED)
        one_message = "WHERE {message.conversation_id} = {unseen} AND {message.message_id} = %s"
        update_message = tables.sql(
            f"UPDATE {{message}} SET {message.assignments(_MESSAGE_CHANGES)} {one_message}"
        )
        self._update_message = _Texts(update_message, f"{update_message} AND {_IF_HEAD}")
        self._move_message = tables.sql(
            f"UPDATE {{message}} SET {message.assignments(['turn', 'slot'])} {one_message} "
            "AND {message.archived_at} IS NULL"
        )
        archived = message.assignments(_ARCHIVED)
        self._archive_range = tables.sql(f"UPDATE {{message}} SET {archived} {_RANGE}")
        self._delete_range = tables.sql(f"DELETE FROM {{message}} {_RANGE}")
        self._delete_all = [
            tables.sql(f"DELETE FROM {{{name}}} WHERE {{{name}.conversation_id}} = %s")
            for name in ("message", "receipt", "run")
        ]

    def _build_runs(self, tables: Tables) -> None:
        run, same = tables["run"], tables.dialect.is_same
        self._insert_run = _insert(
            run, [*_RUN_BEGINNING, *_columns(_RUN_COLUMNS), _ANSWER, *_RUN_LEASE]
        )
        # As the run was read, and the head too: guarded by the version alone, a worker with a
        # stale fence would still write.
        self._guard = (
            f"{{run.conversation_id}} = {{unseen}} AND {{run.run_id}} = %s "
            f"AND {{run.revision}} = %s "
            f"AND {{run.owner_id}} {same} %s AND {{run.fencing_token}} {same} %s"
        )
        self._run_and_head = tables.sql(
            f"WHERE {self._guard} AND EXISTS (SELECT 1 FROM {{head}} "
            "WHERE {head.conversation_id} = %s AND {head.version} = %s)"
        )
        self._lease_guard = tables.sql(f" AND {{run.lease_expires_at}} {same} %s")
        self._run = run
        self._update_run: dict[tuple[object, ...], str] = {}
        self._count_guarded = tables.sql("SELECT COUNT(*) FROM {run} WHERE ")
        self._one_guarded = tables.sql(f"({self._guard})")
        self._renew = tables.sql(
            f"UPDATE {{run}} SET {run.assignments(_RUN_LEASE)} "
            "WHERE {run.conversation_id} = {unseen} AND {run.run_id} = %s AND {run.state} = %s "
            "AND {run.owner_id} = %s AND {run.fencing_token} = %s"
        )

    def guarded(self, changes: WriteSet) -> list[Statement]:
        """Give the writes that tell whether all is as it was read: guarded runs, then the head.

        Each changes one row, or none where its run or the head has moved.
        """
        version = changes.expected_version
        statements = [
            self.update_run(write, write.guard, version)
            for write in changes.runs
            if write.guard is not None
        ]
        return [*statements, self.update_head(changes.head, version)]

    def following(self, changes: WriteSet) -> list[Following]:
        """Give the writes that follow the guarded ones: new runs, the receipt, single messages."""
        statements = [
            self.insert_run(write.run, write.answer)
            for write in changes.runs
            if write.guard is None
        ]
        if changes.receipt is not None:
            statements.append(self.insert_receipt(changes.receipt))
        for mutation in changes.history:
            if isinstance(mutation, InsertMessage):
                placed = PlacedMessage(message=mutation.message, place=mutation.place)
                statements.append(self.insert_message(placed))
            elif isinstance(mutation, UpdateMessage):
                statements.append(self.update_message(mutation.message))
        return statements

    def combined(self, changes: WriteSet) -> Statement:
        """Combine the guarded writes and those that follow into one statement.

        It gives one row: 1, or 0 when the head or a guarded run was not as it was read. Each part
        hangs on the one before it: the head on the guarded runs, all else on the head. The parts
        see the tables as they were before the statement, so what must follow another write to the
        same rows (a summary after the range that it replaces) is not among them.
        """
        parts: list[str] = []
        values: list[object] = []
        condition = ""
        guarded = self.guarded(changes)
        for number, statement in enumerate(guarded, 1 - len(guarded)):
            # The last, number 0, is the head.
            name = f"guarded_{-number}"
            parts.append(f"{name} AS ({statement.sql}{condition} RETURNING 1)")
            values += statement.parameters
            condition = f" AND EXISTS (SELECT 1 FROM {name})"
        for number, following in enumerate(self.following(changes)):
            parts.append(f"following_{number} AS ({following.combined})")
            values += following.parameters
        return Statement(f"WITH {', '.join(parts)} SELECT COUNT(*) FROM guarded_0", values)

    def update_head(self, head: records.Head, expected_version: int) -> Statement:
        """Swap the head's version; no row where it has moved."""
        values = (head.version, self._moment(head.updated_at), self._moment(head.purged_at))
        key = (head.conversation_id, expected_version)
        return Statement(self._update_head, (*values, *key))

    def insert_run(self, run: records.Run, answer: records.Message | None) -> Following:
        """Insert a run, with its answer if it has ended."""
        values = (
            run.conversation_id,
            run.id,
            SCHEMA_VERSION,
            run.turn,
            run.assistant_message_id,
            self._moment(run.created_at),
            *self._run_values(run, _RUN_COLUMNS),
            None if answer is None else wire.MESSAGE.encode(answer),
            *self._lease(run),
        )
        return Following(*self._insert_run, values)

    def update_run(self, write: RunWrite, guard: RunGuard, expected_version: int) -> Statement:
        """Change what has changed of a run; no row where it, or the head, is not as it was read."""
        run, changed = write.run, write.changed
        # In one order, so that the same fields make the same statement.
        fields = [field for field in _RUN_COLUMNS if changed is None or field in changed]
        values = [*self._run_values(run, fields)]
        if write.answer is not None:
            values.append(wire.MESSAGE.encode(write.answer))
        if write.lease:
            values += self._lease(run)
        values += self._guarded(run, guard)
        values += (run.conversation_id, expected_version)
        if guard.lease:
            values.append(self._moment(guard.lease_expires_at))
        return Statement(self._run_update(fields, write, guard), values)

    def _run_update(self, fields: Sequence[str], write: RunWrite, guard: RunGuard) -> str:
        shape = (*fields, write.answer is not None, write.lease, guard.lease)
        if shape not in self._update_run:
            columns = [*_columns(fields)]
            columns += [_ANSWER] if write.answer is not None else []
            columns += _RUN_LEASE if write.lease else ()
            where = self._run_and_head + (self._lease_guard if guard.lease else "")
            self._update_run[shape] = (
                f"UPDATE {self._run} SET {self._run.assignments(columns)} {where}"
            )
        return self._update_run[shape]

    def count_guarded(self, writes: Sequence[tuple[records.Run, RunGuard]]) -> Statement:
        """Count the runs that are as they were read."""
        alternatives = " OR ".join([self._one_guarded] * len(writes))
        values = [value for run, guard in writes for value in self._guarded(run, guard)]
        return Statement(self._count_guarded + " " + alternatives, values)

    def renew(self, expected: records.Run, renewed: records.Run) -> Statement:
        """Write a lease; no row where state, owner or fence are not as expected."""
        key = (expected.conversation_id, expected.id)
        owner = (str(expected.state), expected.owner_id, expected.fencing_token)
        return Statement(self._renew, (*self._lease(renewed), *key, *owner))

    def insert_receipt(self, receipt: records.AdmissionReceipt) -> Following:
        """Insert a receipt."""
        values = (
            receipt.conversation_id,
            receipt.idempotency_key,
            SCHEMA_VERSION,
            wire.MESSAGE.encode(receipt.input),
            receipt.input.id,
            receipt.run_id,
            receipt.assistant_message_id,
            self._moment(receipt.created_at),
        )
        return Following(*self._insert_receipt, values)

    def insert_message(self, placed: PlacedMessage) -> Following:
        """Insert a message."""
        message = placed.message
        beginning = (
            message.conversation_id,
            message.id,
            SCHEMA_VERSION,
            *placed.place,
            message.run_id,
            str(message.role),
            self._moment(message.created_at),
        )
        archived = (self._moment(placed.archived_at), placed.replaced_by)
        values = (*beginning, *self._message_changes(message), *archived)
        return Following(*self._insert_message, values)

    def update_message(self, message: records.Message) -> Following:
        """Change a message."""
        key = (message.conversation_id, message.id)
        return Following(*self._update_message, (*self._message_changes(message), *key))

    def move_message(self, conversation_id: str, identity: str, place: Place) -> Statement:
        """Give an active message another place."""
        return Statement(self._move_message, (*place, conversation_id, identity))

    def clear_range(self, conversation_id: str, mutation: ReplaceRange) -> Statement:
        """Archive or delete the active messages from one place to another."""
        between = (conversation_id, *mutation.first, *mutation.last)
        if not mutation.archive:
            return Statement(self._delete_range, between)
        archived = (self._moment(mutation.moment), mutation.summary.id)
        return Statement(self._archive_range, (*archived, *between))

    def delete_all(self, conversation_id: str) -> Sequence[Statement]:
        """Delete all rows of a conversation but its head."""
        return [Statement(sql, (conversation_id,)) for sql in self._delete_all]

    def _run_values(self, run: records.Run, fields: Collection[str]) -> Iterator[object]:
        for field in fields:
            value = getattr(run, field)
            if field == "usage":
                yield from self._usage(value)
            elif value is None or field not in _RUN_TEXTS:
                yield self._moment(value) if field in _RUN_MOMENTS else value
            else:
                yield _RUN_TEXTS[field](value)

    def _usage(self, usage: Usage | None) -> Iterator[object]:
        cost = None if usage is None else usage.cost
        yield None if usage is None else wire.USAGE.encode(usage)
        yield None if cost is None else self._dialect.amount(cost.amount)
        yield None if cost is None else cost.currency

    def _message_changes(self, message: records.Message) -> tuple[object, ...]:
        return (
            str(message.status),
            wire.PARTS.encode(message.parts),
            None if message.metadata is None else wire.METADATA.encode(message.metadata),
            self._moment(message.updated_at),
        )

    def _lease(self, run: records.Run) -> tuple[object, ...]:
        return run.lease_seconds, self._moment(run.lease_expires_at)

    def _guarded(self, run: records.Run, guard: RunGuard) -> tuple[object, ...]:
        key = (run.conversation_id, run.id)
        return (*key, guard.revision, guard.owner_id, guard.fencing_token)


def _columns(fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        yield from _RUN_COLUMNS[field]


def _insert(table: Table, fields: Sequence[str]) -> _Texts:
    into = f"INSERT INTO {table} ({table.columns(fields)})"
    return _Texts(
        alone=f"{into} VALUES ({marks(fields)})",
        combined=f"{into} SELECT {table.casts(fields)} WHERE {_IF_HEAD}",
    )
