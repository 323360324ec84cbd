"""Rows to records and back; what contradicts itself is refused by an error that names the row.

Every statement that reads gives rows of one shape, so that a read of several tables is one union:
a kind, and lanes of texts, integers, one float and moments. What stands in which lane is said here
alone, once for each kind.
"""

from __future__ import annotations

from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from stitchkit_django.core import wire
from stitchkit_django.core.driver import (
    AssistantOutline,
    KeyedRun,
    Place,
    PlacedMessage,
    RangeMember,
)
from stitchkit_django.core.errors import (
    CorruptRecordError,
    UnsupportedSchemaVersionError,
    shown,
)
from stitchkit_django.core.lifecycle import (
    MessageRole,
    MessageStatus,
    RunState,
    TerminalReason,
)
from stitchkit_django.core.records import (
    SCHEMA_VERSION,
    AdmissionReceipt,
    Head,
    Message,
    Run,
    StoredRun,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from stitchkit_django.statements.dialects import Dialect

T = TypeVar("T")

# The lanes in the order of the columns after the kind, and how many there are of each at the most.
LANES: Final = {"text": 11, "integer": 5, "float": 1, "moment": 5}

Widths: TypeAlias = tuple[int, ...]
"""How many lanes of each type a statement's rows have."""
FULL: Final[Widths] = tuple(LANES.values())


class Lanes(NamedTuple):
    """Which column of a table stands in which lane, by type, in order."""

    text: tuple[str, ...] = ()
    integer: tuple[str, ...] = ()
    float: tuple[str, ...] = ()
    moment: tuple[str, ...] = ()


HEAD: Final = Lanes(
    integer=("schema_version", "version"),
    moment=("updated_at", "purged_at"),
)
HEAD_FIELDS: Final = (*HEAD.integer, *HEAD.moment)
"""Of a head that stands in a row of its own, or behind the lanes."""
RUN: Final = Lanes(
    text=(
        "run_id",
        "input_message_ids",
        "assistant_message_id",
        "state",
        "owner_id",
        "terminal_reason",
        "terminal_policy_name",
        "terminal_detail",
        "absorbed_into_run_id",
        "usage",
    ),
    integer=("schema_version", "id", "turn", "revision", "fencing_token"),
    float=("lease_seconds",),
    moment=("created_at", "updated_at", "acquired_at", "ended_at", "lease_expires_at"),
)
STORED_RUN: Final = RUN._replace(text=(*RUN.text, "terminal_assistant"))
SCANNED_RUN: Final = RUN._replace(text=(*RUN.text, "conversation_id"))
MESSAGE: Final = Lanes(
    text=("message_id", "run_id", "role", "status", "parts", "metadata", "replaced_by"),
    integer=("schema_version", "turn", "slot"),
    moment=("created_at", "updated_at", "archived_at"),
)
MEMBER: Final = Lanes(text=("message_id", "status"), integer=("schema_version", "turn", "slot"))
RECEIPT: Final = Lanes(
    text=("idempotency_key", "input", "run_id", "assistant_message_id"),
    integer=("schema_version",),
    moment=("created_at",),
)
RECEIPT_FIELDS: Final = (*RECEIPT.text, *RECEIPT.integer, *RECEIPT.moment)
"""Of a receipt that stands behind the lanes."""
RUN_ID: Final = Lanes(text=("run_id",))

_TEXT: Final = 1
_INTEGER: Final = _TEXT + LANES["text"]
_FLOAT: Final = _INTEGER + LANES["integer"]
_MOMENT: Final = _FLOAT + LANES["float"]
_EXTRA: Final = _MOMENT + LANES["moment"]

# What a text stands for; one that stands for nothing goes to the record, which refuses it.
_STATES: Final = {str(state): state for state in RunState}
_REASONS: Final = {str(reason): reason for reason in TerminalReason}
_ROLES: Final = {str(role): role for role in MessageRole}
_STATUSES: Final = {str(status): status for status in MessageStatus}


class RowReader:
    """Builds the records of one conversation from rows."""

    def __init__(self, dialect: Dialect, conversation_id: str) -> None:
        """Take whose rows they are."""
        self._dialect = dialect
        self._moment = dialect.moment
        self.conversation_id = conversation_id

    def head(self, row: Sequence[Any]) -> Head:
        """Build the head."""
        return self.head_of([*row[_INTEGER : _INTEGER + 2], *row[_MOMENT : _MOMENT + 2]])

    def head_of(self, columns: Sequence[Any]) -> Head:
        """Build the head of its columns (`HEAD_FIELDS`)."""
        return self._checked("head", "", columns[0], self._head, columns)

    def clock(self, moment: datetime | str | None) -> datetime:
        """Give the moment of a row of kind `clock`."""
        return self._moment(moment) or self._dialect.now()

    def run(self, row: Sequence[Any]) -> Run:
        """Build a run without its answer."""
        return self._checked("run", row[_TEXT], row[_INTEGER], self._run, row)

    def runs(self, rows: Sequence[Sequence[Any]]) -> tuple[Run, ...]:
        """Build runs without their answers."""
        return self._all("run", self._run, rows)

    def message(self, row: Sequence[Any]) -> PlacedMessage:
        """Build a message with its place."""
        return self._checked("message", row[_TEXT], row[_INTEGER], self._message, row)

    def messages(self, rows: Sequence[Sequence[Any]]) -> tuple[PlacedMessage, ...]:
        """Build messages with their places."""
        return self._all("message", self._message, rows)

    def stored_run(self, row: Sequence[Any]) -> StoredRun:
        """Build a run with its answer."""
        return self._checked("run", row[_TEXT], row[_INTEGER], self._stored_run, row)

    def outline(self, row: Sequence[Any]) -> AssistantOutline | None:
        """Build, of the extras of a run's row, what it has said so far."""
        columns = row[_EXTRA + 2 :]
        if not columns or columns[0] is None:
            return None
        return self._checked("message", row[_TEXT + 2], columns[0], self._outline, columns)

    def member(self, row: Sequence[Any]) -> RangeMember:
        """Build a message of a range, without its body."""
        return self._checked("message", row[_TEXT], row[_INTEGER], self._member, row)

    def receipt(self, row: Sequence[Any]) -> AdmissionReceipt:
        """Build a receipt."""
        return self.receipt_of([*row[_TEXT : _TEXT + 4], row[_INTEGER], row[_MOMENT]])

    def receipt_of(self, columns: Sequence[Any]) -> AdmissionReceipt:
        """Build a receipt of its columns (`RECEIPT_FIELDS`)."""
        return self._checked("receipt", columns[0], columns[4], self._receipt, columns)

    def _all(
        self, kind: str, build: Callable[[Sequence[Any]], T], rows: Sequence[Sequence[Any]]
    ) -> tuple[T, ...]:
        # All at once, and only where one is refused each by itself, to tell which.
        if {row[_INTEGER] for row in rows} <= {SCHEMA_VERSION}:
            with suppress(*wire.DECODING_ERRORS):
                return tuple([build(row) for row in rows])
        return tuple([self._checked(kind, row[_TEXT], row[_INTEGER], build, row) for row in rows])

    def _checked(
        self,
        kind: str,
        identity: str,
        schema_version: int,
        build: Callable[[Sequence[Any]], T],
        columns: Sequence[Any],
    ) -> T:
        if schema_version != SCHEMA_VERSION:
            raise UnsupportedSchemaVersionError(self._named(kind, identity), schema_version)
        try:
            return build(columns)
        except wire.DECODING_ERRORS as error:
            raise CorruptRecordError(self._named(kind, identity), str(error)) from error

    def _named(self, kind: str, identity: str) -> str:
        what = f"{kind} {shown(identity)}" if identity else f"the {kind}"
        return f"{what} in conversation {shown(self.conversation_id)}"

    # What must be there and is null in a row is refused by the record, like all that is wrong.

    def _head(self, columns: Sequence[Any]) -> Head:
        _, version, updated_at, purged_at = columns
        return Head(
            conversation_id=self.conversation_id,
            version=version,
            updated_at=self._moment(updated_at),  # type: ignore[arg-type]
            purged_at=self._moment(purged_at),
        )

    def _run(self, row: Sequence[Any]) -> Run:
        return Run(
            id=row[_TEXT],
            conversation_id=self.conversation_id,
            turn=row[_INTEGER + 2],
            input_message_ids=wire.IDENTIFIERS.decode(row[_TEXT + 1]),
            assistant_message_id=row[_TEXT + 2],
            state=_STATES.get(row[_TEXT + 3], row[_TEXT + 3]),
            revision=row[_INTEGER + 3],
            owner_id=row[_TEXT + 4],
            fencing_token=row[_INTEGER + 4],
            lease_seconds=row[_FLOAT],
            lease_expires_at=self._moment(row[_MOMENT + 4]),
            terminal_reason=_REASONS.get(row[_TEXT + 5], row[_TEXT + 5]),
            terminal_policy_name=row[_TEXT + 6],
            terminal_detail=_decoded(wire.TEXT, row[_TEXT + 7]),
            absorbed_into_run_id=row[_TEXT + 8],
            usage=_decoded(wire.USAGE, row[_TEXT + 9]),
            created_at=self._moment(row[_MOMENT]),  # type: ignore[arg-type]
            updated_at=self._moment(row[_MOMENT + 1]),  # type: ignore[arg-type]
            acquired_at=self._moment(row[_MOMENT + 2]),
            ended_at=self._moment(row[_MOMENT + 3]),
        )

    def _stored_run(self, row: Sequence[Any]) -> StoredRun:
        answer = row[_TEXT + 10]
        return StoredRun(
            run=self._run(row),
            terminal_assistant=None if answer is None else wire.MESSAGE.decode(answer),
        )

    def _message(self, row: Sequence[Any]) -> PlacedMessage:
        message = Message(
            id=row[_TEXT],
            conversation_id=self.conversation_id,
            run_id=row[_TEXT + 1],
            role=_ROLES.get(row[_TEXT + 2], row[_TEXT + 2]),
            status=_STATUSES.get(row[_TEXT + 3], row[_TEXT + 3]),
            parts=wire.PARTS.decode(row[_TEXT + 4]),
            metadata=_decoded(wire.METADATA, row[_TEXT + 5]),
            created_at=self._moment(row[_MOMENT]),  # type: ignore[arg-type]
            updated_at=self._moment(row[_MOMENT + 1]),  # type: ignore[arg-type]
        )
        return PlacedMessage(
            message=message,
            place=Place(row[_INTEGER + 1], row[_INTEGER + 2]),
            archived_at=self._moment(row[_MOMENT + 2]),
            replaced_by=row[_TEXT + 6],
        )

    def _outline(self, columns: Sequence[Any]) -> AssistantOutline:
        _, created_at, metadata, *whole = columns
        return AssistantOutline(
            created_at=self._moment(created_at),  # type: ignore[arg-type]
            metadata=_decoded(wire.METADATA, metadata),
            parts=wire.PARTS.decode(whole[0]) if whole else (),
        )

    def _member(self, row: Sequence[Any]) -> RangeMember:
        return RangeMember(
            id=row[_TEXT],
            place=Place(row[_INTEGER + 1], row[_INTEGER + 2]),
            status=MessageStatus(row[_TEXT + 1]),
        )

    def _receipt(self, columns: Sequence[Any]) -> AdmissionReceipt:
        idempotency_key, admitted, run_id, assistant_message_id, _, created_at = columns
        return AdmissionReceipt(
            conversation_id=self.conversation_id,
            idempotency_key=idempotency_key,
            input=wire.MESSAGE.decode(admitted),
            run_id=run_id,
            assistant_message_id=assistant_message_id,
            created_at=self._moment(created_at),  # type: ignore[arg-type]
        )


def surrogate_key(row: Sequence[Any]) -> int:
    """Give the surrogate key of a run's row."""
    key: int = row[_INTEGER + 1]
    return key


def scanned_run(dialect: Dialect, row: Sequence[Any]) -> KeyedRun:
    """Build a run of a scan over all conversations, with its surrogate key."""
    reader = RowReader(dialect, row[_TEXT + 10])
    return KeyedRun(surrogate_key(row), reader.run(row))


turn_of_run: Final = itemgetter(_INTEGER + 2)
"""Gives the turn of a run's row."""
place_of_message: Final = itemgetter(_INTEGER + 1, _INTEGER + 2)
"""Gives the turn and the slot of a message's row."""


def first_text(row: Sequence[Any]) -> str:
    """Give the id that a row of kind `taken` or `answered` holds."""
    identity: str = row[_TEXT]
    return identity


def first_moment(row: Sequence[Any]) -> Any:  # noqa: ANN401 - as the database gives it
    """Give the moment that a row of kind `clock` holds."""
    return row[_MOMENT]


def extras(row: Sequence[Any]) -> Sequence[Any]:
    """Give what stands behind the lanes."""
    return row[_EXTRA:]


def widened(row: Sequence[Any], widths: Widths) -> Sequence[Any]:
    """Give a union's row with all its lanes, those that the union left out empty."""
    wide: list[Any] = [row[0]]
    start = 1
    for width, full in zip(widths, FULL, strict=True):
        wide += row[start : start + width]
        wide += [None] * (full - width)
        start += width
    return wide


def _decoded(codec: wire.Codec[T], text: str | None) -> T | None:
    return None if text is None else codec.decode(text)
