"""Conversations in the form of the retired aggregate: by hand, and as a recorded history has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CONVERSATION = "c"


def at(second: int) -> str:
    """Give a moment as the aggregate writes it."""
    return f"2026-03-01T12:{second // 60:02d}:{second % 60:02d}.000Z"


def message(identity: str, *, second: int = 0, **fields: Any) -> dict[str, Any]:
    """Give a user message, or what the fields make of it."""
    return {
        "schemaVersion": 1,
        "id": identity,
        "conversationId": CONVERSATION,
        "role": "user",
        "status": "committed",
        "parts": [{"type": "text", "text": f"Text of {identity}"}],
        "createdAt": at(second),
        "updatedAt": at(second),
        **fields,
    }


def system(identity: str) -> dict[str, Any]:
    """Give a message that no run has."""
    return message(identity, role="system")


def answer(run_id: str, status: str = "completed", **fields: Any) -> dict[str, Any]:
    """Give the answer of a run."""
    return message(f"a-{run_id}", role="assistant", status=status, runId=run_id, **fields)


def run(
    identity: str, *input_ids: str, state: str = "queued", second: int = 0, **fields: Any
) -> dict[str, Any]:
    """Give a run without fence and usage, as older ones are."""
    return {
        "schemaVersion": 1,
        "id": identity,
        "conversationId": CONVERSATION,
        "inputMessageIds": list(input_ids),
        "assistantMessageId": f"a-{identity}",
        "state": state,
        "revision": 0 if state == "queued" else 2,
        "createdAt": at(second),
        "updatedAt": at(second + 1),
        **fields,
    }


def completed(identity: str, *input_ids: str, **fields: Any) -> dict[str, Any]:
    """Give a run that its owner ended."""
    ended = {"state": "completed", "terminalReason": "success", "ownerId": "worker"}
    return run(identity, *input_ids, **(ended | fields))


def admission(input_id: str, run_id: str) -> dict[str, str]:
    """Give the admission of an input."""
    return {
        "idempotencyKey": f"k-{input_id}",
        "inputMessageId": input_id,
        "runId": run_id,
        "assistantMessageId": f"a-{run_id}",
    }


def aggregate(
    runs: Iterable[dict[str, Any]],
    messages: Iterable[dict[str, Any]],
    *,
    version: int = 20,
    admissions: Sequence[dict[str, str]] | None = None,
    **state: Any,
) -> dict[str, Any]:
    """Give the whole; each input of each run was admitted, unless the admissions are given."""
    held = list(runs)
    if admissions is None:
        admissions = [
            admission(input_id, one["id"]) for one in held for input_id in one["inputMessageIds"]
        ]
    return {
        "state": {
            "schemaVersion": 1,
            "conversationId": CONVERSATION,
            "version": version,
            "runs": held,
            "admissions": list(admissions),
            **state,
        },
        "messages": list(messages),
    }


def line(document: dict[str, Any]) -> str:
    """Give a document as a line."""
    return json.dumps(document)


def recorded(history: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give what a recorded history has led to before its first compaction.

    The messages stand in the order in which they came, as the aggregate kept them.

    Returns:
        The aggregate, and the recorded state that it is of.
    """
    ends = {one["id"]: one for one in history["runs"]}
    order: list[str] = []
    admissions: list[dict[str, str]] = []
    absorbed: dict[str, dict[str, Any]] = {}
    known: dict[str, dict[str, Any]] = {}
    after: dict[str, Any] = {}
    for step in history["steps"]:
        if "after" not in step:
            continue
        if step["op"] == "compact":
            break
        after, args = step["after"], step["args"]
        order += [one["id"] for one in after["messages"] if one["id"] not in order]
        if step["op"] == "accept":
            asked = args["coalesce_into"] or args["run_id"]
            admissions.append(
                admission(args["input_message_id"], asked)
                | {"idempotencyKey": args["idempotency_key"]}
            )
        here = {one["id"]: one for one in after["runs"]}
        for gone in known.keys() - here.keys() - absorbed.keys():
            absorbed[gone] = known[gone] | {
                "state": "superseded",
                "revision": ends[gone]["revision"],
                "terminal_reason": "absorbed",
                "absorbed_into_run_id": args["run_id"],
            }
        known |= here
    messages = {one["id"]: one for one in after["messages"]}
    runs = [*after["runs"], *absorbed.values()]
    document = aggregate(
        [_recorded_run(number, one) for number, one in enumerate(runs)],
        [_recorded_message(number, messages[one]) for number, one in enumerate(order)],
        version=after["version"],
        admissions=admissions,
    )
    return document, after


def _recorded_run(number: int, one: dict[str, Any]) -> dict[str, Any]:
    optional = {
        "ownerId": one["owner_id"],
        "fencingToken": one["fencing_token"],
        "terminalReason": one["terminal_reason"],
        "terminalPolicyName": one["terminal_policy_name"],
        "absorbedIntoRunId": one["absorbed_into_run_id"],
    }
    if one["cost"] is not None:
        cost = {"value": float(one["cost"]), "currency": "USD", "provenance": "provider-reported"}
        optional["usage"] = {"cost": cost}
    given = {name: value for name, value in optional.items() if value is not None}
    return run(
        one["id"],
        *one["input_message_ids"],
        state=one["state"],
        second=number,
        revision=one["revision"],
        assistantMessageId=one["assistant_message_id"],
        **given,
    )


def _recorded_message(number: int, one: dict[str, Any]) -> dict[str, Any]:
    given = {} if one["run_id"] is None else {"runId": one["run_id"]}
    return message(
        one["id"],
        second=number,
        role=one["role"],
        status=one["status"],
        parts=[{"type": "text", "text": one["text"]}],
        **given,
    )
