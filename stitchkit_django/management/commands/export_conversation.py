"""`manage.py export_conversation`: gives conversations out, one JSON document a line."""

from __future__ import annotations

import re
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TextIO

from stitchkit_django.core.errors import shown
from stitchkit_django.management import options
from stitchkit_django.management.operation import OperationCommand
from stitchkit_django.management.output import TEXT
from stitchkit_django.management.sources import stored_by
from stitchkit_django.stored import PAGE
from stitchkit_django.transfer import export

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from django.core.management.base import CommandParser

    from stitchkit_django.management.operation import Operation
    from stitchkit_django.transfer import Export

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")


class Command(OperationCommand):
    """Exports conversations; it changes nothing."""

    help = (
        "Writes each conversation as one line of JSON with all its rows, which "
        "import_conversations takes in again. A row that can't be read is written as its columns "
        "have it, and told. Exit status: 0 done, 1 a conversation is unknown or has rows that "
        "can't be read, 2 it could not run, 130 or 143 a signal has ended it."
    )
    default_batch_size: ClassVar[int] = PAGE
    batch_help: ClassVar[str] = "ids of conversations that are read at once"
    limit_help: ClassVar[str] = "conversations that are exported at the most; without it all"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what is exported, and where it goes."""
        super().add_arguments(parser)
        parser.add_argument("conversations", nargs="*", metavar="ID", help="of a conversation")
        parser.add_argument("--all", action="store_true", dest="every", help="export all")
        parser.add_argument(
            "--output",
            metavar="FILE",
            help="write to this new file, and report on stdout; without it the lines are stdout",
        )
        parser.add_argument(
            "--unredacted",
            action="store_true",
            help="write parts as they are stored, whatever STITCHKIT['REDACT'] makes of them",
        )

    def handle(
        self,
        *_args: object,
        conversations: Sequence[str],
        every: bool,
        output: str | None,
        unredacted: bool,
        **shared: object,
    ) -> None:
        """Export.

        Raises:
            CommandError: with the exit status, unless that is 0.
        """
        named = [options.conversation_id("ID", one) for one in conversations]
        if every == bool(named):
            raise options.refused("ID", "name conversations, or give --all, and not both")
        if output is None and shared["output_format"] != TEXT:
            reason = f"a report in {shown(shared['output_format'])} would stand among the lines"
            raise options.refused("--format", f"{reason}: give --output FILE, too")
        with (
            self.operation("conversations", shared) as operation,
            ExitStack() as stack,
        ):
            file = (
                None
                if output is None or operation.dry_run
                else stack.enter_context(_new_file(output))
            )
            exports = _exports(operation, None if every else named, redacts=not unredacted)
            _export(operation, exports, _Sink(operation, file, reports=output is not None))


class _Exported(NamedTuple):
    conversation_id: str
    export: Export | None


class _Sink:
    """Where the lines go: a file, or standard output, which then holds nothing else."""

    def __init__(self, operation: Operation, file: TextIO | None, *, reports: bool) -> None:
        self.reports = reports
        self._operation = operation
        self._file = file

    def write(self, text: str) -> None:
        if self._operation.dry_run:
            return
        # Of ASCII alone, a line is the same in every encoding, and one line to every reader.
        line = _NOT_ASCII.sub(_escaped, text)
        if self._file is not None:
            self._file.write(f"{line}\n")
        else:
            self._operation.tell(line, {})


def _exports(
    operation: Operation, named: Iterable[str] | None, *, redacts: bool
) -> Iterator[_Exported]:
    stored = stored_by(operation.store)
    chosen = stored.ids(page=operation.batch_size) if named is None else named
    for one in islice(chosen, operation.limit):
        found = export(stored, one, redacts=redacts)
        # A product's own row can be there before anybody has written.
        if found is not None or named is not None:
            yield _Exported(one, found)


def _export(operation: Operation, exports: Iterator[_Exported], sink: _Sink) -> None:
    done = 0
    for one in operation.followed(exports):
        if one.export is not None:
            sink.write(one.export.text)
            done += 1
        for reason in _failures(one):
            text = f"conversation {one.conversation_id}: {reason}"
            operation.fail(text, {"conversationId": one.conversation_id, "error": reason})
        operation.progress(f"{done} conversations exported", done)
    if sink.reports:
        would = "Would be: " if operation.dry_run else ""
        operation.sum_up(f"{would}{done} exported", {"exported": done})


def _failures(one: _Exported) -> Iterator[str]:
    if one.export is None:
        yield "is unknown: nobody has written to it"
        return
    if not one.export.has_head:
        yield "has rows, but no head: it can't be imported"
    for row in one.export.unreadable:
        row_told = f"{row.kind} {shown(row.id)}" if row.id else f"the {row.kind}"
        yield f"{row_told} can't be read, and is exported as its columns have it: {row.reason}"


def _new_file(path: str) -> TextIO:
    try:
        return open(path, "x", encoding="ascii")  # noqa: PTH123 - closed by the caller
    except OSError as error:
        raise options.refused("--output", f"{shown(path)}: {error.strerror}") from error


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2))
