"""The life of a run as tables, from the data that the store decides by."""

from __future__ import annotations

from typing import Final

from stitchkit_django.core.lifecycle import (
    ACQUIRED_STATES,
    ACTIVE_STATES,
    ENDINGS,
    RESERVED_REASONS,
    TRANSITIONS,
    Operation,
    RunState,
)
from stitchkit_docs.markdown import code, table

ASKED_BY: Final = {
    Operation.JOIN: "`accept_input` with `coalesce_into`",
    Operation.ACQUIRE: "`acquire_run`",
    Operation.CHECKPOINT: "`checkpoint_run`",
    Operation.RENEW: "`renew_lease`",
    Operation.INTERRUPT: "`request_interrupt`",
    Operation.CANCEL: "`cancel_run`",
    Operation.REQUEUE: "`recover_run` with the action `requeue`",
    Operation.ABANDON: "`recover_run` with the action `abandon`",
    Operation.END: "`commit_terminal`",
    Operation.ABSORB: "another run's `commit_terminal` with `absorb`",
}


def states() -> str:
    """Give every state, and what it is to a worker."""
    return table(["state", "kind"], [[code(str(state)), _kind(state)] for state in RunState])


def transitions() -> str:
    """Give the state that each operation leads to from each active state."""
    active = [state for state in RunState if state in ACTIVE_STATES]
    rows = [
        [code(str(operation)), ASKED_BY[operation], *(_after(state, operation) for state in active)]
        for operation in Operation
    ]
    return table(["operation", "asked by", *(f"from `{state}`" for state in active)], rows)


def endings() -> str:
    """Give what each reason makes of a run and of its answer."""
    rows = [
        [
            code(str(reason)),
            code(str(ending.state)),
            "" if ending.status is None else code(str(ending.status)),
            "the store alone" if reason in RESERVED_REASONS else "the run's owner",
        ]
        for reason, ending in ENDINGS.items()
    ]
    return table(["reason", "state of the run", "status of its answer", "given by"], rows)


def _kind(state: RunState) -> str:
    if state in ACQUIRED_STATES:
        return "active, acquired"
    return "active" if state in ACTIVE_STATES else "terminal"


def _after(state: RunState, operation: Operation) -> str:
    if (state, operation) not in TRANSITIONS:
        return ""
    after = TRANSITIONS[state, operation]
    if after is not None:
        return code(str(after))
    return "by its reason"
