"""A conversation as one JSON document: the exported form both ways, the retired aggregate in.

A document is a JSON object. The exported form has `conversation`: head, runs, receipts and
messages, each as on the wire, messages with their places. The retired aggregate has `state` and
`messages` (`core.legacy`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stitchkit_django.core import values, wire
from stitchkit_django.core.checked import Record
from stitchkit_django.core.driver import LAST_SLOT, ConversationRows, PlacedMessage
from stitchkit_django.core.errors import InvalidValueError, StitchkitError, shown
from stitchkit_django.core.legacy import LegacyState, normalized
from stitchkit_django.core.records import AdmissionReceipt, Document, Head, Message, StoredRun

if TYPE_CHECKING:
    from collections.abc import Iterator


class UnreadableRow(Record, frozen=True, kw_only=True):
    """A row that can't be read, as its columns have it: what no record can say is not lost."""

    kind: str
    """`head`, `run`, `receipt` or `message`."""
    id: str
    """Its own, or a receipt's key; empty for the head."""
    reason: str
    """Why it can't be read."""
    columns: dict[str, values.JSONValue]
    """The row's, by name; a column of JSON as the text that it holds."""


class ExportedRows(Record, frozen=True, kw_only=True):
    """All rows of a conversation, those that can't be read set apart."""

    head: Head | None = None
    """Absent when its row can't be read."""
    runs: tuple[StoredRun, ...] = ()
    receipts: tuple[AdmissionReceipt, ...] = ()
    messages: tuple[PlacedMessage, ...] = ()
    unreadable: tuple[UnreadableRow, ...] = ()
    redacted: bool = False
    """Whether parts are as a project shows them, which is not as they are stored."""

    @property
    def has_head(self) -> bool:
        """Whether there is a row for the head, be it one that can't be read."""
        return self.head is not None or any(row.kind == "head" for row in self.unreadable)

    def readable(self) -> ConversationRows | None:
        """Give what can be read, in its order; None without a head."""
        if self.head is None:
            return None
        return ConversationRows(
            head=self.head, runs=self.runs, receipts=self.receipts, messages=self.messages
        )


class ConversationDocument(Document, frozen=True, kw_only=True):
    """Either form; the key that is there tells which."""

    conversation: ExportedRows | None = None
    """The exported form."""
    state: LegacyState | None = None
    """The retired aggregate."""
    messages: tuple[Message, ...] = ()
    """Of the retired aggregate, in the order of the history."""


_CODEC: Final = wire.Codec[ConversationDocument](ConversationDocument)
# What a document holds many of, to name the one that is refused.
_MEMBERS: Final[tuple[tuple[tuple[str, ...], type[Record]], ...]] = (
    (("messages",), Message),
    (("conversation", "runs"), StoredRun),
    (("conversation", "receipts"), AdmissionReceipt),
    (("conversation", "messages"), PlacedMessage),
)


def exported(rows: ConversationRows, unreadable: tuple[UnreadableRow, ...] = ()) -> str:
    """Give a conversation as a document of one line.

    Args:
        rows: of the conversation, all that can be read.
        unreadable: the others.
    """
    return document(
        ExportedRows(
            head=rows.head,
            runs=rows.runs,
            receipts=rows.receipts,
            messages=rows.messages,
            unreadable=unreadable,
        )
    )


def document(rows: ExportedRows) -> str:
    """Give rows, with a head or without, as a document of one line."""
    return wire.encode_record(ConversationDocument(conversation=rows))


def rows_of(text: str) -> ConversationRows:
    """Give the rows that a document of either form stands for.

    Raises:
        InvalidValueError: it is no such document, or can't be stored; the path names the place.
    """
    found = _decoded(text)
    if found.conversation is not None:
        return _restored(found.conversation)
    if found.state is not None:
        return normalized(found.state, found.messages)
    reason = "has neither `conversation`, as an export, nor `state` and `messages`"
    raise InvalidValueError("$", reason)


def conversation_id_of(text: str) -> str | None:
    """Give the id of the conversation that a document is of, whatever else is wrong with it."""
    try:
        found = json.loads(text)
        head = found["state"] if "state" in found else found["conversation"]["head"]
        return values.identifier("conversation_id", head["conversationId"])
    except (ValueError, LookupError, TypeError, RecursionError, StitchkitError):
        return None


def _decoded(text: str) -> ConversationDocument:
    try:
        return _CODEC.decode(text)
    except StitchkitError as error:
        raise _located(text, error) from error
    except RecursionError as error:
        raise InvalidValueError("$", "is nested too deep") from error
    except wire.DECODING_ERRORS as error:
        raise InvalidValueError("$", f"{shown(text)} is no conversation: {error}") from error


def _located(text: str, error: StitchkitError) -> InvalidValueError:
    # A record says what is wrong with it, and doesn't know which of the document's it is.
    for path, kind, member in _members(json.loads(text)):
        try:
            wire.decode_record(kind, json.dumps(member))
        except InvalidValueError as found:
            return InvalidValueError(f"{path}{found.path[1:]}", found.reason)
        except StitchkitError as found:
            return InvalidValueError(path, str(found))
    return InvalidValueError("$", str(error))


def _members(plain: dict[str, Any]) -> Iterator[tuple[str, type[Record], object]]:
    for steps, kind in _MEMBERS:
        held: Any = plain
        for step in steps:
            held = held.get(step) or {}
        for index, member in enumerate(held):
            yield f"$.{'.'.join(steps)}[{index}]", kind, member


def _restored(given: ExportedRows) -> ConversationRows:
    if given.unreadable:
        first = given.unreadable[0]
        reason = f"{len(given.unreadable)} rows could not be read when this was exported; the "
        reason += f"first is {first.kind} {shown(first.id)}: {first.reason}"
        raise InvalidValueError("$.conversation.unreadable", reason)
    if given.head is None:
        raise InvalidValueError("$.conversation.head", "is missing")
    if given.redacted:
        reason = "it was redacted when it was exported, so it is not what was stored"
        raise InvalidValueError("$.conversation.redacted", reason)
    return ConversationRows(
        head=given.head,
        runs=given.runs,
        receipts=given.receipts,
        messages=tuple(_placed(index, placed) for index, placed in enumerate(given.messages)),
    )


def _placed(index: int, placed: PlacedMessage) -> PlacedMessage:
    try:
        return checked_place(placed)
    except StitchkitError as error:
        raise InvalidValueError(f"$.conversation.messages[{index}]", str(error)) from error


def checked_place(placed: PlacedMessage) -> PlacedMessage:
    """Check what a message that comes from outside says of its place.

    A driver builds these of rows that its database has checked.

    Raises:
        StitchkitError: turn, slot, moment or summary can't be.
    """
    values.ordinal("place[0]", placed.place.turn)
    values.count("place[1]", placed.place.slot)
    if placed.place.slot > LAST_SLOT:
        raise InvalidValueError("$.place[1]", f"{placed.place.slot} is over {LAST_SLOT}")
    return replace(
        placed,
        archived_at=values.optional_moment("archived_at", placed.archived_at),
        replaced_by=values.optional_identifier("replaced_by", placed.replaced_by),
    )
