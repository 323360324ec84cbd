"""`manage.py purge_idempotency`: deletes runs and receipts that no retry will ask for any more."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from stitchkit_django.conf import conf
from stitchkit_django.core.retention import Kept
from stitchkit_django.management import options
from stitchkit_django.management.operation import OperationCommand
from stitchkit_django.management.output import counted
from stitchkit_django.retention import purge_runs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from django.core.management.base import CommandParser

    from stitchkit_django.core.values import JSONValue
    from stitchkit_django.management.operation import Operation
    from stitchkit_django.retention import RunStep

# In the order of the rule, with what they are called to people; recent runs are nobody's question.
_CAUSES = {
    Kept.ACTIVE: "active",
    Kept.IN_HISTORY: "named by the active history",
    Kept.ABSORBER: "answering for a run that stays",
}


class Command(OperationCommand):
    """Purges ended runs with their receipts."""

    help = (
        "Deletes runs that ended before the horizon, with their receipts; a key that is sent again "
        "after that is new. Active runs stay, and so do runs that the active history names and "
        "those that answer for a run that stays. Exit status: 0 done, 1 a conversation failed, 2 "
        "it could not run, 130 or 143 a signal has ended it after the batch in hand."
    )
    limit_help: ClassVar[str] = "runs that go at the most; without it all"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the horizon, and how long the purge may take."""
        super().add_arguments(parser)
        parser.add_argument(
            "--older-than",
            metavar="DURATION",
            help="the horizon: 30d, 12h (STITCHKIT['IDEMPOTENCY_HORIZON'])",
        )
        parser.add_argument(
            "--max-seconds", metavar="N", help="end after the batch in hand when they are over"
        )

    def handle(
        self,
        *_args: object,
        older_than: object,
        max_seconds: object,
        **shared: object,
    ) -> None:
        """Purge.

        Raises:
            CommandError: with the exit status, unless that is 0.
        """
        with self.operation("conversations", shared) as operation:
            steps = purge_runs(
                operation.store,
                _horizon(older_than),
                batch_size=operation.batch_size,
                limit=operation.limit,
                dry_run=operation.dry_run,
            )
            within = options.optional_seconds("--max-seconds", max_seconds)
            _purge(operation, operation.followed(steps, within=within))


def _purge(operation: Operation, steps: Iterable[RunStep]) -> None:
    looked_at = runs = receipts = 0
    kept: Counter[Kept] = Counter()
    for step in steps:
        looked_at += step.looked_at
        runs += step.runs
        receipts += step.receipts
        kept.update(step.kept)
        if step.error is not None:
            document = {"conversationId": step.conversation_id, "error": step.error}
            operation.fail(f"failed: conversation {step.conversation_id}: {step.error}", document)
        operation.progress(f"{looked_at} runs looked at, {runs} purged", runs)
    would = "Would purge" if operation.dry_run else "Purged"
    told = f"{counted(runs, 'run')} and {counted(receipts, 'receipt')}"
    causes = ", ".join(f"{kept[cause]} {words}" for cause, words in _CAUSES.items())
    counts: dict[str, JSONValue] = {
        "runs": runs,
        "receipts": receipts,
        "kept": {str(cause): kept[cause] for cause in _CAUSES},
    }
    operation.sum_up(f"{would} {told}; kept: {causes}", counts)


def _horizon(given: object) -> timedelta:
    if given is not None:
        return options.duration("--older-than", given)
    horizon = conf().idempotency_horizon
    if horizon is None:
        reason = "is needed, since STITCHKIT['IDEMPOTENCY_HORIZON'] is not set"
        raise options.refused("--older-than", reason)
    return horizon
