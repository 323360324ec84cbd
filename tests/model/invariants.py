"""What holds of every snapshot, whoever writes: order, statuses, queue and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core import (
    Message,
    MessageRole,
    MessageStatus,
    Run,
    ToolCallPart,
    ToolResultPart,
)
from stitchkit_django.core.lifecycle import ENDINGS

if TYPE_CHECKING:
    from stitchkit_django.core import Snapshot


def check_snapshot(snapshot: Snapshot) -> None:
    """Check what holds of every snapshot by itself.

    Raises:
        AssertionError: it is torn, or was written wrongly; the message says where.
    """
    runs = {run.id: run for run in snapshot.runs}
    messages = {message.id: message for message in snapshot.messages}
    assert len(runs) == len(snapshot.runs), "a run stands there twice"
    assert len(messages) == len(snapshot.messages), "a message stands there twice"
    _check_turns(snapshot)
    for message, turn in zip(snapshot.messages, snapshot.turns, strict=True):
        if message.run_id is not None:
            assert message.run_id in runs, f"answer {message.id} names a run that is not there"
            _check_answer(message, turn, runs[message.run_id])
    named = {message.run_id for message in snapshot.messages}
    for run in snapshot.runs:
        assert run.is_active or run.id in named, f"run {run.id} is neither active nor named"
        _check_inputs(run, snapshot)
    _check_queue(snapshot)


def check_sequence(earlier: Snapshot, later: Snapshot) -> None:
    """Check what holds of two snapshots that one reader took, one after the other.

    Raises:
        AssertionError: the later one is older, or differs though its version is the same.
    """
    assert earlier.version <= later.version, "a reader went back"
    if earlier.version == later.version:
        assert earlier == later, f"version {later.version} has two states"


def _check_turns(snapshot: Snapshot) -> None:
    turns = list(snapshot.turns)
    assert turns == sorted(turns), f"places are out of order: {turns}"
    queue = [run.turn for run in snapshot.runs]
    assert queue == sorted(set(queue)), f"runs are out of order: {queue}"
    assert all(1 <= turn <= snapshot.version for turn in (*turns, *queue)), "a turn is to come"
    for position, message in enumerate(snapshot.messages[:-1]):
        if message.role is MessageRole.ASSISTANT:
            following = snapshot.turns[position + 1]
            assert following > snapshot.turns[position], f"{message.id} isn't its turn's last"


def _check_answer(message: Message, turn: int, run: Run) -> None:
    assert run.assistant_message_id == message.id, f"{message.id} is not run {run.id}'s answer"
    assert run.turn == turn, f"{message.id} stands in turn {turn}, its run in {run.turn}"
    if run.terminal_reason is None:
        assert message.status is MessageStatus.STREAMING, f"{message.id}: its run is active"
        return
    assert message.status is ENDINGS[run.terminal_reason].status, f"{message.id}: its run ended"
    calls = {part.call_id for part in message.parts if isinstance(part, ToolCallPart)}
    closed = {part.call_id for part in message.parts if isinstance(part, ToolResultPart)}
    assert calls == closed, f"{message.id} has open calls, and its run has ended"


def _check_inputs(run: Run, snapshot: Snapshot) -> None:
    # A summary may have replaced some of them; the rest stands in the order in which it joined.
    found = [
        message.id
        for message, turn in zip(snapshot.messages, snapshot.turns, strict=True)
        if turn == run.turn and message.role is MessageRole.USER
    ]
    joined = [identity for identity in run.input_message_ids if identity in found]
    assert found == joined, f"run {run.id} has inputs {run.input_message_ids}, its turn {found}"


def _check_queue(snapshot: Snapshot) -> None:
    active = [run for run in snapshot.runs if run.is_active]
    acquired = [run.id for run in active if run.is_acquired]
    assert acquired in ([], [run.id for run in active[:1]]), f"acquired out of turn: {acquired}"
