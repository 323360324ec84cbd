"""What is decided about a run depends on the run and the moment alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stitchkit_django.core import InvalidValueError, RecoveryAction, Run, RunState
from stitchkit_django.core.lifecycle import ACQUIRED_STATES, ACTIVE_STATES, TERMINAL_STATES
from stitchkit_django.core.records import is_lapsed
from stitchkit_django.core.recovery import (
    Abandon,
    Dispatch,
    Requeue,
    Skip,
    StandardPolicy,
)
from tests.factories import MOMENT, RunFactory, state_fields

TICK = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
EXPIRED_ABANDON = StandardPolicy(expired=True, action=RecoveryAction.ABANDON)
EXPIRED_REQUEUE = StandardPolicy(expired=True, action=RecoveryAction.REQUEUE, replay_safe=True)
STALE_ABANDON = StandardPolicy(stale_after=MINUTE, action=RecoveryAction.ABANDON)
POLICIES = [StandardPolicy(), EXPIRED_ABANDON, EXPIRED_REQUEUE, STALE_ABANDON]


def acquired(**fields: Any) -> Run:
    """Give a run that was last written at `MOMENT` and whose lease, if it has one, ends then."""
    return RunFactory.build(acquired=True, **fields)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_queued_run_is_dispatched(policy: StandardPolicy) -> None:
    assert policy(RunFactory.build(), MOMENT) == Dispatch()


@pytest.mark.parametrize("state", sorted(ACQUIRED_STATES))
@pytest.mark.parametrize("leased", [False, True], ids=["no lease", "lapsed"])
def test_without_options_an_acquired_run_is_left_alone(state: RunState, *, leased: bool) -> None:
    decision = StandardPolicy()(acquired(state=state, leased=leased), MOMENT + 9 * MINUTE)

    assert decision == Skip(reason="its owner may be at work")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
def test_a_run_that_has_ended_is_left_alone(policy: StandardPolicy, state: RunState) -> None:
    run = RunFactory.build(**state_fields(state))

    assert policy(run, MOMENT + 9 * MINUTE) == Skip(reason="it has ended")


@pytest.mark.parametrize("state", sorted(ACTIVE_STATES))
def test_every_active_state_is_decided_about(state: RunState) -> None:
    run = RunFactory.build(**state_fields(state))

    kinds = {type(policy(run, MOMENT)) for policy in POLICIES}

    assert kinds <= {Dispatch, Skip, Requeue, Abandon}


def test_a_lease_lapses_at_its_end_and_not_before() -> None:
    run = acquired(leased=True)

    decisions = [EXPIRED_ABANDON(run, moment) for moment in (MOMENT - TICK, MOMENT)]

    assert decisions == [
        Skip(reason="its owner may be at work"),
        Abandon(detail="its lease lapsed at 2026-03-01T12:00:00+00:00"),
    ]
    assert is_lapsed(run, MOMENT)
    assert not is_lapsed(acquired(), MOMENT)


def test_a_run_without_a_lease_is_stale_by_age_and_not_before() -> None:
    run = acquired()

    decisions = [STALE_ABANDON(run, moment) for moment in (MOMENT + MINUTE - TICK, MOMENT + MINUTE)]

    told = "it has no lease and was last written at 2026-03-01T12:00:00+00:00"
    assert decisions == [Skip(reason="its owner may be at work"), Abandon(detail=told)]


def test_age_says_nothing_of_a_run_with_a_lease_and_a_lease_nothing_of_one_without() -> None:
    much_later = MOMENT + timedelta(days=9)

    assert isinstance(STALE_ABANDON(acquired(leased=True), much_later), Skip)
    assert isinstance(EXPIRED_ABANDON(acquired(), much_later), Skip)


def test_both_kinds_of_evidence_can_be_taken() -> None:
    policy = StandardPolicy(expired=True, stale_after=MINUTE, action=RecoveryAction.ABANDON)

    for run in (acquired(), acquired(leased=True)):
        assert isinstance(policy(run, MOMENT + MINUTE), Abandon)


def test_a_lost_run_is_requeued_with_the_evidence_that_was_given() -> None:
    assert EXPIRED_REQUEUE(acquired(leased=True), MOMENT) == Requeue(replay_safe=True)


@pytest.mark.parametrize("policy", [EXPIRED_REQUEUE, EXPIRED_ABANDON])
def test_a_lost_run_that_was_to_stop_is_abandoned_whatever_the_action(
    policy: StandardPolicy,
) -> None:
    run = acquired(leased=True, state=RunState.INTERRUPT_REQUESTED)

    decision = policy(run, MOMENT)

    assert isinstance(decision, Abandon)
    assert "its lease lapsed at" in str(decision.detail)


def test_a_run_that_was_tried_too_often_is_abandoned_where_it_may_be_tried_again() -> None:
    policy = StandardPolicy(
        expired=True, action=RecoveryAction.REQUEUE, replay_safe=True, max_attempts=3
    )
    queued = {"acquired_at": MOMENT, "state": RunState.QUEUED}

    decided = {
        attempts: (
            policy(RunFactory.build(fencing_token=attempts, **queued), MOMENT),
            policy(acquired(leased=True, fencing_token=attempts), MOMENT),
            policy(acquired(leased=True, fencing_token=attempts), MOMENT - TICK),
        )
        for attempts in (2, 3, 4)
    }

    skipped = Skip(reason="its owner may be at work")
    given_up = [Abandon(detail=f"it was acquired {n} times, of at most 3") for n in (3, 4)]
    assert decided == {
        2: (Dispatch(), Requeue(replay_safe=True), skipped),
        3: (given_up[0], given_up[0], skipped),
        4: (given_up[1], given_up[1], skipped),
    }


def test_a_run_that_was_never_tried_is_not_given_up() -> None:
    assert StandardPolicy(max_attempts=1)(RunFactory.build(), MOMENT) == Dispatch()


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("$.action", {"expired": True}),
        ("$.action", {"stale_after": MINUTE}),
        ("$.action", {"action": RecoveryAction.ABANDON}),
        ("$.action", {"action": "rescue", "expired": True}),
        ("$.replay_safe", {"action": RecoveryAction.REQUEUE, "expired": True}),
        ("$.stale_after", {"action": RecoveryAction.ABANDON, "stale_after": -TICK}),
        ("$.stale_after", {"action": RecoveryAction.ABANDON, "stale_after": 60}),
        ("$.max_attempts", {"max_attempts": 0}),
        ("$.max_attempts", {"max_attempts": True}),
        ("$.expired", {"expired": 1}),
    ],
)
def test_options_that_do_not_agree_are_refused(path: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as refused:
        StandardPolicy(**fields)

    assert refused.value.path == path


def test_an_action_can_be_given_as_its_word() -> None:
    policy = StandardPolicy(expired=True, action="abandon")  # type: ignore[arg-type]

    assert policy.action is RecoveryAction.ABANDON


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [(Skip, "reason", 1), (Requeue, "replay_safe", None), (Abandon, "detail", b"gone")],
)
def test_a_decision_checks_itself(kind: Any, field: str, value: object) -> None:
    with pytest.raises(InvalidValueError) as refused:
        kind(**{field: value})

    assert refused.value.path == f"$.{field}"
