"""What people are shown of a part: the project's own view of it, or nothing; stores nothing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from stitchkit_django.core.parts import (
    ControlPart,
    FilePart,
    Part,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core.driver import PlacedMessage
    from stitchkit_django.core.records import AdmissionReceipt, Message, StoredRun

    Redact: TypeAlias = "Callable[[Part], Part]"

    T = TypeVar("T", bound=Part)

logger = logging.getLogger("stitchkit_django.redaction")

MASK: Final = "[redacted]"
"""Stands for what nobody may see."""


def masked(part: Part) -> Part:
    """Give a part of the same kind that says nothing; a tool call keeps its id and its tool."""
    match part:
        case TextPart():
            return TextPart(text=MASK)
        case FilePart(media_type=media_type):
            return FilePart(media_type=media_type, reference=MASK)
        case SourcePart():
            return SourcePart(source_id=MASK)
        case ReasoningPart():
            return ReasoningPart(text=MASK)
        case ToolCallPart():
            return replace(part, input=MASK, provider=None)
        case ToolResultPart():
            return part if part.output is UNSET else replace(part, output=MASK)
        case ProviderPart(envelope=envelope):
            return ProviderPart(envelope=_masked_envelope(envelope))
        case ControlPart():
            return part
    assert_never(part)


def redacted(part: Part, redact: Redact | None) -> Part:
    """Give a part as it may be shown.

    Args:
        part: as it is stored.
        redact: of the project: gives the part to show, of the same kind, and of the same call
            where it is a tool's; None shows what is stored. A part that it fails on, or gives
            anything else for, is masked whole: a mistake shows too little, never too much.
    """
    if redact is None:
        return part
    try:
        found: object = redact(part)
    except Exception as error:  # noqa: BLE001 - the project's code, which may raise anything
        # By its type alone: its message and its traceback can quote what is to be hidden.
        found = error
    if _stands_for(part, found):
        return found  # type: ignore[return-value] # of the same type
    logger.error(
        "the redaction of a %s gave %s, so it is masked", type(part).__name__, type(found).__name__
    )
    return masked(part)


def redacted_message(message: Message, redact: Redact | None) -> Message:
    """Give a message as it may be shown: each of its parts, and all else as it is."""
    if redact is None:
        return message
    parts = tuple(redacted(part, redact) for part in message.parts)
    return replace(message, parts=parts)


def redacted_placed(placed: PlacedMessage, redact: Redact | None) -> PlacedMessage:
    """Give a stored message as it may be shown."""
    return replace(placed, message=redacted_message(placed.message, redact))


def redacted_run(stored: StoredRun, redact: Redact | None) -> StoredRun:
    """Give a run with its retained answer as it may be shown."""
    answer = stored.terminal_assistant
    if answer is None:
        return stored
    return replace(stored, terminal_assistant=redacted_message(answer, redact))


def redacted_receipt(receipt: AdmissionReceipt, redact: Redact | None) -> AdmissionReceipt:
    """Give a receipt with its canonical input as it may be shown."""
    return replace(receipt, input=redacted_message(receipt.input, redact))


def _masked_envelope(envelope: ProviderEnvelope) -> ProviderEnvelope:
    return replace(envelope, data=MASK)


def _stands_for(part: Part, found: object) -> bool:
    if type(found) is not type(part):
        return False
    same = ("call_id", "tool_name") if isinstance(part, ToolCallPart | ToolResultPart) else ()
    return all(getattr(found, field) == getattr(part, field) for field in same)
