"""Which kinds of step there are: each operation with each thing that can come of it."""

from __future__ import annotations

from itertools import chain
from typing import Final

from stitchkit_django.core import Applied, Conflict, Duplicate, NotFound

_ALWAYS: Final = ("applied", "ConversationPurgedError", "InvalidIdentifierError")
_RUN: Final = (*_ALWAYS, "InvalidValueError", "not_found", "state")
_OUTCOMES: Final = {
    "accept": (*_ALWAYS, "same", "other", "version", "InvalidValueError", "IdentityTakenError"),
    "join": (*_RUN, "same", "other", "version", "IdentityTakenError"),
    "acquire": (*_RUN, "revision", "queue"),
    "checkpoint": (*_RUN, "revision", "owner", "fence"),
    "renew": (*_RUN, "owner", "fence"),
    "interrupt": (*_RUN, "revision"),
    "cancel": (*_RUN, "revision"),
    "requeue": (*_RUN, "revision", "lease", "ReplayNotSafeError"),
    "abandon": (*_RUN, "revision", "lease"),
    "end": (*_RUN, "revision", "owner", "fence", "InvalidAbsorptionError"),
    "compact": (
        *_ALWAYS,
        "version",
        "not_found",
        "InvalidValueError",
        "InvalidCompactionError",
        "IdentityTakenError",
    ),
    "purge": (*_ALWAYS, "version", "state", "not_found", "InvalidValueError"),
}

KINDS: Final = frozenset(
    chain.from_iterable(
        ((operation, outcome) for outcome in outcomes) for operation, outcomes in _OUTCOMES.items()
    )
)
"""All that can be reached without a write past the store. Beside a version, an admission and a
purge have nothing to be told; a queue binds only who acquires, a lease only who recovers."""


def kind(outcome: object) -> str:
    """Name what came of a call: an outcome, the reason of a conflict, or an error's type."""
    match outcome:
        case Applied() | NotFound():
            return outcome.outcome
        case Duplicate():
            return "same" if outcome.same_input else "other"
        case Conflict():
            return str(outcome.reason)
        case _:
            return type(outcome).__name__
