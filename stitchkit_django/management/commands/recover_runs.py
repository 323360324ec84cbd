"""`manage.py recover_runs`: finds every run that waits or was lost, and settles it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from stitchkit_django.conf import conf, imported
from stitchkit_django.core.errors import InvalidValueError
from stitchkit_django.core.lifecycle import RecoveryAction
from stitchkit_django.core.paging import DEFAULT_LIMIT, MAX_LIMIT
from stitchkit_django.core.recovery import StandardPolicy
from stitchkit_django.management import options
from stitchkit_django.management.operation import OperationCommand
from stitchkit_django.recovery import Result, recover
from stitchkit_django.registry import get_dispatcher

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

    from stitchkit_django.core.recovery import Policy
    from stitchkit_django.core.values import JSONValue
    from stitchkit_django.management.operation import Operation
    from stitchkit_django.recovery import RunOutcome


class Command(OperationCommand):
    """Recovers runs; without options it dispatches what waits, and ends nothing."""

    help = (
        "Finds queued and crashed runs and settles them. Without the options of a policy, "
        "STITCHKIT['RECOVERY_POLICY'] decides; without that, queued runs that are first in their "
        "queue are handed to STITCHKIT['DISPATCHER'] and acquired ones are left alone. Exit "
        "status: 0 done, 1 a run failed, 2 it could not run, 130 or 143 a signal has ended it."
    )
    default_batch_size: ClassVar[int] = DEFAULT_LIMIT
    most_in_a_batch: ClassVar[int | None] = MAX_LIMIT
    batch_help: ClassVar[str] = "runs that are read at once, at most 1000"
    limit_help: ClassVar[str] = "runs that are acted on at the most; skipped ones don't count"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of a policy."""
        super().add_arguments(parser)
        parser.add_argument("--conversation", metavar="ID", help="recover this one alone")
        policy = parser.add_argument_group("policy", "any of these replaces the configured policy")
        policy.add_argument(
            "--expired", action="store_true", help="a lapsed lease is evidence of a lost owner"
        )
        policy.add_argument(
            "--stale-after",
            metavar="DURATION",
            help="so is this long without a write, of a run without a lease: 30m, 1d12h",
        )
        policy.add_argument(
            "--action", metavar="ACTION", help="what is done on evidence: abandon or requeue"
        )
        policy.add_argument(
            "--replay-safe",
            action="store_true",
            help="your word that a run's work may be repeated, which requeue needs",
        )
        policy.add_argument(
            "--max-attempts",
            metavar="N",
            help="abandon runs that were acquired this often (STITCHKIT['MAX_ATTEMPTS'])",
        )

    def handle(  # noqa: PLR0913 - the options
        self,
        *_args: object,
        conversation: str | None,
        expired: bool,
        stale_after: object,
        action: str | None,
        replay_safe: bool,
        max_attempts: object,
        verbosity: int = 1,
        **shared: object,
    ) -> None:
        """Recover.

        Raises:
            CommandError: with the exit status, unless that is 0.
        """
        with self.operation("runs", shared) as operation:
            policy = _policy(
                expired=expired,
                stale_after=stale_after,
                action=action,
                replay_safe=replay_safe,
                max_attempts=max_attempts,
            )
            only = options.optional_conversation_id("--conversation", conversation)
            _recover(operation, policy, only, tells_all=verbosity > 1)


def _recover(
    operation: Operation, policy: Policy, conversation_id: str | None, *, tells_all: bool
) -> None:
    outcomes = recover(
        operation.store,
        policy,
        dispatcher=get_dispatcher(),
        page_size=operation.batch_size,
        limit=operation.limit,
        conversation_id=conversation_id,
        dry_run=operation.dry_run,
    )
    found: Counter[Result] = Counter()
    for outcome in operation.followed(outcomes):
        found[outcome.result] += 1
        if tells_all or outcome.result is not Result.SKIPPED:
            _tell(operation, outcome)
        acted = found.total() - found[Result.SKIPPED] - found[Result.FAILED]
        operation.progress(f"{found.total()} runs looked at, {acted} acted on", acted)
    counts: dict[str, JSONValue] = {str(result): found[result] for result in Result}
    told = ", ".join(f"{number} {result}" for result, number in counts.items())
    operation.sum_up(f"{'Would be: ' if operation.dry_run else ''}{told}", counts)


def _tell(operation: Operation, outcome: RunOutcome) -> None:
    why = "" if outcome.detail is None else f": {outcome.detail}"
    document = _document(outcome)
    match outcome.result:
        case Result.FAILED:
            # What can't be read is named by the error itself.
            told = outcome.detail if outcome.run is None else f"{_named(outcome)}{why}"
            operation.fail(f"failed: {told}", document)
        case Result.REPORTED:
            operation.tell(f"queued: {_named(outcome)}{why}", document)
        case _:
            acts = outcome.result is not Result.SKIPPED
            would = "would be " if operation.dry_run and acts else ""
            operation.tell(f"{would}{outcome.result}: {_named(outcome)}{why}", document)


def _named(outcome: RunOutcome) -> str:
    run = outcome.run
    return outcome.row if run is None else f"run {run.id} in conversation {run.conversation_id}"


def _document(outcome: RunOutcome) -> dict[str, JSONValue]:
    run = outcome.run
    return {
        "conversationId": None if run is None else run.conversation_id,
        "runId": None if run is None else run.id,
        "row": outcome.row,
        "result": str(outcome.result),
        "detail": outcome.detail,
    }


def _policy(
    *,
    expired: bool,
    stale_after: object,
    action: str | None,
    replay_safe: bool,
    max_attempts: object,
) -> Policy:
    age = options.optional_duration("--stale-after", stale_after)
    attempts = options.optional_number("--max-attempts", max_attempts)
    settings = conf()
    is_given = expired or replay_safe or any(one is not None for one in (age, action, attempts))
    if settings.recovery_policy is not None and not is_given:
        policy: Any = imported("RECOVERY_POLICY", settings.recovery_policy)
        return policy  # type: ignore[no-any-return] # what the project calls one
    try:
        return StandardPolicy(
            expired=expired,
            stale_after=age,
            action=None if action is None else RecoveryAction(_action(action)),
            replay_safe=replay_safe,
            max_attempts=settings.max_attempts if attempts is None else attempts,
        )
    except InvalidValueError as error:
        option = f"--{error.path.removeprefix('$.').replace('_', '-')}"
        raise options.refused(option, error.reason) from error


def _action(given: str) -> str:
    return options.one_of("--action", given, tuple(map(str, RecoveryAction)))
