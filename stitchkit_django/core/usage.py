"""What a run has used up: token counts and cost, each with how it is known."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from typing import Final

import msgspec

from stitchkit_django.core import values
from stitchkit_django.core.checked import Record, check, check_member, check_type, set_field
from stitchkit_django.core.errors import InvalidValueError, shown

MAX_COST_DIGITS: Final = 28
MAX_COST_PLACES: Final = 10
_CURRENCY: Final = re.compile("[A-Z]{3}")


class Provenance(StrEnum):
    """How a number came to be known."""

    PROVIDER_REPORTED = "provider-reported"
    COMPUTED = "computed"
    ESTIMATED = "estimated"
    UNAVAILABLE = "unavailable"


class TokenCount(Record, frozen=True, kw_only=True):
    """A number of tokens, and how it is known."""

    value: int | None = None
    """Absent exactly when the provenance is `unavailable`: unknown is not zero."""
    provenance: Provenance

    def __post_init__(self) -> None:
        """Check that value and provenance agree."""
        check(self, values.optional_count, "value")
        _check_provenance(self, "value")


class Cost(Record, frozen=True, kw_only=True):
    """An amount of money, and how it is known."""

    amount: Decimal | None = msgspec.field(default=None, name="value")
    """At most 28 digits, 10 after the point, not negative; `value` on the wire, a JSON number.
    Absent exactly when the provenance is `unavailable`."""
    currency: str | None = None
    """ISO 4217 code; there whenever the amount is."""
    provenance: Provenance

    def __post_init__(self) -> None:
        """Check that amount, currency and provenance agree."""
        _check_provenance(self, "amount")
        if self.amount is not None:
            set_field(self, "amount", _amount(self.amount))
            if self.currency is None:
                raise InvalidValueError("$.currency", "an amount needs its currency")
        check(self, values.optional_text, "currency")
        if self.currency is not None and not _CURRENCY.fullmatch(self.currency):
            reason = f"{shown(self.currency)} is not an ISO 4217 code of three capital letters"
            raise InvalidValueError("$.currency", reason)


class Usage(Record, frozen=True, kw_only=True):
    """What a run has used up."""

    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    reasoning_tokens: TokenCount | None = None
    cache_read_tokens: TokenCount | None = None
    cache_write_tokens: TokenCount | None = None
    cost: Cost | None = None

    def __post_init__(self) -> None:
        """Check each field's type; the counts have checked themselves."""
        check_type(self, TokenCount, "input_tokens", "output_tokens", "reasoning_tokens")
        check_type(self, TokenCount, "cache_read_tokens", "cache_write_tokens")
        check_type(self, Cost, "cost")


def _check_provenance(record: TokenCount | Cost, field: str) -> None:
    check_member(record, Provenance, "provenance")
    value = getattr(record, field)
    if (value is None) is not (record.provenance is Provenance.UNAVAILABLE):
        reason = f"{shown(value)} with provenance {record.provenance}"
        told = f"{reason}: a value is absent exactly when it is {Provenance.UNAVAILABLE}"
        raise InvalidValueError(f"$.{field}", told)


def _amount(value: object) -> Decimal:
    amount = Decimal(value) if type(value) is int else value
    if not isinstance(amount, Decimal) or not amount.is_finite():
        raise InvalidValueError("$.amount", f"{shown(value)} is not a finite Decimal")
    exponent = int(amount.as_tuple().exponent)  # finite: never one of its letters
    places = max(0, -exponent)
    digits = len(amount.as_tuple().digits) + max(0, exponent)
    if digits > MAX_COST_DIGITS or places > MAX_COST_PLACES:
        limit = f"at most {MAX_COST_DIGITS} digits, {MAX_COST_PLACES} after the point"
        raise InvalidValueError("$.amount", f"{shown(value)} has too many digits: {limit}")
    if amount < 0:
        raise InvalidValueError("$.amount", f"{amount} is negative")
    return amount.copy_abs()  # no negative zero: a database has none
