"""`manage.py import_conversations`: takes conversations in, one JSON document a line."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from stitchkit_django.core.transfer import ImportResult
from stitchkit_django.management.operation import OperationCommand
from stitchkit_django.management.sources import opened
from stitchkit_django.transfer import import_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.core.management.base import CommandParser

    from stitchkit_django.core.values import JSONValue
    from stitchkit_django.management.operation import Operation
    from stitchkit_django.transfer import Imported


class Command(OperationCommand):
    """Imports conversations; each is written whole or not at all."""

    help = (
        "Imports conversations, one JSON document a line: what export_conversation writes, or the "
        "retired aggregate of state and messages. One that is there at the same version is left "
        "as it is; one that can't be imported is named with its line, and the rest goes on. Exit "
        "status: 0 done, 1 a line was refused, 2 it could not run, 130 or 143 a signal has ended "
        "it."
    )
    default_batch_size: ClassVar[int] = 1
    batch_help: ClassVar[str] = "as other commands have it; here each transaction is of one line"
    limit_help: ClassVar[str] = "lines that are looked at, at the most; without it all"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the files."""
        super().add_arguments(parser)
        parser.add_argument(
            "files", nargs="*", metavar="FILE", help="UTF-8; - or none is standard input"
        )

    def handle(
        self,
        *_args: object,
        files: Sequence[str],
        verbosity: int = 1,
        **shared: object,
    ) -> None:
        """Import.

        Raises:
            CommandError: with the exit status, unless that is 0.
        """
        with (
            self.operation("conversations", shared) as operation,
            ExitStack() as stack,
        ):
            _import(operation, _lines(operation, files, stack), tells_all=verbosity > 1)


class _Line(NamedTuple):
    file: str
    imported: Imported


def _lines(operation: Operation, files: Sequence[str], stack: ExitStack) -> Iterator[_Line]:
    sources = opened(files, stack)
    found = (
        _Line(name, imported)
        for name, lines in sources
        for imported in import_lines(operation.store.driver, lines, dry_run=operation.dry_run)
    )
    return islice(found, operation.limit)


def _import(operation: Operation, lines: Iterator[_Line], *, tells_all: bool) -> None:
    counts: Counter[ImportResult] = Counter()
    for line in operation.followed(lines):
        result = line.imported.outcome.result
        counts[result] += 1
        if result is ImportResult.REFUSED:
            operation.fail(_text(line, ""), _document(line))
        elif tells_all:
            would = "would be " if operation.dry_run else ""
            operation.tell(_text(line, would), _document(line))
        told = f"{counts.total()} conversations looked at, {counts[ImportResult.REFUSED]} refused"
        operation.progress(told, counts.total())
    numbers: dict[str, JSONValue] = {str(result): counts[result] for result in ImportResult}
    told = ", ".join(f"{number} {result}" for result, number in numbers.items())
    operation.sum_up(f"{'Would be: ' if operation.dry_run else ''}{told}", numbers)


def _text(line: _Line, would: str) -> str:
    outcome = line.imported.outcome
    whose = "" if outcome.conversation_id is None else f"conversation {outcome.conversation_id}"
    told = ": ".join(part for part in (whose, outcome.reason) if part)
    return f"{would}{outcome.result}: {line.file}:{line.imported.line}: {told}"


def _document(line: _Line) -> dict[str, JSONValue]:
    outcome = line.imported.outcome
    return {
        "file": line.file,
        "line": line.imported.line,
        "conversationId": outcome.conversation_id,
        "result": str(outcome.result),
        "reason": outcome.reason,
    }
