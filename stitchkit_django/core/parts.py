"""What a message is made of: a union of parts tagged by `type`; no message, no limit of a store."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from stitchkit_django.core import values
from stitchkit_django.core.checked import Record, check, check_is, check_member, check_type
from stitchkit_django.core.errors import InvalidValueError, shown
from stitchkit_django.core.lifecycle import MessageRole
from stitchkit_django.core.values import JSONValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class ToolOutcome(StrEnum):
    """How a tool call came out."""

    SUCCESS = "success"
    ERROR = "error"
    INTERRUPTED = "interrupted"


class ControlReason(StrEnum):
    """What a control part tells of its run."""

    RUN_INTERRUPTED = "run-interrupted"
    STALE_RUN = "stale-run"


class _Part(Record, frozen=True, kw_only=True, tag_field="type"):
    """A part: a record that its `type` tells from the others."""


class ProviderEnvelope(Record, frozen=True, kw_only=True):
    """What a model provider wants back unread: signatures, encrypted reasoning, cache marks."""

    schema_version: int
    """Of the provider's data, as the code that wrote it counts; 0 or more."""
    provider: str
    """Whose data it is; not empty."""
    data: JSONValue
    """Opaque; never looked into."""

    def __post_init__(self) -> None:
        """Check each field, and copy the data."""
        check(self, values.count, "schema_version")
        check(self, values.full_text, "provider")
        check(self, values.json_value, "data")


class TextPart(_Part, frozen=True, kw_only=True, tag="text"):
    """A text."""

    text: str

    def __post_init__(self) -> None:
        """Check the text and join its surrogate pairs."""
        # Most parts of a long conversation are such texts.
        if type(self.text) is not str or not self.text.isascii():
            check(self, values.text, "text")


class FilePart(_Part, frozen=True, kw_only=True, tag="file"):
    """A file, by reference: the bytes lie elsewhere."""

    media_type: str
    """As in a Content-Type header; not empty."""
    reference: str
    """Where the project finds the bytes: a URL, a storage name; not empty."""
    filename: str | None = None
    """As its sender called it."""

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.full_text, "media_type", "reference")
        check(self, values.optional_text, "filename")


class SourcePart(_Part, frozen=True, kw_only=True, tag="source"):
    """What an answer rests on."""

    source_id: str
    """As the provider or the project names it; not empty."""
    url: str | None = None
    title: str | None = None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.full_text, "source_id")
        check(self, values.optional_text, "url", "title")


class ReasoningPart(_Part, frozen=True, kw_only=True, tag="reasoning"):
    """What a model thought before it answered."""

    text: str
    provider: ProviderEnvelope | None = None

    def __post_init__(self) -> None:
        """Check each field."""
        check(self, values.text, "text")
        check_type(self, ProviderEnvelope, "provider")


class ToolCallPart(_Part, frozen=True, kw_only=True, tag="tool-call"):
    """A model's call of a tool."""

    call_id: str
    """Unique in its message; not empty."""
    tool_name: str
    """Not empty."""
    input: JSONValue
    provider: ProviderEnvelope | None = None

    def __post_init__(self) -> None:
        """Check each field, and copy the input."""
        check(self, values.full_text, "call_id", "tool_name")
        check(self, values.json_value, "input")
        check_type(self, ProviderEnvelope, "provider")


class ToolResultPart(_Part, frozen=True, kw_only=True, tag="tool-result"):
    """How a tool call came out; it stands after its call, in the same message."""

    call_id: str
    """Of the call."""
    tool_name: str
    """Of the call."""
    outcome: ToolOutcome
    output: JSONValue | UnsetType = UNSET
    """Absent (UNSET) and null (None) differ."""

    def __post_init__(self) -> None:
        """Check each field, and copy the output."""
        check(self, values.full_text, "call_id", "tool_name")
        check_member(self, ToolOutcome, "outcome")
        if self.output is not UNSET:
            check(self, values.json_value, "output")


class ProviderPart(_Part, frozen=True, kw_only=True, tag="provider"):
    """A part that only its provider understands."""

    envelope: ProviderEnvelope

    def __post_init__(self) -> None:
        """Check the envelope's type; it has checked itself."""
        check_is(self, ProviderEnvelope, "envelope")


class ControlPart(_Part, frozen=True, kw_only=True, tag="control"):
    """What happened to the run, told inside its answer."""

    reason: ControlReason

    def __post_init__(self) -> None:
        """Check the reason."""
        check_member(self, ControlReason, "reason")


Part: TypeAlias = (
    TextPart
    | FilePart
    | SourcePart
    | ReasoningPart
    | ToolCallPart
    | ToolResultPart
    | ProviderPart
    | ControlPart
)

