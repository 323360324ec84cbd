"""The worker: takes a run, lets the agent answer it, and keeps what is there after every step.

It holds no lock and no transaction while the agent works. If it dies, what it kept stays, its lease
lapses, and recovery gives the run to another worker, which goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from example.agent import next_part
from stitchkit_django.core import (
    Applied,
    Conflict,
    Message,
    NotFound,
    Part,
    Run,
    RunState,
    TerminalReason,
    prompt_messages,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from stitchkit_django.core import AgentStore

Agent: TypeAlias = Callable[[Sequence[Message], tuple[Part, ...]], Part | None]
"""Given the prompt and the answer so far: the next part, None at the end."""

Listener: TypeAlias = Callable[[Applied, Part | TerminalReason | None], None]
"""Told of every write: what was written, and the part or the end that it was about."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Answers runs, one at a time, as the owner of each."""

    store: AgentStore
    owner_id: str
    lease: timedelta
    """Longer than any step: each write extends it. Where a step can last longer, a thread that
    calls `renew_lease` keeps it, and learns of an interrupt without waiting for the step."""
    agent: Agent = next_part
    listener: Listener = lambda _applied, _about: None

    def answer(self, run: Run) -> Applied | Conflict | NotFound:
        """Answer a queued run.

        Returns:
            `Applied` with the ended run: answered, or interrupted on request. `Conflict` or
            `NotFound` when it is not this worker's, or no longer: then there is nothing to do.
        """
        taken = self.store.acquire_run(
            run.conversation_id,
            run.id,
            expected_revision=run.revision,
            owner_id=self.owner_id,
            lease=self.lease,
        )
        match taken:
            case Applied(run=Run() as run):
                self.listener(taken, None)
            case _:
                return taken

        prompt, parts = self._read(run)
        while (part := self.agent(prompt, parts)) is not None:
            parts = (*parts, part)
            kept = self._keep(run, parts)
            match kept:
                case Applied(run=Run() as run):
                    self.listener(kept, part)
                case Conflict(run=Run() as asked) if self._is_to_stop(asked, run):
                    return self._end(asked, parts, TerminalReason.INTERRUPTED)
                case _:
                    return kept

        ended = self._end(run, parts, TerminalReason.SUCCESS)
        match ended:
            case Conflict(run=Run() as asked) if self._is_to_stop(asked, run):
                return self._end(asked, parts, TerminalReason.INTERRUPTED)
            case _:
                return ended

    def _read(self, run: Run) -> tuple[list[Message], tuple[Part, ...]]:
        """Read the prompt, and the answer as an earlier attempt may have left it."""
        messages = prompt_messages(self.store.load_snapshot(run.conversation_id), run.id)
        prompt = [message for message in messages if message.run_id != run.id]
        left = [message.parts for message in messages if message.run_id == run.id]
        return prompt, left[0] if left else ()

    def _keep(self, run: Run, parts: tuple[Part, ...]) -> Applied | Conflict | NotFound:
        return self.store.checkpoint_run(
            run.conversation_id,
            run.id,
            expected_revision=run.revision,
            owner_id=self.owner_id,
            fencing_token=run.fencing_token,
            parts=parts,
        )

    def _is_to_stop(self, asked: Run, run: Run) -> bool:
        """Tell an interrupt of this attempt from the loss of the run."""
        ours = (asked.owner_id, asked.fencing_token) == (self.owner_id, run.fencing_token)
        return ours and asked.state is RunState.INTERRUPT_REQUESTED

    def _end(
        self, run: Run, parts: tuple[Part, ...], reason: TerminalReason
    ) -> Applied | Conflict | NotFound:
        ended = self.store.commit_terminal(
            run.conversation_id,
            run.id,
            expected_revision=run.revision,
            owner_id=self.owner_id,
            fencing_token=run.fencing_token,
            parts=parts,
            reason=reason,
        )
        if isinstance(ended, Applied):
            self.listener(ended, reason)
        return ended
