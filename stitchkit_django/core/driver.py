"""The ports: what a driver maps rows for, and the plain values that pass between it and the store.

A driver holds no state switch, no revision arithmetic, no coalescing, terminal or collision rule:
it reads the rows that a `ReadSet` names and writes the rows of a `WriteSet`, guarded.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from stitchkit_django.core.checked import Record, set_field
from stitchkit_django.core.lifecycle import MessageStatus
from stitchkit_django.core.parts import Part
from stitchkit_django.core.records import (
    AdmissionReceipt,
    Head,
    Message,
    Run,
    StoredRun,
)
from stitchkit_django.core.values import JSONValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core.errors import CorruptRecordError, UnsupportedSchemaVersionError

T = TypeVar("T")

LAST_SLOT: Final = 2**31 - 1
"""Of a turn: its assistant message's."""


class Place(NamedTuple):
    """Where a message stands in its conversation; places compare in causal order."""

    turn: int
    slot: int


class PlacedMessage(Record, frozen=True, kw_only=True):
    """A message as stored: with its place, and whether a summary has replaced it."""

    message: Message
    place: Place
    archived_at: datetime | None = None
    """Set exactly on a message that a compaction replaced."""
    replaced_by: str | None = None
    """Id of the summary; set exactly on a message that a compaction replaced."""


# ---------------------------------------------------------------- what is read


class AssistantWanted(StrEnum):
    """How much of a run's assistant message an operation needs."""

    OUTLINE = "outline"
    """All but its parts."""
    WHOLE = "whole"


class ReadSet(Record, frozen=True, kw_only=True):
    """Which rows an operation needs; each is found by an index."""

    conversation_id: str
    admits: bool = False
    """Make the head, locked, if nobody has written to the conversation."""
    idempotency_key: str | None = None
    """The receipt of this key, its run, and the run that absorbed that one."""
    run_id: str | None = None
    """The run that the operation is about."""
    assistant: AssistantWanted | None = None
    """That run's assistant message."""
    other_run_ids: tuple[str, ...] = ()
    """More runs, and which of them have an assistant message."""
    first_active: bool = False
    """The active run of the lowest turn."""
    all_active: bool = False
    """Every active run, by turn."""
    new_message_ids: tuple[str, ...] = ()
    """Which of these some message, receipt or reserved assistant id has."""
    new_run_id: str | None = None
    """Whether a run has it."""
    range_ids: tuple[str, ...] = ()
    """The active messages of these ids, and how many active ones lie between them."""


class AssistantOutline(Record, frozen=True, kw_only=True):
    """What the next version of an assistant message may keep of the stored one."""

    created_at: datetime
    metadata: dict[str, JSONValue] | None = None
    parts: tuple[Part, ...] = ()
    """Read only where the operation wants what the run has said so far."""


class RangeMember(Record, frozen=True, kw_only=True):
    """A message that a compaction names, without its body."""

    id: str
    place: Place
    status: MessageStatus
    """`streaming` exactly on the assistant message of an active run."""


class Facts(Record, frozen=True, kw_only=True):
    """The rows that a `ReadSet` named, as of after the head was locked."""

    head: Head | None = None
    """None: nobody has written to the conversation, and the operation doesn't admit."""
    moment: datetime
    """The database's, read after the lock was granted."""
    receipt: AdmissionReceipt | None = None
    receipt_run: StoredRun | None = None
    """The receipt's own run."""
    absorber: StoredRun | None = None
    """The run that absorbed it."""
    run: Run | None = None
    assistant: AssistantOutline | None = None
    """Of `run`'s assistant message; None where there is none yet."""
    others: tuple[Run, ...] = ()
    answered: frozenset[str] = frozenset()
    """The ids of those of `others` that have an assistant message."""
    first_active_id: str | None = None
    active: tuple[Run, ...] = ()
    taken: frozenset[str] = frozenset()
    """Of the new ids, message and run ids alike."""
    members: tuple[RangeMember, ...] = ()
    """Of the range, those that are active; by place."""
    between: int = 0
    """How many active messages stand from the first to the last of `members`; counted no further
    than one more than were named."""


