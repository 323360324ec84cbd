"""Rules of the inputs: whose they are, where they stand, and that they were received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core.driver import LAST_SLOT, Place
from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity.finding import Rule
from stitchkit_django.core.integrity.indexed import is_absorbed, message_row, run_row, told_place
from stitchkit_django.core.lifecycle import MessageRole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core.integrity.finding import Finding
    from stitchkit_django.core.integrity.indexed import Indexed
    from stitchkit_django.core.records import Run


def check_inputs(found: Indexed) -> Iterator[Finding]:
    """Check the inputs of each run that was not absorbed; an absorbed one's are its absorber's."""
    yield from _check_askers(found)
    for stored in found.rows.runs:
        run = stored.run
        if is_absorbed(run):
            continue
        if found.has_known_turn(run):
            yield from _check_places(found, run)
        if found.whole:
            yield from _check_received(found, run)
            yield from _check_there(found, run)


def _check_askers(found: Indexed) -> Iterator[Finding]:
    for identity, runs in found.askers.items():
        if len(runs) > 1:
            named = " and ".join(run_row(run) for run in runs)
            detail = f"is an input of {named}"
            yield found.finding(Rule.INPUT, f"message {shown(identity)}", detail)
        placed = found.messages.get(identity)
        if placed is not None and placed.message.role is not MessageRole.USER:
            detail = f"is an input of {run_row(runs[0])}, but of role {placed.message.role}"
            yield found.finding(Rule.INPUT, message_row(placed), detail)


def _check_places(found: Indexed, run: Run) -> Iterator[Finding]:
    inputs = found.inputs(run)
    places = [placed.place for placed in inputs]
    rising = [*sorted(set(places))] == places
    within = all(place.turn == run.turn and place.slot < LAST_SLOT for place in places)
    # The next input to join an active run takes the slot that the number of inputs says.
    exact = not run.is_active or all(
        run.input_message_ids[placed.place.slot : placed.place.slot + 1] == (placed.message.id,)
        for placed in inputs
    )
    if not (rising and within and exact):
        told = ", ".join(f"{shown(one.message.id)} in {told_place(one.place)}" for one in inputs)
        detail = f"has turn {run.turn} and the inputs {told}, in this order"
        yield found.finding(Rule.INPUT_PLACE, run_row(run), detail)


def _check_received(found: Indexed, run: Run) -> Iterator[Finding]:
    if not run.is_active:
        return
    missing = [one for one in run.input_message_ids if one not in found.receipts]
    if missing:
        detail = f"is active, but has no receipt of {', '.join(map(shown, missing))}"
        yield found.finding(Rule.INPUT_RECEIPT, run_row(run), detail)


def _check_there(found: Indexed, run: Run) -> Iterator[Finding]:
    missing = [
        identity
        for index, identity in enumerate(run.input_message_ids)
        if identity not in found.messages
        and not found.may_be_replaced(_latest_place(found, run, index))
    ]
    if missing:
        told = ", ".join(map(shown, missing))
        detail = f"has the inputs {told}, which are neither there nor replaced by a summary"
        yield found.finding(Rule.INPUT_MESSAGE, run_row(run), detail)


def _latest_place(found: Indexed, run: Run, index: int) -> Place:
    # Behind the first input may stand one that was replaced before this run absorbed its own.
    return Place(run.turn, 0) if index == 0 else Place(found.head.version, LAST_SLOT)
