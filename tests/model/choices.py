"""What the state machine draws: mostly what is right, and each thing that may be wrong with it."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hypothesis import strategies as st

from stitchkit_django.core import (
    Cost,
    FilePart,
    Part,
    Provenance,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    TextPart,
    TokenCount,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
    Usage,
)
from stitchkit_django.core.lifecycle import RESERVED_REASONS, TerminalReason

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN: Final = "nobody's"
"""An id that nothing has."""
OWNERS: Final = ("worker-1", "worker-2")

EXPECTED: Final = st.sampled_from([None] * 5 + [0, 0, 1])
"""How far a version or revision is from the one that is there; None: not given."""
# The first has lapsed by the next step, the second won't before the end.
LEASES: Final = st.sampled_from([None, timedelta(microseconds=1), timedelta(hours=1)])
FIRST_OWNERS: Final = st.sampled_from([None, *OWNERS])


class Claim(NamedTuple):
    """Which run a call names, and how it says that the run is its own."""

    which: int | str | None
    """None: the one that the operation is most likely for; a number: any; else one unknown."""
    offset: int
    """How far the expected revision is from the run's."""
    owner: str | None
    """None: the run's own."""
    fence: str
    """`right`, `none` or `wrong`."""


CLAIMS: Final = st.builds(
    Claim,
    which=st.sampled_from([None] * 10 + [0, 1, UNKNOWN]),
    offset=st.sampled_from([0] * 9 + [1]),
    owner=st.sampled_from([None] * 9 + [*OWNERS]),
    fence=st.sampled_from(["right"] * 6 + ["none", "wrong"]),
)

NUMBERS: Final[dict[str, Any]] = {"z": -0.0, "a": [1e100, 10**30, True, 1, 1.0, None]}
METADATA: Final = st.sampled_from([None, None, {}, {"\0": {"b": [1], "a": 1.0}}])
_INPUTS: Final[Sequence[str | list[Part]]] = [
    "Hello?",
    "",
    "NUL \0, half a pair \ud83d, \u00e9 and e\u0301",
    [TextPart(text="A file:"), FilePart(media_type="text/plain", reference="f/1")],
    [ProviderPart(envelope=ProviderEnvelope(schema_version=0, provider="p", data=NUMBERS))],
    [],
]
INPUTS: Final = st.fixed_dictionaries(
    {
        "parts": st.sampled_from(_INPUTS),
        "metadata": METADATA,
        "expected": EXPECTED,
        "taken": st.sampled_from(
            [None] * 8 + ["input_message_id", "assistant_message_id", "run_id"]
        ),
        "index": st.integers(0, 20),
    }
)
"""What an admission brings; `taken` names the new id that something has already."""

CALL: Final = ToolCallPart(call_id="call-1", tool_name="search", input=NUMBERS)
_ANSWERS: Final[Sequence[str | list[Part]]] = [
    "So far",
    [],
    [ReasoningPart(text="Hm."), CALL],
    [
        CALL,
        ToolResultPart(
            call_id="call-1", tool_name="search", outcome=ToolOutcome.SUCCESS, output=None
        ),
    ],
    [CALL, ToolCallPart(call_id="call-2", tool_name="read", input=[]), TextPart(text="\ud83d")],
]
_COST: Final = Cost(
    amount=Decimal("0.0001230"), currency="EUR", provenance=Provenance.PROVIDER_REPORTED
)
_USAGES: Final[Sequence[Usage | None]] = [
    None,
    None,
    Usage(),
    Usage(input_tokens=TokenCount(value=0, provenance=Provenance.ESTIMATED), cost=_COST),
    Usage(cost=Cost(amount=Decimal("1E+3"), currency="USD", provenance=Provenance.COMPUTED)),
    Usage(output_tokens=TokenCount(provenance=Provenance.UNAVAILABLE)),
]
ANSWERS: Final = st.fixed_dictionaries(
    {
        "parts": st.sampled_from(_ANSWERS),
        "metadata": METADATA,
        "usage": st.sampled_from(_USAGES),
    }
)
SUMMARIES: Final = st.sampled_from(["In short.", [TextPart(text="\0"), TextPart(text="")]])
DETAILS: Final = st.sampled_from([None, "Told \0 \ud83d", "x" * 5_000])