_PART_TYPES: Final = (
    TextPart,
    FilePart,
    SourcePart,
    ReasoningPart,
    ToolCallPart,
    ToolResultPart,
    ProviderPart,
    ControlPart,
)

ALLOWED_PARTS: Final[Mapping[MessageRole, tuple[type[Part], ...]]] = MappingProxyType(
    {
        MessageRole.USER: (TextPart, FilePart, ProviderPart),
        MessageRole.ASSISTANT: _PART_TYPES,
        MessageRole.SYSTEM: (TextPart, ProviderPart),
        MessageRole.SUMMARY: (TextPart, ProviderPart),
    }
)


def message_parts(role: MessageRole, given: object) -> tuple[Part, ...]:
    """Check the parts of one message.

    Args:
        role: of the message: it decides which parts are allowed.
        given: a tuple or list of parts, or a str, which is one text part.

    Returns:
        The parts as a tuple.

    Raises:
        InvalidValueError: not parts, a part that the role doesn't allow, a call id given twice, a
            result without its call before it or beside another one; the path names the part.
    """
    if isinstance(given, str):
        return (TextPart(text=given),)
    if not isinstance(given, tuple | list):
        raise InvalidValueError("$.parts", f"{shown(given)} is neither a str nor a list of parts")
    allowed = ALLOWED_PARTS[role]
    calls = False
    for index, part in enumerate(given):
        if type(part) not in allowed:
            if not isinstance(part, _PART_TYPES):
                raise InvalidValueError(f"$.parts[{index}]", f"{shown(part)} is not a part")
            reason = f"{type(part).__name__} is not allowed in a message of role {role}"
            raise InvalidValueError(f"$.parts[{index}]", reason)
        calls = calls or type(part) is ToolCallPart or type(part) is ToolResultPart
    if calls:
        _check_calls(given)
    return tuple(given)


def payload(part: Part) -> Iterator[tuple[str, JSONValue]]:
    """Give the JSON values that a part carries, each with the path of its field."""
    match part:
        case ToolCallPart():
            yield "input", part.input
        case ToolResultPart() if part.output is not UNSET:
            yield "output", part.output
        case ProviderPart():
            yield "envelope.data", part.envelope.data
        case _:
            pass
    if isinstance(part, ToolCallPart | ReasoningPart) and part.provider is not None:
        yield "provider.data", part.provider.data


def owned_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Build anew, and so check and copy, each part that carries JSON.

    A dict inside a part can have been changed since the part was built.

    Raises:
        InvalidValueError: a part's JSON is none any more; the path names part and place.
    """
    return tuple(_owned(index, part) for index, part in enumerate(parts))


def _owned(index: int, part: Part) -> Part:
    try:
        match part:
            case ToolCallPart() | ReasoningPart():
                provider = None if part.provider is None else replace(part.provider)
                return replace(part, provider=provider)
            case ToolResultPart():
                return replace(part)
            case ProviderPart():
                return replace(part, envelope=replace(part.envelope))
            case _:
                return part
    except InvalidValueError as error:
        raise InvalidValueError(f"$.parts[{index}]{error.path[1:]}", error.reason) from error


def close_calls(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Give each tool call that has no result one of outcome `interrupted`, right after it."""
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    closed: list[Part] = []
    for part in parts:
        closed.append(part)
        if isinstance(part, ToolCallPart) and part.call_id not in answered:
            closed.append(
                ToolResultPart(
                    call_id=part.call_id,
                    tool_name=part.tool_name,
                    outcome=ToolOutcome.INTERRUPTED,
                )
            )
    return tuple(closed)


def _check_calls(parts: Iterable[Part]) -> None:
    names: dict[str, str] = {}
    answered: set[str] = set()
    for index, part in enumerate(parts):
        place = f"$.parts[{index}].call_id"
        if isinstance(part, ToolCallPart):
            if part.call_id in names:
                raise InvalidValueError(place, f"two calls have the id {shown(part.call_id)}")
            names[part.call_id] = part.tool_name
        elif isinstance(part, ToolResultPart):
            if part.call_id not in names:
                raise InvalidValueError(place, f"no call {shown(part.call_id)} stands before it")
            if part.call_id in answered:
                raise InvalidValueError(place, f"call {shown(part.call_id)} has a result already")
            if part.tool_name != names[part.call_id]:
                reason = f"call {shown(part.call_id)} is of tool {shown(names[part.call_id])}"
                raise InvalidValueError(f"$.parts[{index}].tool_name", reason)
            answered.add(part.call_id)
