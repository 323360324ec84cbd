"""How a check says that a law is broken: plain asserts that name what was found; no law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from stitchkit_django.core import Applied, Conflict, Duplicate

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import ConflictReason, Outcome, Run

ErrorT = TypeVar("ErrorT", bound=Exception)

SHOWN_CHARACTERS: Final = 2_000
"""How much of a value a failed check shows."""


def expect(what: str, found: object, expected: object) -> None:
    """Claim that something is as expected; no test framework need rewrite the assert."""
    assert found == expected, f"{what}: {_shown(found)}, and not {_shown(expected)}"


def applied(outcome: Outcome) -> Applied:
    """Claim that an operation was applied, and give what it has written."""
    assert isinstance(outcome, Applied), f"not applied: {_shown(outcome)}"
    return outcome


def run_of(outcome: Outcome) -> Run:
    """Claim that an operation was applied, and give its run."""
    run = applied(outcome).run
    assert run is not None, f"applied to no run: {_shown(outcome)}"
    return run


def duplicate(outcome: Outcome) -> Duplicate:
    """Claim that a key was known, and give what its first admission became."""
    assert isinstance(outcome, Duplicate), f"no duplicate: {_shown(outcome)}"
    return outcome


def refused(outcome: Outcome, reason: ConflictReason) -> Conflict:
    """Claim that an operation was refused for a reason, and give what is."""
    assert isinstance(outcome, Conflict), f"no conflict: {_shown(outcome)}"
    expect("reason of the conflict", outcome.reason, reason)
    return outcome


def raised(kind: type[ErrorT], call: Callable[[], object]) -> ErrorT:
    """Claim that a call raises an error of a kind, and give it."""
    try:
        outcome = call()
    except kind as error:
        return error
    message = f"{kind.__name__} was to be raised, and not this returned: {_shown(outcome)}"
    raise AssertionError(message)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
