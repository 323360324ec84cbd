"""Which turn each run gets, and which place each message, where only their order is known.

A run-less message (a system message, a summary, an input whose run is gone) stays between the
messages that it stood between. Where those came to stand in another order, since answers move to
their inputs, it stands right behind the one that now comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from stitchkit_django.core.driver import LAST_SLOT, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Which run in order, and the index of an input; or, for an answer, how many inputs there are.
_Position: TypeAlias = tuple[int, int]
_BEGINNING: _Position = (-1, 0)


class Asked(NamedTuple):
    """What the order needs to know of a run."""

    run_id: str
    input_message_ids: tuple[str, ...]
    assistant_message_id: str
    is_active: bool


class Chronology(NamedTuple):
    """What the order says."""

    turns: Mapping[str, int]
    """By run id."""
    places: Mapping[str, Place]
    """By message id."""
    last_turn: int
    """The head's version is not behind it."""


def arrange(message_ids: Sequence[str], runs: Sequence[Asked]) -> Chronology:
    """Give turns to runs and places to messages.

    Args:
        message_ids: of the history, in its order.
        runs: in the order of their turns.
    """
    positions = _positions(frozenset(message_ids), runs)
    runless = _runless(message_ids, positions)
    turns: dict[str, int] = {}
    places: dict[str, Place] = {}
    turn = _own_turn(places, runless.get(_BEGINNING, []), 0)
    for number, run in enumerate(runs):
        turn += 1
        turns[run.run_id] = turn
        within = {index: runless.get((number, index), []) for index in range(len(_messages(run)))}
        behind = within.pop(len(run.input_message_ids))
        present = {one for one in _messages(run) if positions.get(one, _BEGINNING)[0] == number}
        slots = _kept_slots if run.is_active else _passed_slots
        places.update((one, Place(turn, slot)) for one, slot in slots(run, present, within))
        if run.assistant_message_id in present:
            places[run.assistant_message_id] = Place(turn, LAST_SLOT)
        turn = _own_turn(places, behind, turn)
    return Chronology(turns, places, turn)


def _messages(run: Asked) -> tuple[str, ...]:
    return (*run.input_message_ids, run.assistant_message_id)


def _positions(known: frozenset[str], runs: Sequence[Asked]) -> dict[str, _Position]:
    positions: dict[str, _Position] = {}
    # What was absorbed is its absorber's, which comes first.
    for number, run in enumerate(runs):
        for index, identity in enumerate(_messages(run)):
            if identity in known:
                positions.setdefault(identity, (number, index))
    return positions


def _runless(
    message_ids: Sequence[str], positions: Mapping[str, _Position]
) -> dict[_Position, list[str]]:
    # By the position that each stands right behind.
    runless: dict[_Position, list[str]] = {}
    before = _BEGINNING
    waiting: list[str] = []
    for identity in message_ids:
        if identity not in positions:
            waiting.append(identity)
            continue
        following = positions[identity]
        if waiting:
            runless.setdefault(min(before, following), []).extend(waiting)
        before, waiting = following, []
    runless.setdefault(before, []).extend(waiting)
    return runless


def _own_turn(places: dict[str, Place], identities: Sequence[str], turn: int) -> int:
    # Behind an answer there is no place left in its turn.
    if not identities:
        return turn
    places.update((one, Place(turn + 1, slot)) for slot, one in enumerate(identities))
    return turn + 1


def _passed_slots(
    run: Asked, present: set[str], within: Mapping[int, Sequence[str]]
) -> Iterator[tuple[str, int]]:
    slot = 0
    for index, identity in enumerate(run.input_message_ids):
        slot = max(slot, index)
        for one in (*([identity] if identity in present else []), *within[index]):
            yield one, slot
            slot += 1


def _kept_slots(
    run: Asked, present: set[str], within: Mapping[int, Sequence[str]]
) -> Iterator[tuple[str, int]]:
    # Another input may still join, and takes the slot that the number of inputs says: what stood
    # between the inputs goes behind them, right before the answer.
    for index, identity in enumerate(run.input_message_ids):
        if identity in present:
            yield identity, index
    others = [one for identities in within.values() for one in identities]
    yield from ((one, slot) for slot, one in enumerate(others, LAST_SLOT - len(others)))
