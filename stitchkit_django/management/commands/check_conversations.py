"""`manage.py check_conversations`: reads every row and reports what contradicts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from django.core.management.base import CommandError

from stitchkit_django.core.errors import shown
from stitchkit_django.integrity import check_all, check_one
from stitchkit_django.management import options
from stitchkit_django.management.operation import SOMETHING_FAILED, OperationCommand
from stitchkit_django.management.sources import stored_by
from stitchkit_django.stored import PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.management.base import CommandParser

    from stitchkit_django.core.integrity import Finding
    from stitchkit_django.core.values import JSONValue
    from stitchkit_django.integrity import Checked
    from stitchkit_django.management.operation import Operation


class Command(OperationCommand):
    """Checks stored conversations; it changes nothing."""

    help = (
        "Reads conversations one at a time, checks every row and what must hold between them, and "
        "reports each contradiction; it changes nothing. Exit status: 0 nothing found, 1 "
        "something was found, 2 it could not run, 130 or 143 a signal has ended it."
    )
    default_batch_size: ClassVar[int] = PAGE
    batch_help: ClassVar[str] = "ids of conversations that are read at once"
    limit_help: ClassVar[str] = "conversations that are checked at the most; without it all"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the option of one conversation."""
        super().add_arguments(parser)
        parser.add_argument("--conversation", metavar="ID", help="check this one alone")

    def handle(
        self,
        *_args: object,
        conversation: str | None,
        **shared: object,
    ) -> None:
        """Check.

        Raises:
            CommandError: with the exit status, unless that is 0.
        """
        only = (
            None
            if conversation is None
            else options.conversation_id("--conversation", conversation)
        )
        with self.operation("findings", shared) as operation:
            found = _check(operation, only)
        if found:
            raise CommandError(f"{found} findings, as told above", returncode=SOMETHING_FAILED)


def _check(operation: Operation, only: str | None) -> int:
    checked = found = broken = 0
    for conversation in operation.followed(_conversations(operation, only)):
        checked += 1
        broken += bool(conversation.findings)
        found += len(conversation.findings)
        for finding in conversation.findings:
            operation.tell(_text(finding), _document(finding))
        operation.progress(f"{checked} conversations checked, {found} findings", checked)
    operation.sum_up(
        f"{checked} conversations checked: {found} findings in {broken} of them",
        {"conversations": checked, "broken": broken, "findings": found},
    )
    return found


def _conversations(operation: Operation, only: str | None) -> Iterator[Checked]:
    stored = stored_by(operation.store)
    if only is None:
        yield from check_all(stored, page=operation.batch_size, limit=operation.limit)
        return
    found = check_one(stored, only)
    if found is None:
        raise options.refused("--conversation", f"{shown(only)} has no row in this database")
    yield found


def _text(finding: Finding) -> str:
    return f"conversation {finding.conversation_id}: {finding}"


def _document(finding: Finding) -> dict[str, JSONValue]:
    return {
        "conversationId": finding.conversation_id,
        "rule": str(finding.rule),
        "row": finding.row,
        "detail": finding.detail,
    }
