"""Canonical JSON text and records, one into the other; limits of a message; same-input comparison.

Bodies are kept as JSON in text columns: what was accepted is read back exactly, which a database's
own JSON type doesn't promise. msgspec does the work. It refuses a lone surrogate both ways, so a
text with one takes the standard library's slower way.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from stitchkit_django.core import values
from stitchkit_django.core.checked import Record, check
from stitchkit_django.core.errors import (
    InvalidValueError,
    StitchkitError,
    UnsupportedSchemaVersionError,
    shown,
)
from stitchkit_django.core.parts import Part, payload
from stitchkit_django.core.records import SCHEMA_VERSION, Document, Message
from stitchkit_django.core.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core.values import JSONValue

T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=Record)

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_SORTING_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", order="sorted")

# Stands before a Decimal on the slower way: no checked text holds a pair, they are all joined.
_NUMBER_MARK: Final = "\ud800\udc00"
_MARKED_NUMBER: Final = re.compile(f'"{_NUMBER_MARK}([^"]+)"')

# What decoding raises where a stored text is not what it must be.
DECODING_ERRORS: Final = (msgspec.MsgspecError, StitchkitError, ValueError, RecursionError)


class Limits(Record, frozen=True, kw_only=True):
    """How large one message may be."""

    max_message_bytes: int = 1024 * 1024
    """Of its parts and metadata together, as stored (UTF-8)."""
    max_depth: int = 100
    """Levels of dict and list in one JSON value; at most 500."""

    def __post_init__(self) -> None:
        """Check that the limits can be kept."""
        check(self, values.ordinal, "max_message_bytes", "max_depth")
        if self.max_depth > values.DEPTH_CEILING:
            reason = f"{self.max_depth} is over {values.DEPTH_CEILING}"
            raise InvalidValueError("$.max_depth", reason)

    def check(self, parts: tuple[Part, ...], metadata: dict[str, JSONValue] | None) -> None:
        """Refuse a message that is too large or too deep.

        Raises:
            InvalidValueError: over a limit; the path names the value that is too deep.
        """
        for path, value in _json_values(parts, metadata):
            depth = values.depth(value)
            if depth > self.max_depth:
                reason = f"has {depth} levels: at most {self.max_depth} are allowed"
                raise InvalidValueError(path, reason)
        size = len(_encoded(parts)) + (0 if metadata is None else len(_encoded(metadata)))
        if size > self.max_message_bytes:
            reason = f"a message of {size} bytes: at most {self.max_message_bytes} are allowed"
            raise InvalidValueError("$.parts", reason)


class Codec(Generic[T]):
    """One kind of stored value as JSON text, and back."""

    def __init__(self, kind: Any) -> None:  # noqa: ANN401 - a type that msgspec understands
        """Take what the text decodes to."""
        self._kind = kind
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def encode(self, value: T) -> str:
        """Give the value as JSON text, which holds neither NUL nor surrogates."""
        return _encoded(value).decode()

    def decode(self, text: str) -> T:
        """Give the value that the text holds.

        Raises:
            DECODING_ERRORS: it doesn't hold one.
        """
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            plain = json.loads(text, parse_float=_exact)
            return msgspec.convert(plain, self._kind)  # type: ignore[no-any-return]


PARTS: Final[Codec[tuple[Part, ...]]] = Codec(tuple[Part, ...])
METADATA: Final[Codec[dict[str, JSONValue]]] = Codec(dict[str, Any])
USAGE: Final[Codec[Usage]] = Codec(Usage)
MESSAGE: Final[Codec[Message]] = Codec(Message)
IDENTIFIERS: Final[Codec[tuple[str, ...]]] = Codec(tuple[str, ...])
TEXT: Final[Codec[str]] = Codec(str)


def encode_record(record: Record) -> str:
    """Give a record as one line of JSON, as it goes to other programs."""
    return _encoded(record).decode()


def decode_record(kind: type[RecordT], text: str) -> RecordT:
    """Build a record from JSON text.

    Args:
        kind: of the record.
        text: as `encode_record` gives it.

    Raises:
        UnsupportedSchemaVersionError: it carries a schema version that this release can't read,
            or none where its kind carries one.
        InvalidValueError: it is no JSON, or not of this kind.
        StitchkitError: as the record's own checks say.
    """
    try:
        found = json.loads(text).get("schemaVersion")
    except (ValueError, RecursionError, AttributeError) as error:
        raise InvalidValueError("$", f"{shown(text)} is not a JSON object: {error}") from error
    if issubclass(kind, Document) and found != SCHEMA_VERSION:
        raise UnsupportedSchemaVersionError(kind.__name__, found)
    try:
        return Codec[RecordT](kind).decode(text)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidValueError("$", f"{shown(text)} is not a {kind.__name__}: {error}") from error


def same_input(
    parts: tuple[Part, ...],
    metadata: dict[str, JSONValue] | None,
    admitted: Message,
) -> bool:
    """Tell whether a retry brings what was admitted: parts and metadata alike, types too.

    The order of keys doesn't count; 1, 1.0 and true differ, and so do an absent value and null.
    """
    return _canonical((parts, metadata)) == _canonical((admitted.parts, admitted.metadata))


def _encoded(value: object) -> bytes:
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _escaped(value, sort_keys=False)


def _canonical(value: object) -> bytes:
    try:
        return _SORTING_ENCODER.encode(value)
    except UnicodeEncodeError:
        return _escaped(value, sort_keys=True)


def _escaped(value: object, *, sort_keys: bool) -> bytes:
    plain = msgspec.to_builtins(value, builtin_types=(Decimal,))
    text = json.dumps(
        plain,
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=sort_keys,
        default=lambda number: f"{_NUMBER_MARK}{number}",
    )
    return values.escape_surrogates(_MARKED_NUMBER.sub(r"\1", text)).encode()


def _exact(number: str) -> float | Decimal:
    # A float where it says the same, as it does of every float that was encoded; else an amount.
    found, exact = float(number), Decimal(number)
    return found if Decimal(repr(found)) == exact else exact


def _json_values(
    parts: tuple[Part, ...], metadata: dict[str, JSONValue] | None
) -> Iterator[tuple[str, JSONValue]]:
    if metadata is not None:
        yield "$.metadata", metadata
    for index, part in enumerate(parts):
        for field, value in payload(part):
            yield f"$.parts[{index}].{field}", value
