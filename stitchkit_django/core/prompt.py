"""What a run may know of its conversation when its prompt is built; no reading of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stitchkit_django.core.errors import InvalidValueError, shown
from stitchkit_django.core.lifecycle import MessageRole, MessageStatus

if TYPE_CHECKING:
    from stitchkit_django.core.records import Message, Snapshot

# Of another run: what never became, or is not yet, part of the conversation.
_UNUSABLE: Final = frozenset(
    {MessageStatus.SUPERSEDED, MessageStatus.FAILED, MessageStatus.STREAMING}
)


def prompt_messages(snapshot: Snapshot, run_id: str) -> tuple[Message, ...]:
    """Give the messages that a run's prompt is built from, in causal order.

    They are the earlier turns, the run's own inputs and its own partial answer. A summary at or
    before its turn stands for what it replaced. Left out are inputs and answers of later turns,
    and what another run said in vain: superseded, failed, or still unfinished.

    Args:
        snapshot: of the run's conversation.
        run_id: of a run that the snapshot has.

    Raises:
        InvalidValueError: the snapshot has no such run.

    Source: decision record 0112, and the contract's section on reads.
    """
    turns = {run.id: run.turn for run in snapshot.runs}
    if run_id not in turns:
        reason = f"{shown(run_id)} is no run of this snapshot: it has ended without an answer in "
        raise InvalidValueError("$.run_id", reason + "the active history, or never was")
    return tuple(
        message
        for message, turn in zip(snapshot.messages, snapshot.turns, strict=True)
        if turn <= turns[run_id] and _is_usable(message, run_id)
    )


def _is_usable(message: Message, run_id: str) -> bool:
    if message.role is not MessageRole.ASSISTANT or message.run_id == run_id:
        return True
    return message.status not in _UNUSABLE
