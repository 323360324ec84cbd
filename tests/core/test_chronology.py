"""Turns and places of what only stands in an order: causal, and nothing runless is moved about."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from stitchkit_django.core.chronology import Asked, Chronology, arrange
from stitchkit_django.core.driver import LAST_SLOT, Place


def asked(run_id: str, *input_ids: str, active: bool = False) -> Asked:
    return Asked(run_id, input_ids, f"a-{run_id}", is_active=active)


def order(found: Chronology) -> list[str]:
    return sorted(found.places, key=lambda identity: found.places[identity])


def test_answers_move_to_their_inputs() -> None:
    found = arrange(["i1", "i2", "a-r1", "a-r2"], [asked("r1", "i1"), asked("r2", "i2")])

    assert order(found) == ["i1", "a-r1", "i2", "a-r2"]
    assert found.turns == {"r1": 1, "r2": 2}
    assert found.places["i2"] == Place(2, 0)
    assert found.places["a-r2"] == Place(2, LAST_SLOT)


def test_runless_messages_stay_between_their_neighbours() -> None:
    history = ["n0", "i1", "n1", "i2", "n2", "a-r1", "n3", "n4", "i3", "a-r2", "n5"]

    found = arrange(history, [asked("r1", "i1", "i2"), asked("r2", "i3")])

    assert order(found) == history
    assert found.turns == {"r1": 2, "r2": 4}
    assert found.last_turn == 5


def test_a_runless_message_whose_neighbours_change_places_stands_between_them_still() -> None:
    found = arrange(["i1", "i2", "n", "a-r1", "a-r2"], [asked("r1", "i1"), asked("r2", "i2")])

    assert order(found) == ["i1", "a-r1", "n", "i2", "a-r2"]


def test_inputs_of_an_active_run_leave_the_next_slot_free() -> None:
    found = arrange(["i1", "n1", "i2", "n2", "a-r1"], [asked("r1", "i1", "i2", active=True)])

    assert order(found) == ["i1", "i2", "n1", "n2", "a-r1"]
    assert [found.places[one].slot for one in ("i1", "i2")] == [0, 1]
    assert found.places["n2"].slot == LAST_SLOT - 1


def test_an_absorbed_run_has_a_turn_and_its_absorber_has_its_inputs() -> None:
    runs = [asked("r1", "i1", "i2"), asked("r2", "i2"), asked("r3", "i3")]

    found = arrange(["i1", "i2", "i3", "a-r1"], runs)

    assert order(found) == ["i1", "i2", "a-r1", "i3"]
    assert found.turns == {"r1": 1, "r2": 2, "r3": 3}


def test_inputs_that_are_gone_leave_their_slots_empty() -> None:
    found = arrange(["n", "i2", "a-r1"], [asked("r1", "i1", "i2")])

    assert found.places == {"n": Place(1, 0), "i2": Place(2, 1), "a-r1": Place(2, LAST_SLOT)}
    active = arrange(["n", "i2", "a-r1"], [asked("r1", "i1", "i2", active=True)])
    assert active == found


def test_where_there_is_nothing_there_is_no_turn() -> None:
    assert arrange([], []) == Chronology({}, {}, 0)


class Case(NamedTuple):
    """A history, and the runs that it tells of."""

    history: list[str]
    runs: list[Asked]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(0, 4))
    runs = []
    history: list[str] = []
    for number in range(count):
        inputs = [f"i{number}.{index}" for index in range(draw(st.integers(1, 3)))]
        active = draw(st.booleans())
        runs.append(asked(f"r{number}", *inputs, active=active))
        # The first inputs in the order of the runs, all else anywhere behind its own.
        history.append(inputs[0])
        later = [*inputs[1:], *([] if active and draw(st.booleans()) else [f"a-r{number}"])]
        place = len(history)
        for one in later:
            place = draw(st.integers(place, len(history)))
            history.insert(place, one)
            place += 1
    for number in range(draw(st.integers(0, 4))):
        history.insert(draw(st.integers(0, len(history))), f"n{number}")
    runs.sort(key=lambda run: history.index(run.input_message_ids[0]))
    return Case(history, runs)


@given(cases())
def test_every_message_has_a_place_of_its_own_and_turns_rise(case: Case) -> None:
    found = arrange(case.history, case.runs)

    assert set(found.places) == set(case.history)
    assert len(set(found.places.values())) == len(found.places)
    assert list(found.turns.values()) == sorted(set(found.turns.values()))
    assert max((place.turn for place in found.places.values()), default=0) <= found.last_turn


@given(cases())
def test_a_run_has_its_inputs_and_its_answer_in_its_turn_in_order(case: Case) -> None:
    found = arrange(case.history, case.runs)

    for run in case.runs:
        places = [found.places[one] for one in run.input_message_ids]
        assert places == sorted(places)
        assert {place.turn for place in places} == {found.turns[run.run_id]}
        if run.is_active:
            assert [place.slot for place in places] == list(range(len(places)))
        answer = found.places.get(run.assistant_message_id, places[-1])
        assert answer in (places[-1], Place(found.turns[run.run_id], LAST_SLOT))


@given(cases())
def test_a_runless_message_is_never_outside_its_neighbours(case: Case) -> None:
    found = arrange(case.history, case.runs)
    owners = {
        one: run for run in case.runs for one in (*run.input_message_ids, run.assistant_message_id)
    }
    of_runs = [one for one in case.history if one in owners]

    for position, one in enumerate(case.history):
        if one in owners:
            continue
        before = [other for other in case.history[:position] if other in owners][-1:]
        after = [other for other in case.history[position:] if other in owners][:1]
        places = [found.places[other] for other in (*before, *after)]
        around = {owners[other].run_id: owners[other] for other in (*before, *after)}
        if len(places) == 2 and [run.is_active for run in around.values()] == [True]:
            # Between its inputs nothing can stand: behind them it still is in their turn.
            assert found.places[one].turn == places[0].turn
            continue
        if before:
            assert min(places) < found.places[one]
        if after and (before or after[0] == of_runs[0]):
            assert found.places[one] < max(places)


@given(cases())
def test_runless_messages_keep_their_own_order_between_the_same_neighbours(case: Case) -> None:
    runless = {one for one in case.history if one.startswith("n")}
    found = arrange(case.history, case.runs)

    for first, second in zip(case.history, case.history[1:], strict=False):
        if {first, second} <= runless:
            assert found.places[first] < found.places[second]
