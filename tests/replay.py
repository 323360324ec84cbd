"""Replays the recorded histories through any store and compares every outcome and state."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stitchkit_django.core import (
    Absorption,
    Applied,
    Conflict,
    ConflictReason,
    Cost,
    Duplicate,
    NotFound,
    Outcome,
    Provenance,
    StitchkitError,
    TextPart,
    Usage,
)

if TYPE_CHECKING:
    from stitchkit_django.core import AgentStore, Message, Run, Snapshot

HISTORIES = Path(__file__).parent / "histories" / "reference.jsonl"
METHODS = {
    "accept": "accept_input",
    "acquire": "acquire_run",
    "checkpoint": "checkpoint_run",
    "interrupt": "request_interrupt",
    "recover": "recover_run",
    "terminal": "commit_terminal",
    "compact": "compact_history",
}


def histories() -> list[dict[str, Any]]:
    """Read the recorded histories."""
    with HISTORIES.open() as lines:
        return [json.loads(line, parse_float=Decimal) for line in lines]


def replay(store: AgentStore, conversation_id: str, history: dict[str, Any]) -> set[str]:
    """Replay one history on a fresh conversation, and give the kinds of step that it took.

    Raises:
        AssertionError: an outcome or a state differs; the message names seed and step.
    """
    kinds = set()
    for number, step in enumerate(history["steps"]):
        told = f"seed {history['seed']}, step {number}: {step['op']} {step['args']}"
        result = _result(store, conversation_id, step)
        assert result == step["result"], told
        kinds.add(f"{step['op']} {result['outcome']}")
        if "after" in step:
            snapshot = store.load_snapshot(conversation_id)
            active = [run.id for run in store.list_active_runs(conversation_id)]
            assert _state(snapshot, active) == step["after"], told
    for run in history["runs"]:
        view = store.load_run(conversation_id, run["id"])
        assert view is not None
        found = {
            "id": view.run.id,
            "state": view.run.state,
            "revision": view.run.revision,
            "answer": _text(view.assistant),
        }
        assert found == run, f"seed {history['seed']}, run {run['id']}"
    return kinds


def _result(store: AgentStore, conversation_id: str, step: dict[str, Any]) -> dict[str, Any]:
    try:
        method = getattr(store, METHODS[step["op"]])
        outcome: Outcome = method(conversation_id, **_arguments(step["op"], step["args"]))
    except StitchkitError:
        return {"outcome": "error"}
    match outcome:
        case Applied():
            return {"outcome": "applied", "version": outcome.version}
        case NotFound():
            return {"outcome": "not_found"}
        case Conflict(reason=ConflictReason.VERSION):
            return {"outcome": "conflict", "actual": outcome.version}
        case Conflict():
            assert outcome.run is not None
            return {"outcome": "conflict", "actual": outcome.run.revision}
        case Duplicate():
            return {
                "outcome": "duplicate",
                "run_id": outcome.run.id,
                "run_state": outcome.run.state,
                "input_message_id": outcome.input.id,
                "assistant_message_id": outcome.run.assistant_message_id,
                "answer": _text(outcome.assistant),
            }


def _arguments(op: str, args: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in args.items() if value is not None}
    if "text" in given:
        given["summary_parts" if op == "compact" else "parts"] = given.pop("text")
    if "replaced_message_ids" in given:
        given["message_ids"] = given.pop("replaced_message_ids")
    if "cost" in given:
        amount = Decimal(given.pop("cost"))
        cost = Cost(amount=amount, currency="USD", provenance=Provenance.PROVIDER_REPORTED)
        given["usage"] = Usage(cost=cost)
    if "absorb" in given:
        given["absorb"] = [Absorption(**entry) for entry in given["absorb"]]
    return given


def _state(snapshot: Snapshot, active: list[str]) -> dict[str, Any]:
    return {
        "version": snapshot.version,
        "runs": [_run(run) for run in snapshot.runs],
        "messages": [
            {
                "id": message.id,
                "role": message.role,
                "status": message.status,
                "run_id": message.run_id,
                "text": _text(message),
            }
            for message in snapshot.messages
        ],
        "active": active,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "state": run.state,
        "revision": run.revision,
        "owner_id": run.owner_id,
        "fencing_token": run.fencing_token,
        "terminal_reason": run.terminal_reason,
        "terminal_policy_name": run.terminal_policy_name,
        "absorbed_into_run_id": run.absorbed_into_run_id,
        "input_message_ids": list(run.input_message_ids),
        "assistant_message_id": run.assistant_message_id,
        "cost": run.usage.cost.amount if run.usage and run.usage.cost else None,
    }


def _text(message: Message | None) -> str | None:
    if message is None:
        return None
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))
