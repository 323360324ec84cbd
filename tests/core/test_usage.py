"""What a run has used up: unknown is not zero, and money is exact."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from stitchkit_django.core import Cost, InvalidValueError, Provenance, TokenCount, Usage

KNOWN = (Provenance.PROVIDER_REPORTED, Provenance.COMPUTED, Provenance.ESTIMATED)


@pytest.mark.parametrize("provenance", KNOWN)
def test_a_known_number_has_a_value_and_an_unavailable_one_has_none(
    provenance: Provenance,
) -> None:
    assert TokenCount(value=0, provenance=provenance).value == 0
    assert TokenCount(provenance=Provenance.UNAVAILABLE).value is None
    assert Cost(provenance=Provenance.UNAVAILABLE).amount is None
    for kind, field, value in ((TokenCount, "value", 0), (Cost, "amount", Decimal(0))):
        made: Any = kind
        with pytest.raises(InvalidValueError) as refused:
            made(provenance=provenance)
        assert refused.value.path == f"$.{field}"
        with pytest.raises(InvalidValueError) as refused:
            made(**{field: value}, provenance="unavailable")
        assert refused.value.path == f"$.{field}"


@pytest.mark.parametrize("value", [-1, True, 1.5, "1", 2**63], ids=repr)
def test_a_token_count_is_a_whole_number(value: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        TokenCount(value=value, provenance=Provenance.COMPUTED)

    assert refused.value.path == "$.value"


def test_a_provenance_is_of_its_closed_set() -> None:
    with pytest.raises(InvalidValueError) as refused:
        TokenCount(value=1, provenance="guessed")  # type: ignore[arg-type] # on purpose

    assert refused.value.path == "$.provenance"


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param("0", id="nothing"),
        pytest.param("9" * 28, id="28 digits"),
        pytest.param("123456789012345678.0123456789", id="28 digits, 10 after the point"),
        pytest.param("1E+27", id="28 digits as written with an exponent"),
        pytest.param("0.0000000001", id="the 10th place"),
    ],
)
def test_an_amount_is_kept_digit_by_digit(amount: str) -> None:
    cost = Cost(amount=Decimal(amount), currency="USD", provenance=Provenance.COMPUTED)

    assert cost.amount == Decimal(amount)


def test_a_whole_amount_may_be_an_int() -> None:
    cost = Cost(amount=2, currency="USD", provenance=Provenance.COMPUTED)  # type: ignore[arg-type] # on purpose

    assert isinstance(cost.amount, Decimal)


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param(Decimal("1" * 29), id="29 digits"),
        pytest.param(Decimal("1E+28"), id="29 digits as written with an exponent"),
        pytest.param(Decimal("0.00000000001"), id="an 11th place"),
        pytest.param(Decimal("-0.01"), id="negative"),
        pytest.param(Decimal("NaN"), id="NaN"),
        pytest.param(Decimal("Infinity"), id="infinity"),
        pytest.param(0.1, id="float"),
        pytest.param("0.1", id="str"),
        pytest.param(True, id="bool"),
    ],
)
def test_an_amount_that_can_not_be_kept_is_refused(amount: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        Cost(amount=amount, currency="USD", provenance=Provenance.COMPUTED)

    assert refused.value.path == "$.amount"


@pytest.mark.parametrize("currency", [None, "", "usd", "US", "USDT", "ÜSD", 840], ids=repr)
def test_an_amount_has_its_currency(currency: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        Cost(amount=Decimal(1), currency=currency, provenance=Provenance.COMPUTED)

    assert refused.value.path == "$.currency"


@pytest.mark.parametrize("field", Usage.__struct_fields__)
def test_a_usage_is_made_of_counts_and_a_cost(field: str) -> None:
    made: Any = Usage
    with pytest.raises(InvalidValueError) as refused:
        made(**{field: 7})

    assert refused.value.path == f"$.{field}"
