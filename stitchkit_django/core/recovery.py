"""What becomes of a run whose worker may be gone: decided by the run and the moment alone.

Nothing here reads or writes. What carries a decision out judges again, under the lock.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from stitchkit_django.core import values
from stitchkit_django.core.checked import Record, check, check_member
from stitchkit_django.core.errors import InvalidValueError, shown
from stitchkit_django.core.lifecycle import RecoveryAction, RunState
from stitchkit_django.core.records import Run, is_lapsed

_AT_WORK: Final = "its owner may be at work"


class Skip(Record, frozen=True, kw_only=True, tag_field="decision", tag="skip"):
    """Leave the run as it is."""

    reason: str | None = None
    """For people."""

    def __post_init__(self) -> None:
        """Check the reason."""
        check(self, values.optional_text, "reason")


class Dispatch(Record, frozen=True, kw_only=True, tag_field="decision", tag="dispatch"):
    """Hand the run to a worker, if it is queued and the first of its queue."""


class Requeue(Record, frozen=True, kw_only=True, tag_field="decision", tag="requeue"):
    """Let another worker take the run."""

    replay_safe: bool = False
    """The evidence that its work may be repeated, which a run that had an owner needs."""

    def __post_init__(self) -> None:
        """Check the flag."""
        check(self, values.flag, "replay_safe")


class Abandon(Record, frozen=True, kw_only=True, tag_field="decision", tag="abandon"):
    """End the run without an answer."""

    detail: str | None = None
    """Why, for people; kept with the run."""

    def __post_init__(self) -> None:
        """Check the detail."""
        check(self, values.optional_text, "detail")


Decision: TypeAlias = Skip | Dispatch | Requeue | Abandon
Policy: TypeAlias = Callable[[Run, datetime], Decision]
"""Decides about one active run, as of a moment by the database's clock; it reads nothing else."""


class StandardPolicy(Record, frozen=True, kw_only=True):
    """The policy that `manage.py recover_runs` makes of its options; without any, the default one.

    Queued runs are dispatched. Acquired ones are left alone, unless there is evidence that their
    owner is gone: then the action is taken.
    """

    expired: bool = False
    """A lease that has lapsed is evidence."""
    stale_after: timedelta | None = None
    """So is this long without a write, of a run that has no lease; None: never."""
    action: RecoveryAction | None = None
    """What is done on evidence; set exactly when something is taken as evidence."""
    replay_safe: bool = False
    """The caller's word that work may be repeated, which requeueing needs."""
    max_attempts: int | None = None
    """A run that was acquired this often is abandoned instead of tried again; None: no limit."""

    def __post_init__(self) -> None:
        """Check each field, and that evidence and action agree."""
        check(self, values.flag, "expired", "replay_safe")
        check(self, values.optional_ordinal, "max_attempts")
        if self.action is not None:
            check_member(self, RecoveryAction, "action")
        if self.stale_after is not None:
            _check_age(self.stale_after)
        if self.action is None and self._has_evidence():
            wanted = " or ".join(RecoveryAction)
            raise InvalidValueError("$.action", f"is needed to act on evidence: {wanted}")
        if self.action is not None and not self._has_evidence():
            reason = f"{self.action} needs evidence: take expired leases or an age as it"
            raise InvalidValueError("$.action", reason)
        if self.action is RecoveryAction.REQUEUE and not self.replay_safe:
            reason = "is needed to requeue: it says that a run's work may be repeated"
            raise InvalidValueError("$.replay_safe", reason)

    def __call__(self, run: Run, moment: datetime) -> Decision:
        """Decide about one run."""
        if run.state is RunState.QUEUED:
            return self._worn_out(run) or Dispatch()
        if not run.is_acquired:
            return Skip(reason="it has ended")
        gone = self._evidence(run, moment)
        if gone is None:
            return Skip(reason=_AT_WORK)
        if self.action is RecoveryAction.ABANDON:
            return Abandon(detail=gone)
        if run.state is RunState.INTERRUPT_REQUESTED:
            return Abandon(detail=f"its interrupt was requested, and {gone}")
        return self._worn_out(run) or Requeue(replay_safe=self.replay_safe)

    def _has_evidence(self) -> bool:
        return self.expired or self.stale_after is not None

    def _worn_out(self, run: Run) -> Abandon | None:
        attempts = run.fencing_token or 0
        if self.max_attempts is None or attempts < self.max_attempts:
            return None
        return Abandon(detail=f"it was acquired {attempts} times, of at most {self.max_attempts}")

    def _evidence(self, run: Run, moment: datetime) -> str | None:
        if run.lease_expires_at is not None:
            if self.expired and is_lapsed(run, moment):
                return f"its lease lapsed at {run.lease_expires_at.isoformat()}"
            return None
        if self.stale_after is not None and moment - run.updated_at >= self.stale_after:
            return f"it has no lease and was last written at {run.updated_at.isoformat()}"
        return None


def _check_age(age: object) -> None:
    if not isinstance(age, timedelta) or age < timedelta():
        raise InvalidValueError("$.stale_after", f"{shown(age)} is not a timedelta of 0 or more")
