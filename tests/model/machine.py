"""The state machine: which operation comes next, with which arguments; it decides nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from stitchkit_django.core import (
    ACQUIRED_STATES,
    ACTIVE_STATES,
    TERMINAL_STATES,
    RunState,
    TerminalReason,
)
from tests.model.choices import (
    ABSORPTIONS,
    ANSWERS,
    CLAIMS,
    DETAILS,
    EXPECTED,
    FIRST_OWNERS,
    INPUTS,
    LEASES,
    MISUSES,
    RANGES,
    REASONS,
    SUMMARIES,
    UNKNOWN,
    Claim,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from stitchkit_django.core import Part
    from tests.model.conversation import Conversation

Rule = TypeVar("Rule", bound="Callable[..., None]")

# How seldom a rule comes where its operation can't be applied.
ELSEWHERE_EVERY: Final = 4
ENOUGH_RUNS: Final = 3
MISUSE_EVERY: Final = 3
PURGED_AFTER: Final = 16


def fits(*states: RunState) -> Callable[[Rule], Rule]:
    """Let a rule be chosen where a run is in one of these states, and else seldom."""

    def holds(machine: Operations) -> bool:
        of = machine.conversation
        return (
            not of.runs
            or any(run.state in states for run in of.runs)
            or of.steps % ELSEWHERE_EVERY == 0
        )

    return precondition(holds)


class Operations(RuleBasedStateMachine):
    """Each rule is one operation on one conversation."""

    def __init__(self, conversation: Conversation) -> None:
        """Take a new conversation."""
        super().__init__()
        self.conversation = conversation
        self.fresh = 0

    # Not always from nothing: which rules an example may use is drawn too, and most need a run.
    @initialize(inputs=st.integers(0, 3), owner=FIRST_OWNERS, lease=LEASES)
    def begin(self, inputs: int, owner: str | None, lease: timedelta | None) -> None:
        for _ in range(inputs):
            self.admit("accept", {"parts": "Hello?"})
        if owner is not None:
            self.acquire(Claim(which=None, offset=0, owner=owner, fence="right"), lease)

    @precondition(
        lambda self: (
            sum(run.is_active for run in self.conversation.runs) < ENOUGH_RUNS
            or self.conversation.steps % ELSEWHERE_EVERY == 0
        )
    )
    @rule(given=INPUTS)
    def accept(self, given: dict[str, Any]) -> None:
        self.admit("accept", given)

    @fits(RunState.QUEUED)
    @rule(claim=CLAIMS, given=INPUTS)
    def join(self, claim: Claim, given: dict[str, Any]) -> None:
        run = self.conversation.run(claim.which, RunState.QUEUED)
        self.admit("join", given, coalesce_into=UNKNOWN if run is None else run.id)

    def admit(
        self, operation: str, given: dict[str, Any], *, coalesce_into: str | None = None
    ) -> None:
        self.fresh += 1
        ids = {
            "input_message_id": f"input-{self.fresh}",
            "run_id": f"run-{self.fresh}",
            "assistant_message_id": f"answer-{self.fresh}",
        }
        known = self.conversation.ids()
        if given.get("taken") is not None and known:
            ids[given["taken"]] = known[given["index"] % len(known)]
        self.conversation.do(
            operation,
            "accept_input",
            idempotency_key=f"key-{self.fresh}",
            parts=given["parts"],
            metadata=given.get("metadata"),
            expected_version=self.expected(given.get("expected")),
            coalesce_into=coalesce_into,
            **ids,
        )

    @precondition(
        lambda self: self.conversation.rows is not None and self.conversation.rows.receipts
    )
    @rule(given=INPUTS, joins=st.booleans(), changed=st.sampled_from([None, "parts", "metadata"]))
    def retry(self, given: dict[str, Any], joins: bool, changed: str | None) -> None:
        assert self.conversation.rows is not None
        receipts = self.conversation.rows.receipts
        receipt = receipts[given["index"] % len(receipts)]
        self.conversation.do(
            "join" if joins else "accept",
            "accept_input",
            idempotency_key=receipt.idempotency_key,
            parts="Other" if changed == "parts" else receipt.input.parts,
            metadata={"other": 1} if changed == "metadata" else receipt.input.metadata,
            expected_version=self.expected(given["expected"]),
            coalesce_into=receipt.run_id if joins else None,
        )

    @fits(RunState.QUEUED)
    @rule(claim=CLAIMS, lease=LEASES)
    def acquire(self, claim: Claim, lease: timedelta | None) -> None:
        claimed = self.conversation.claimed(claim, RunState.QUEUED)
        del claimed["fencing_token"]
        self.conversation.do("acquire", "acquire_run", **claimed, lease=lease)

    @fits(RunState.RUNNING)
    @rule(claim=CLAIMS, answer=ANSWERS)
    def checkpoint(self, claim: Claim, answer: dict[str, Any]) -> None:
        claimed = self.conversation.claimed(claim, RunState.RUNNING)
        self.conversation.do("checkpoint", "checkpoint_run", **claimed, **answer)

    @fits(*ACQUIRED_STATES)
    @rule(claim=CLAIMS, lease=LEASES)
    def renew(self, claim: Claim, lease: timedelta | None) -> None:
        claimed = self.conversation.claimed(claim, *ACQUIRED_STATES)
        del claimed["expected_revision"]
        claimed["fencing_token"] = claimed["fencing_token"] or 1
        self.conversation.do("renew", "renew_lease", **claimed, lease=lease)

    @fits(RunState.RUNNING)
    @rule(claim=CLAIMS, expected=EXPECTED)
    def interrupt(self, claim: Claim, expected: int | None) -> None:
        self.stop("interrupt", "request_interrupt", claim, expected, RunState.RUNNING)

    @fits(RunState.QUEUED)
    @rule(claim=CLAIMS, expected=EXPECTED)
    def cancel(self, claim: Claim, expected: int | None) -> None:
        self.stop("cancel", "cancel_run", claim, expected, RunState.QUEUED)

    def stop(
        self, operation: str, method: str, claim: Claim, expected: int | None, *states: RunState
    ) -> None:
        run = self.conversation.run(claim.which, *states)
        revision = 0 if run is None else run.revision
        self.conversation.do(
            operation,
            method,
            run_id=UNKNOWN if run is None else run.id,
            expected_revision=None if expected is None else revision + expected,
        )

    @fits(*ACTIVE_STATES)
    @rule(
        action=st.sampled_from(["requeue", "abandon"]),
        claim=CLAIMS,
        evidence=st.fixed_dictionaries(
            {"replay_safe": st.booleans(), "require_expired_lease": st.booleans()}
        ),
        detail=DETAILS,
    )
    def recover(
        self, action: str, claim: Claim, evidence: dict[str, bool], detail: str | None
    ) -> None:
        claimed = self.conversation.claimed(claim, *ACQUIRED_STATES)
        self.conversation.do(
            action,
            "recover_run",
            run_id=claimed["run_id"],
            expected_revision=claimed["expected_revision"],
            action=action,
            detail=detail,
            **evidence,
        )

    @fits(*ACQUIRED_STATES)
    @rule(
        claim=CLAIMS,
        answer=ANSWERS,
        reason=REASONS,
        detail=DETAILS,
        absorb=ABSORPTIONS,
    )
    def end(
        self,
        claim: Claim,
        answer: dict[str, Any],
        reason: TerminalReason,
        detail: str | None,
        absorb: str,
    ) -> None:
        claimed = self.conversation.claimed(claim, *ACQUIRED_STATES)
        self.conversation.do(
            "end",
            "commit_terminal",
            **claimed,
            **answer,
            reason=reason,
            detail=detail,
            policy_name="budget" if reason is TerminalReason.POLICY_STOP else None,
            absorb=self.conversation.absorptions(absorb, claimed["run_id"]),
        )

    @rule(
        start=st.integers(0, 12),
        length=st.integers(1, 6),
        shape=RANGES,
        parts=SUMMARIES,
        other=st.sampled_from([None] * 6 + ["version", "id"]),
    )
    def compact(
        self, start: int, length: int, shape: str, parts: str | list[Part], other: str | None
    ) -> None:
        self.fresh += 1
        known = self.conversation.ids()
        taken = other == "id" and known
        self.conversation.do(
            "compact",
            "compact_history",
            expected_version=self.conversation.version + (other == "version"),
            message_ids=self.conversation.messages(start, length, shape),
            summary_parts=parts,
            summary_id=known[start % len(known)] if taken else f"summary-{self.fresh}",
        )

    # Late, since all that follows it is refused; or where there is nothing.
    @precondition(
        lambda self: self.conversation.version == 0 or self.conversation.steps > PURGED_AFTER
    )
    @fits(*TERMINAL_STATES)
    @rule(expected=EXPECTED)
    def purge(self, expected: int | None) -> None:
        version = self.expected(expected)
        self.conversation.do("purge", "purge_conversation", expected_version=version)

    @precondition(lambda self: self.conversation.steps % MISUSE_EVERY == 0)
    @rule(index=st.integers(0, len(MISUSES) - 1))
    def misuse(self, index: int) -> None:
        # Shifted, since small numbers are drawn more often than others.
        chosen = MISUSES[(index + self.conversation.steps) % len(MISUSES)]

        outcome = self.conversation.do(chosen.operation, chosen.method, **chosen.arguments)

        assert isinstance(outcome, Exception)

    def expected(self, offset: int | None) -> int | None:
        return None if offset is None else self.conversation.version + offset

    def teardown(self) -> None:
        """Compare what is left."""
        self.conversation.close()
