"""Conversations of any length, loaded as the store would have left them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from benchmarks.bodies import body
from benchmarks.contenders import OWNER
from benchmarks.floors import stored_message
from stitchkit_django.core.store import new_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.databases import Database

MOMENT: Final = datetime(2025, 1, 1, tzinfo=UTC)
MESSAGE_SIZE: Final = 1000
_BODIES: Final = 50
_LAST_SLOT: Final = 2147483647

_TABLES: Final = {
    "stitchkit_django_conversation": "conversation_id schema_version version updated_at",
    "stitchkit_django_run": (
        "conversation_id run_id schema_version turn input_message_ids assistant_message_id state "
        "revision owner_id fencing_token terminal_reason terminal_assistant created_at updated_at "
        "acquired_at ended_at"
    ),
    "stitchkit_django_admissionreceipt": (
        "conversation_id idempotency_key schema_version input input_message_id run_id "
        "assistant_message_id created_at"
    ),
    "stitchkit_django_message": (
        "conversation_id message_id schema_version turn slot run_id role status parts created_at "
        "updated_at archived_at replaced_by"
    ),
}


class _Turn(NamedTuple):
    run: Sequence[Any]
    receipt: Sequence[Any]
    messages: Sequence[Sequence[Any]]


def fill(database: Database, count: int, length: int, *, archived: bool = False) -> list[str]:
    """Load conversations of so many messages, each turn ended; give their ids.

    Args:
        database: where they go.
        count: of conversations.
        length: messages of each.
        archived: whether all messages have been replaced, by a summary that isn't there.
    """
    identities = [str(uuid4()) for _ in range(count)]
    heads = [(identity, 1, length // 2, MOMENT) for identity in identities]
    turns = [
        _ended(identity, number, archived=archived)
        for identity in identities
        for number in range(1, length // 2 + 1)
    ]
    _load(database, heads, turns)
    return identities


def fill_active(database: Database, count: int) -> None:
    """Load conversations of one queued run each."""
    identities = [str(uuid4()) for _ in range(count)]
    heads = [(identity, 1, 1, MOMENT) for identity in identities]
    _load(database, heads, [_queued(identity) for identity in identities])


def _load(database: Database, heads: Sequence[Any], turns: Sequence[_Turn]) -> None:
    rows: tuple[Sequence[Any], ...] = (
        heads,
        [turn.run for turn in turns],
        [turn.receipt for turn in turns],
        [message for turn in turns for message in turn.messages],
    )
    for (table, columns), some in zip(_TABLES.items(), rows, strict=True):
        database.load(table, columns.split(), some)


def _ended(where: str, turn: int, *, archived: bool) -> _Turn:
    queued = _queued(where, turn)
    run_id, answer_id = queued.run[1], queued.run[5]
    said = body(MESSAGE_SIZE, (2 * turn + 1) % _BODIES)
    stored = stored_message(where, answer_id, run_id, said, MOMENT)
    ended = ("completed", 10, OWNER, 1, "success", stored, MOMENT, MOMENT, MOMENT, MOMENT)
    answer = (turn, _LAST_SLOT, run_id, "assistant", "completed", said.parts, MOMENT, MOMENT)
    messages = [*queued.messages, (where, answer_id, 1, *answer, None, None)]
    if archived:
        messages = [(*message[:-2], MOMENT, "summary") for message in messages]
    return queued._replace(run=(*queued.run[:6], *ended), messages=messages)


def _queued(where: str, turn: int = 1) -> _Turn:
    input_id, run_id, answer_id, key = (new_identifier() for _ in range(4))
    said = body(MESSAGE_SIZE, 2 * turn % _BODIES)
    stored = stored_message(where, input_id, None, said, MOMENT)
    state = ("queued", 0, None, None, None, None, MOMENT, MOMENT, None, None)
    asked = (turn, 0, None, "user", "committed", said.parts, MOMENT, MOMENT)
    return _Turn(
        run=(where, run_id, 1, turn, f'["{input_id}"]', answer_id, *state),
        receipt=(where, key, 1, stored, input_id, run_id, answer_id, MOMENT),
        messages=[(where, input_id, 1, *asked, None, None)],
    )