REASONS: Final = st.sampled_from(
    [TerminalReason.SUCCESS] * 4 + sorted(set(TerminalReason) - RESERVED_REASONS)
)
ABSORPTIONS: Final = st.sampled_from(["none"] * 3 + ["queued"] * 3 + ["other", "self", "twice"])
RANGES: Final = st.sampled_from(["range"] * 4 + ["backwards", "gap", "gone", "twice"])


class Misuse(NamedTuple):
    """A call that must be refused before anything is read."""

    operation: str
    method: str
    arguments: dict[str, Any]


_RUN: Final[dict[str, Any]] = {"run_id": "run-1"}
_OWNED: Final[dict[str, Any]] = {**_RUN, "expected_revision": 0, "owner_id": OWNERS[0]}
_INPUT: Final[dict[str, Any]] = {"idempotency_key": "key-1", "parts": "Hello?"}
_END: Final[dict[str, Any]] = {**_OWNED, "parts": "", "reason": "success"}
_RANGE: Final[dict[str, Any]] = {
    "expected_version": 1,
    "message_ids": ["input-1"],
    "summary_parts": "In short.",
}
_REQUEUE: Final[dict[str, Any]] = {**_RUN, "expected_revision": 0, "action": "requeue"}
_ABANDON: Final[dict[str, Any]] = {**_RUN, "expected_revision": 0, "action": "abandon"}
_UNCALLED: Final = ToolResultPart(call_id="call-1", tool_name="search", outcome=ToolOutcome.ERROR)

MISUSES: Final = [
    Misuse("accept", "accept_input", {**_INPUT, "idempotency_key": " key"}),
    Misuse("accept", "accept_input", {**_INPUT, "metadata": {"x": [math.nan]}}),
    Misuse("join", "accept_input", {**_INPUT, "coalesce_into": "run-1\0"}),
    Misuse("join", "accept_input", {**_INPUT, "coalesce_into": "run-1", "parts": [CALL]}),
    Misuse("acquire", "acquire_run", {**_OWNED, "owner_id": ""}),
    Misuse("acquire", "acquire_run", {**_OWNED, "lease": timedelta()}),
    Misuse("checkpoint", "checkpoint_run", {**_OWNED, "run_id": 1, "parts": ""}),
    Misuse("checkpoint", "checkpoint_run", {**_OWNED, "parts": [_UNCALLED]}),
    Misuse("renew", "renew_lease", {**_RUN, "owner_id": "\ud83d", "fencing_token": 1}),
    Misuse("renew", "renew_lease", {**_RUN, "owner_id": OWNERS[0], "fencing_token": 0}),
    Misuse("interrupt", "request_interrupt", {"run_id": "run-1 "}),
    Misuse("interrupt", "request_interrupt", {**_RUN, "expected_revision": -1}),
    Misuse("cancel", "cancel_run", {"run_id": "r" * 256}),
    Misuse("cancel", "cancel_run", {**_RUN, "expected_revision": True}),
    Misuse("requeue", "recover_run", {**_REQUEUE, "run_id": ""}),
    Misuse("requeue", "recover_run", {**_REQUEUE, "expected_revision": 0.0}),
    Misuse("abandon", "recover_run", {**_ABANDON, "run_id": "\n"}),
    Misuse("abandon", "recover_run", {**_ABANDON, "replay_safe": 1}),
    Misuse("end", "commit_terminal", {**_END, "owner_id": None}),
    Misuse("end", "commit_terminal", {**_END, "reason": "absorbed"}),
    Misuse("compact", "compact_history", {**_RANGE, "summary_id": " "}),
    Misuse("compact", "compact_history", {**_RANGE, "summary_parts": [CALL]}),
    Misuse("purge", "purge_conversation", {"conversation_id": "c "}),
    Misuse("purge", "purge_conversation", {"expected_version": -1}),
]
