"""A match over an outcome is known to be complete, and one that forgets a kind is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, assert_type

from stitchkit_django.core import (
    Applied,
    Conflict,
    ConflictReason,
    Duplicate,
    Message,
    NotFound,
    Run,
)

if TYPE_CHECKING:
    from stitchkit_django.core import AgentStore, Outcome


def every_kind_of_an_admission(store: AgentStore) -> Run | None:
    outcome = store.accept_input("c", "k", "Hello?")
    match outcome:
        case Applied(run=run):
            return assert_type(run, Run | None)
        case Duplicate(run=run, assistant=assistant):
            assert_type(assistant, Message | None)
            return assert_type(run, Run)
        case Conflict(reason=reason):
            assert_type(reason, ConflictReason)
            return None
        case NotFound():
            return None
        case _:
            assert_never(outcome)


def every_kind_of_another_operation(store: AgentStore) -> str:
    outcome = store.cancel_run("c", "r")
    match outcome:
        case Applied():
            return "applied"
        case Conflict():
            return "conflict"
        case NotFound():
            return "not found"
        case _:
            assert_never(outcome)


def every_kind_of_any_outcome(outcome: Outcome) -> str:
    match outcome:
        case Applied() | Duplicate():
            return "there"
        case Conflict() | NotFound():
            return "nothing was written"
        case _:
            assert_never(outcome)


def a_forgotten_kind_is_refused(outcome: Outcome) -> str:
    match outcome:
        case Applied() | Duplicate() | Conflict():
            return "known"
        case _:
            assert_never(outcome)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def told_apart_by_their_tag(outcome: Outcome) -> Message | None:
    if outcome.outcome == "duplicate":
        return outcome.assistant
    return None