# ---------------------------------------------------------------- what is written


class RunGuard(Record, frozen=True, kw_only=True):
    """What a run must still be for its write to happen: as it was read."""

    revision: int
    owner_id: str | None = None
    fencing_token: int | None = None
    lease: bool = False
    """Whether the end of the lease must be as it was read, too."""
    lease_expires_at: datetime | None = None


class RunWrite(Record, frozen=True, kw_only=True):
    """A run to insert or to change."""

    run: Run
    guard: RunGuard | None = None
    """None: the run is new."""
    changed: frozenset[str] | None = None
    """The fields that are not as they were read, the lease's left out: a driver may write them
    alone. None: not known, write all."""
    lease: bool = False
    """Whether its lease is written too, which renewals move without the head's lock."""
    answer: Message | None = None
    """To retain with the run, when this write ends it."""


class InsertMessage(Record, frozen=True, kw_only=True, tag=True):
    """A message that isn't there yet."""

    message: Message
    place: Place


class UpdateMessage(Record, frozen=True, kw_only=True, tag=True):
    """A message that is there: status, parts, metadata and `updated_at` become these."""

    message: Message


class ReplaceRange(Record, frozen=True, kw_only=True, tag=True):
    """All active messages from one place to another make room for their summary."""

    first: Place
    last: Place
    summary: Message
    """Gets the first place."""
    replaced_ids: tuple[str, ...]
    """Of the messages that make room, in causal order."""
    archive: bool
    """Keep the replaced messages as archived ones; else they are deleted."""
    moment: datetime


class MoveMessages(Record, frozen=True, kw_only=True, tag=True):
    """Active messages get new places; one that is not active is left where it is."""

    moves: tuple[tuple[str, Place], ...]
    """Message ids and their places, which are free."""


class DeleteAll(Record, frozen=True, kw_only=True, tag=True):
    """All messages, runs and receipts of the conversation go; the head stays."""


HistoryMutation: TypeAlias = InsertMessage | UpdateMessage | ReplaceRange | MoveMessages | DeleteAll


class WriteSet(Record, frozen=True, kw_only=True):
    """All that one operation writes; it happens whole or not at all."""

    head: Head
    """As it will be."""
    expected_version: int
    """As it must be."""
    runs: tuple[RunWrite, ...] = ()
    """The operation's own first."""
    receipt: AdmissionReceipt | None = None
    history: tuple[HistoryMutation, ...] = ()


# ---------------------------------------------------------------- pages and whole conversations


class RunFacts(Record, frozen=True, kw_only=True):
    """A run read without its conversation."""

    head: Head | None = None
    moment: datetime
    run: StoredRun | None = None


class ActiveRuns(Record, frozen=True, kw_only=True):
    """The active runs of a conversation, by turn."""

    head: Head | None = None
    runs: tuple[Run, ...] = ()


class MessagePage(Record, frozen=True, kw_only=True):
    """Active messages, oldest first."""

    head: Head | None = None
    messages: tuple[PlacedMessage, ...] = ()


class ConversationView(Record, frozen=True, kw_only=True):
    """A conversation's active history and its runs, of one version."""

    head: Head | None = None
    messages: tuple[PlacedMessage, ...] = ()
    """By place."""
    runs: tuple[Run, ...] = ()
    """By turn: active ones, and those that an active assistant message names."""


class KeyedRun(NamedTuple):
    """A run and the surrogate key that orders scans; later admissions have higher ones."""

    key: int
    run: Run


class UnreadableRun(NamedTuple):
    """A run whose row is refused, and the surrogate key behind which a scan goes on."""

    key: int
    error: CorruptRecordError | UnsupportedSchemaVersionError


