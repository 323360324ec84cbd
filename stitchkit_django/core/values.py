"""What one value may be: identifier, text, moment, number, JSON; no record, no limit of a store."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from stitchkit_django.core.errors import (
    InvalidIdentifierError,
    InvalidValueError,
    shown,
)

if TYPE_CHECKING:
    JSONValue: TypeAlias = (
        dict[str, "JSONValue"] | list["JSONValue"] | str | int | float | bool | None
    )
else:
    # msgspec reads the annotations and knows no recursive alias; `json_value` checks instead.
    JSONValue = Any

MAX_IDENTIFIER_CHARACTERS: Final = 255
MAX_INTEGER_DIGITS: Final = 4_000
# Deeper values would exhaust the stack of the JSON codec; a store's own limit lies below it.
DEPTH_CEILING: Final = 500
# So many values can't stand in a message of the usual limit: each takes a byte and its comma. One
# list that stands twice in another, and so on, would be endless without a bound.
NODE_CEILING: Final = 1_000_000
# Of the databases' bigint.
MAX_COUNT: Final = 2**63 - 1

_INTEGER_BOUND: Final = 10**MAX_INTEGER_DIGITS
_SURROGATE_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

EnumT = TypeVar("EnumT", bound=StrEnum)


def identifier(name: str, value: object) -> str:
    """Check an id, idempotency key, owner id or policy name.

    Args:
        name: of the argument or field, for the message.
        value: 1 to 255 characters, no white space at either end, no control characters, no
            surrogates.

    Returns:
        The same text as a plain str.

    Raises:
        InvalidIdentifierError: the value breaks the rule.
    """
    if type(value) is str and are_plain(value):
        return value
    if not isinstance(value, str):
        raise InvalidIdentifierError(name, value, "is not a str")
    if not value:
        raise InvalidIdentifierError(name, value, "is empty")
    if len(value) > MAX_IDENTIFIER_CHARACTERS:
        reason = f"has {len(value)} characters: at most {MAX_IDENTIFIER_CHARACTERS} are allowed"
        raise InvalidIdentifierError(name, value, reason)
    if value[0].isspace() or value[-1].isspace():
        raise InvalidIdentifierError(name, value, "has white space at an end")
    if _CONTROL.search(value):
        raise InvalidIdentifierError(name, value, "has a control character")
    if not value.isascii() and _SURROGATE.search(value):
        raise InvalidIdentifierError(name, value, "has a surrogate")
    return _plain(value)


def are_plain(*given: object) -> bool:
    """Tell whether all are identifiers as nearly every one is, which need no further look."""
    for value in given:
        if (
            type(value) is not str
            or not 0 < len(value) <= MAX_IDENTIFIER_CHARACTERS
            or not value.isascii()
            or not value.isprintable()
            or " " in value
        ):
            return False
    return True


def are_utc(*given: object) -> bool:
    """Tell whether all are moments in UTC as `moment` gives them."""
    for value in given:  # noqa: SIM110 - a generator takes longer than all looks together
        if type(value) is not datetime or value.tzinfo is not UTC:
            return False
    return True


def are_counts(*given: object) -> bool:
    """Tell whether all are whole numbers of 0 or more, none larger than a bigint."""
    for value in given:  # noqa: SIM110 - likewise
        if type(value) is not int or not 0 <= value <= MAX_COUNT:
            return False
    return True


def optional_identifier(name: str, value: object) -> str | None:
    """Check an identifier that may be absent (None); otherwise as `identifier`."""
    return None if value is None else identifier(name, value)


def text(name: str, value: object) -> str:
    """Check a text and join its surrogate pairs.

    A high surrogate directly before a low one, as joined stream chunks leave it, becomes the
    character that the pair stands for; a lone surrogate stays.

    Raises:
        InvalidValueError: not a str.
    """
    if not isinstance(value, str):
        raise InvalidValueError(f"$.{name}", f"{shown(value)} is not a str")
    plain = _plain(value)
    return plain if plain.isascii() else _joined(plain)


def optional_text(name: str, value: object) -> str | None:
    """Check a text that may be absent (None); otherwise as `text`."""
    return None if value is None else text(name, value)


def full_text(name: str, value: object) -> str:
    """Check a text that must not be empty; otherwise as `text`.

    Raises:
        InvalidValueError: not a str, or ''.
    """
    checked = text(name, value)
    if not checked:
        raise InvalidValueError(f"$.{name}", "is empty")
    return checked


def escape_surrogates(value: str) -> str:
    r"""Give JSON text with each surrogate as the escape `\uXXXX`, all else as it was."""
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", value)


def moment(name: str, value: object) -> datetime:
    """Check a moment and give it in UTC.

    Raises:
        InvalidValueError: not a datetime, or one without a time zone.
    """
    if not isinstance(value, datetime):
        raise InvalidValueError(f"$.{name}", f"{shown(value)} is not a datetime")
    if value.tzinfo is UTC:
        return value
    if value.utcoffset() is None:
        reason = f"{shown(value)} has no time zone: give an aware datetime in UTC"
        raise InvalidValueError(f"$.{name}", reason)
    return value.astimezone(UTC)


def optional_moment(name: str, value: object) -> datetime | None:
    """Check a moment that may be absent (None); otherwise as `moment`."""
    return None if value is None else moment(name, value)


def count(name: str, value: object) -> int:
    """Check a whole number of 0 or more that a database's bigint holds.

    Raises:
        InvalidValueError: not an int (a bool is none), negative, or over 2**63 - 1.
    """
    return _whole(name, value, 0)


def optional_count(name: str, value: object) -> int | None:
    """Check a whole number that may be absent (None); otherwise as `count`."""
    return None if value is None else _whole(name, value, 0)


def ordinal(name: str, value: object) -> int:
    """Check a whole number of 1 or more; otherwise as `count`."""
    return _whole(name, value, 1)


def optional_ordinal(name: str, value: object) -> int | None:
    """Check a whole number that may be absent (None); otherwise as `ordinal`."""
    return None if value is None else _whole(name, value, 1)


def flag(name: str, value: object) -> bool:
    """Check a truth value.

    Raises:
        InvalidValueError: neither True nor False.
    """
    if not isinstance(value, bool):
        raise InvalidValueError(f"$.{name}", f"{shown(value)} is neither True nor False")
    return value


def member(name: str, kind: type[EnumT], value: object) -> EnumT:
    """Check a member of a closed set, given as itself or as its plain string.

    Raises:
        InvalidValueError: not of the set; the message lists it.
    """
    if isinstance(value, str):
        try:
            return kind(value)
        except ValueError:
            pass
    reason = f"{shown(value)} is not one of {', '.join(kind)}"
    raise InvalidValueError(f"$.{name}", reason) from None


def identifiers(name: str, value: object) -> tuple[str, ...]:
    """Check a sequence of identifiers and give it as a tuple.

    Raises:
        InvalidValueError: not a tuple or list.
        InvalidIdentifierError: one breaks the rule.
    """
    if not isinstance(value, tuple | list):
        raise InvalidValueError(f"$.{name}", f"{shown(value)} is not a sequence of ids")
    return tuple(identifier(name, item) for item in value)


def json_object(name: str, value: object) -> JSONValue:
    """Check a JSON object that may be absent (None); otherwise as `json_value`.

    Raises:
        InvalidValueError: not a dict, or as `json_value`.
    """
    if value is None:
        return None
    if type(value) is not dict:
        raise InvalidValueError(f"$.{name}", f"{shown(value)} is not a dict")
    return json_value(name, value)


def json_value(name: str, value: object) -> JSONValue:
    """Check a JSON value of exactly the types that JSON has, and copy it.

    The copy keeps the record from a caller who goes on changing what it gave. The walk is
    iterative: a hostile depth is an error of its own, not one of the interpreter.

    Args:
        name: of the argument or field, for the message.
        value: dict with str keys, list, str, int, float, bool or None, of exactly these types;
            numbers finite, integers of at most 4,000 digits, at most 500 levels, at most a million
            values in all.

    Returns:
        The copy, with its surrogate pairs joined.

    Raises:
        InvalidValueError: another type, number or depth; its path names the place.
    """
    top: list[JSONValue] = [None]
    pending: list[_Pending] = [(top, 0, value, _Path(None, f"$.{name}"), 0)]
    nodes = 0
    while pending:
        holder, key, item, place, level = pending.pop()
        nodes += 1
        if nodes > NODE_CEILING:
            raise InvalidValueError(f"$.{name}", f"holds more than {NODE_CEILING} values")
        copy: JSONValue
        if type(item) is dict or type(item) is list:
            if level == DEPTH_CEILING:
                raise InvalidValueError(str(place), f"lies deeper than {DEPTH_CEILING} levels")
            copy = _holder(item, place, level + 1, pending)
        else:
            copy = _scalar(item, place)
        holder[key] = copy
    return top[0]


def depth(value: JSONValue) -> int:
    """Count the levels of dict and list in a checked JSON value; 0 for a scalar."""
    levels = 0
    level: list[JSONValue] = [value]
    while True:
        holders = [item for item in level if isinstance(item, dict | list)]
        if not holders:
            return levels
        levels += 1
        level = [
            item
            for holder in holders
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]


class _Path:
    """A step of a JSON path; written out only for an error, since most values have none."""

    __slots__ = ("parent", "step")

    def __init__(self, parent: _Path | None, step: str | int) -> None:
        self.parent = parent
        self.step = step

    def __str__(self) -> str:
        steps: list[str] = []
        place: _Path = self
        while place.parent is not None:
            steps.append(_written(place.step))
            place = place.parent
        steps.append(str(place.step))
        return "".join(reversed(steps))


def _written(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.match(step) else f"[{shown(step)}]"


# Where the copy goes, its key there, the value, its place, how many levels stand above it.
_Pending: TypeAlias = tuple[Any, str | int, object, _Path, int]


def _holder(
    item: dict[Any, Any] | list[Any], place: _Path, level: int, pending: list[_Pending]
) -> JSONValue:
    # The keys go in at once and in order; the values are filled in as they are reached.
    if isinstance(item, list):
        elements: list[JSONValue] = [None] * len(item)
        pending.extend(
            (elements, index, element, _Path(place, index), level)
            for index, element in enumerate(item)
        )
        return elements
    members: dict[str, JSONValue] = {}
    for key, value in item.items():
        if type(key) is not str:
            reason = f"the key {shown(key)} is not a str but {type(key).__name__}"
            raise InvalidValueError(str(place), reason)
        joined = key if key.isascii() else _joined(key)
        if joined in members:
            reason = f"the key {shown(joined)} stands twice once its surrogates are joined"
            raise InvalidValueError(str(place), reason)
        members[joined] = None
        pending.append((members, joined, value, _Path(place, key), level))
    return members


def _scalar(item: object, place: _Path) -> JSONValue:
    # Exact types: a subclass (an enum, a template's safe text) would be read back as another.
    if type(item) is str:
        return item if item.isascii() else _joined(item)
    if item is None or type(item) is bool:
        return item
    if type(item) is int:
        if not -_INTEGER_BOUND < item < _INTEGER_BOUND:
            reason = f"an integer of more than {MAX_INTEGER_DIGITS} digits"
            raise InvalidValueError(str(place), reason)
        return item
    if type(item) is float:
        if not math.isfinite(item):
            raise InvalidValueError(str(place), f"{item} is not a number that JSON has")
        return item
    reason = (
        f"{shown(item)} is a {type(item).__name__}: only dict, list, str, int, float, bool and None"
    )
    raise InvalidValueError(str(place), reason)


def _plain(value: str) -> str:
    # `str(value)` would leave a template's safe text, and any other subclass, as it is.
    return value if type(value) is str else str.__str__(value)


def _joined(value: str) -> str:
    # The common text holds no surrogate at all, and encoding tells so ten times faster than a
    # search does.
    try:
        value.encode()
    except UnicodeEncodeError:
        return _SURROGATE_PAIR.sub(_pair_to_character, value)
    return value


def _pair_to_character(match: re.Match[str]) -> str:
    return match[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _whole(name: str, value: object, least: int) -> int:
    if type(value) is not int:
        raise InvalidValueError(f"$.{name}", f"{shown(value)} is not an int")
    if not least <= value <= MAX_COUNT:
        raise InvalidValueError(f"$.{name}", f"{shown(value)} is not in {least} to {MAX_COUNT}")
    return value
