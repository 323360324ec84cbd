"""A check that fails says what was found, in any test framework and in none."""

from __future__ import annotations

import pytest

from stitchkit_django.core import Conflict, ConflictReason, NotFound
from stitchkit_django.testing import claims


def test_what_is_not_as_expected_is_told() -> None:
    with pytest.raises(AssertionError, match=r"^version: 1, and not 2"):
        claims.expect("version", 1, 2)

    claims.expect("version", 1, 1)


def test_a_long_value_is_cut() -> None:
    with pytest.raises(AssertionError) as caught:
        claims.expect("text", "x" * 10_000, "y")

    assert len(str(caught.value).splitlines()[0]) < 2 * claims.SHOWN_CHARACTERS


def test_another_outcome_is_told() -> None:
    conflict = Conflict(reason=ConflictReason.OWNER, version=1)

    with pytest.raises(AssertionError, match="not applied: NotFound"):
        claims.applied(NotFound())
    with pytest.raises(AssertionError, match="no duplicate: NotFound"):
        claims.duplicate(NotFound())
    with pytest.raises(AssertionError, match="no conflict: NotFound"):
        claims.refused(NotFound(), ConflictReason.OWNER)
    with pytest.raises(AssertionError, match="reason of the conflict"):
        claims.refused(conflict, ConflictReason.FENCE)

    assert claims.refused(conflict, ConflictReason.OWNER) is conflict


def test_an_error_that_is_not_raised_is_told() -> None:
    with pytest.raises(AssertionError, match="KeyError was to be raised, and not this returned: 7"):
        claims.raised(KeyError, lambda: 7)


def test_another_error_comes_out() -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        claims.raised(KeyError, fail)
