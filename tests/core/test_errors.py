"""An error tells its facts, and shows of a hostile value no more than a line holds."""

from __future__ import annotations

import pytest

from stitchkit_django.core import (
    ConversationPurgedError,
    CorruptRecordError,
    IdentityTakenError,
    InvalidAbsorptionError,
    InvalidCompactionError,
    InvalidIdentifierError,
    InvalidValueError,
    ReplayNotSafeError,
    StitchkitError,
    StoreUnavailableError,
    UnsupportedSchemaVersionError,
)
from stitchkit_django.core.errors import shown

HOSTILE = "\x00\ud83d" * 5_000


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError


def test_a_value_is_shown_printable_and_cut() -> None:
    assert shown("naïve") == "'na\\xefve'"
    assert len(shown(HOSTILE)) <= 81
    assert shown(HOSTILE).isascii() is False  # the mark of the cut
    assert shown(HOSTILE).isprintable()


def test_a_value_that_can_not_be_shown_is_named_by_its_type() -> None:
    assert shown(Mute()) == "<Mute>"
    assert shown(10**5_000) == "<int>"


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (InvalidValueError("$.x", "is bad"), {"path": "$.x", "reason": "is bad"}),
        (
            InvalidIdentifierError("run_id", HOSTILE, "is bad"),
            {"name": "run_id", "value": HOSTILE, "reason": "is bad"},
        ),
        (
            IdentityTakenError(HOSTILE, "x"),
            {"conversation_id": HOSTILE, "identifier": "x"},
        ),
        (ReplayNotSafeError(HOSTILE), {"run_id": HOSTILE}),
        (InvalidAbsorptionError(HOSTILE, "is bad"), {"run_id": HOSTILE}),
        (InvalidCompactionError(["a", "b"], "is bad"), {"message_ids": ("a", "b")}),
        (ConversationPurgedError(HOSTILE), {"conversation_id": HOSTILE}),
        (CorruptRecordError("run 'r'", "is bad"), {"row": "run 'r'", "reason": "is bad"}),
        (
            UnsupportedSchemaVersionError("run 'r'", HOSTILE),
            {"row": "run 'r'", "schema_version": HOSTILE},
        ),
        (StoreUnavailableError("is down"), {}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_has_its_facts_as_attributes_and_one_printable_line(
    error: StitchkitError, facts: dict[str, object]
) -> None:
    assert {name: getattr(error, name) for name in facts} == facts
    assert str(error).isprintable()
    assert len(str(error)) < 300