class RunScan(Record, frozen=True, kw_only=True):
    """A page of runs of all conversations, by surrogate key."""

    moment: datetime
    runs: tuple[KeyedRun, ...] = ()
    unreadable: UnreadableRun | None = None
    """The first run that can't be read: the page ends before it."""


class ConversationRows(Record, frozen=True, kw_only=True):
    """All rows of a conversation: what export, import and checks work on."""

    head: Head
    runs: tuple[StoredRun, ...] = ()
    """By turn, then id: absorbed runs keep the turn of their admission."""
    receipts: tuple[AdmissionReceipt, ...] = ()
    """By key."""
    messages: tuple[PlacedMessage, ...] = ()
    """Archived ones too; by place, then id."""

    def __post_init__(self) -> None:
        """Put the rows into their order, in which those of any two drivers are equal."""
        runs = sorted(self.runs, key=lambda stored: (stored.run.turn, stored.run.id))
        set_field(self, "runs", tuple(runs))
        receipts = sorted(self.receipts, key=lambda receipt: receipt.idempotency_key)
        set_field(self, "receipts", tuple(receipts))
        messages = sorted(self.messages, key=lambda placed: (placed.place, placed.message.id))
        set_field(self, "messages", tuple(messages))


# ---------------------------------------------------------------- the ports


class Transaction(Protocol):
    """One transaction of a driver, handed to the work that it runs."""

    def read(self, wanted: ReadSet) -> Facts:
        """Lock the head, then read what is wanted; the lock is held from here on."""
        ...

    def write(self, changes: WriteSet) -> bool:
        """Write all, or nothing (False) when the head or a guarded run has moved."""
        ...

    def forget(self, conversation_id: str, run_id: str, *, limit: int) -> int:
        """Delete at most `limit` receipts of a run, and with the last of them the run itself.

        Returns:
            How many rows were deleted, the run's included.
        """
        ...

    def forget_archived(self, conversation_id: str, before: datetime, *, limit: int) -> int:
        """Delete at most `limit` messages that were archived before a moment.

        Returns:
            How many were deleted.
        """
        ...

    def restore(self, rows: ConversationRows) -> bool:
        """Write a whole conversation; False, and nothing written, when its head exists."""
        ...

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Call back once the outermost transaction has committed, and never if it hasn't."""
        ...


class Driver(Protocol):
    """Where conversations are kept."""

    def transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run the work in one transaction.

        Whatever the work raises rolls everything back. The work may be run again from its
        beginning after a failure that is known to have written nothing.

        Raises:
            StoreUnavailableError: the database failed.
        """
        ...

    def snapshot(self, conversation_id: str) -> ConversationView:
        """Read a whole conversation, in one statement."""
        ...

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        """Read one run and the head, in one statement."""
        ...

    def active_runs(self, conversation_id: str) -> ActiveRuns:
        """Read the active runs and the head, in one statement."""
        ...

    def messages(self, conversation_id: str, before: Place | None, limit: int) -> MessagePage:
        """Read the last `limit` active messages before a place, in one statement."""
        ...

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        """Read `limit` active runs of all conversations whose key is over the cursor."""
        ...

    def scan_ended(self, before: datetime, cursor: int, limit: int) -> RunScan:
        """Read `limit` runs that ended before a moment and whose key is over the cursor."""
        ...

    def renew(self, expected: Run, renewed: Run) -> bool:
        """Write the lease of the renewed run, and no more, without the head's lock.

        Returns:
            False, and nothing written, when state, owner or fence are not as expected.
        """
        ...

    def rows(self, conversation_id: str) -> ConversationRows | None:
        """Read all rows of a conversation, archived ones too; None when it has no head."""
        ...


class Dispatcher(Protocol):
    """How a project hands a run to its workers.

    It is called after the commit, outside any transaction, and is a hint and no more: a run whose
    hint was lost is found by recovery, and one that is handed over twice is acquired once.
    """

    def __call__(self, conversation_id: str, run_id: str, /) -> object:
        """Hand a queued run over; what it returns is not looked at."""
        ...
