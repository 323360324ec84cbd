"""How a record checks its own fields as it is built; nothing that knows a particular record."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import force_setattr

from stitchkit_django.core import values
from stitchkit_django.core.errors import InvalidValueError, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

T = TypeVar("T")


# Nothing that a record can hold leads back to it, so the garbage collector need not look: of a
# long conversation's records it would take longer than their making.
class Record(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """A frozen record: camelCase on the wire, what is absent left out."""


def check(record: msgspec.Struct, checker: Callable[[str, object], object], *fields: str) -> None:
    """Put each field through a checker of `core.values` and keep what it gives."""
    for field in fields:
        value = getattr(record, field)
        checked = checker(field, value)
        # Most values are as they should be, and setting costs more than comparing.
        if checked is not value:
            force_setattr(record, field, checked)


def check_member(record: msgspec.Struct, kind: type[StrEnum], field: str) -> None:
    """Make a field the member of its closed set, given as itself or as its plain string."""
    value = getattr(record, field)
    if type(value) is not kind:
        force_setattr(record, field, values.member(field, kind, value))


def check_is(record: msgspec.Struct, kind: type, *fields: str) -> None:
    """Check that each field is a record of a kind."""
    for field in fields:
        value = getattr(record, field)
        if not isinstance(value, kind):
            raise InvalidValueError(f"$.{field}", f"{shown(value)} is not a {kind.__name__}")


def check_type(record: msgspec.Struct, kind: type, *fields: str) -> None:
    """Check that each field is a record of a kind, or absent (None)."""
    for field in fields:
        if getattr(record, field) is not None:
            check_is(record, kind, field)


def check_tuple(record: msgspec.Struct, kind: type, field: str) -> None:
    """Make a field a tuple of records of a kind."""
    value = getattr(record, field)
    if not isinstance(value, tuple | list):
        raise InvalidValueError(f"$.{field}", f"{shown(value)} is not a sequence")
    for index, item in enumerate(value):
        if not isinstance(item, kind):
            reason = f"{shown(item)} is not a {kind.__name__}"
            raise InvalidValueError(f"$.{field}[{index}]", reason)
    set_field(record, field, value if type(value) is tuple else tuple(value))


def unpaired(record: msgspec.Struct, field: str, when: str) -> InvalidValueError:
    """Make the error of a field that must be set exactly in one case, which `when` names."""
    value = getattr(record, field)
    return InvalidValueError(f"$.{field}", f"is {shown(value)}, but must be set exactly {when}")


def set_field(record: msgspec.Struct, field: str, value: object) -> None:
    """Set a field of a frozen record that is being built."""
    if getattr(record, field) is not value:
        force_setattr(record, field, value)
