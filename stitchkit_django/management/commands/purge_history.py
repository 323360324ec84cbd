"""`manage.py purge_history`: deletes archived messages, which summaries have replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stitchkit_django.management import options
from stitchkit_django.management.operation import OperationCommand
from stitchkit_django.management.output import counted
from stitchkit_django.retention import purge_archived

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.core.management.base import CommandParser

    from stitchkit_django.management.operation import Operation
    from stitchkit_django.retention import MessageStep


class Command(OperationCommand):
    """Purges archived messages."""

    help = (
        "Deletes messages that were archived, when a summary took their place, longer ago than you "
        "say. The active history stays as it is. Exit status: 0 done, 1 a conversation failed, 2 "
        "it could not run, 130 or 143 a signal has ended it after the batch in hand."
    )
    limit_help: ClassVar[str] = "messages that go at the most; without it all"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the age, and how long the purge may take."""
        super().add_arguments(parser)
        parser.add_argument("--older-than", metavar="DURATION", help="needed: 90d, 12h")
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
            if older_than is None:
                raise options.refused("--older-than", "is needed: how long ago is long enough")
            steps = purge_archived(
                operation.store,
                options.duration("--older-than", older_than),
                batch_size=operation.batch_size,
                limit=operation.limit,
                dry_run=operation.dry_run,
            )
            within = options.optional_seconds("--max-seconds", max_seconds)
            _purge(operation, operation.followed(steps, within=within))


def _purge(operation: Operation, steps: Iterable[MessageStep]) -> None:
    looked_at = messages = 0
    for step in steps:
        looked_at += step.looked_at
        messages += step.messages
        if step.error is not None:
            document = {"conversationId": step.conversation_id, "error": step.error}
            operation.fail(f"failed: conversation {step.conversation_id}: {step.error}", document)
        operation.progress(f"{looked_at} conversations looked at, {messages} purged", messages)
    would = "Would purge" if operation.dry_run else "Purged"
    operation.sum_up(f"{would} {counted(messages, 'archived message')}", {"messages": messages})
