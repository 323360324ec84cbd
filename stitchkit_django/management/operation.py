"""What the commands of operation share: their options, and how they begin and end.

Exit status 0: done. 1: something failed, and the rest was done. 2: it could not run. 130 or 143:
SIGINT or SIGTERM has ended it, after the batch in hand.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from stitchkit_django.core.errors import (
    InvalidIdentifierError,
    InvalidValueError,
    StoreUnavailableError,
)
from stitchkit_django.management import options
from stitchkit_django.management.options import COULD_NOT_RUN
from stitchkit_django.management.output import FORMATS, TEXT, Output
from stitchkit_django.management.progress import NoProgress, progress_on
from stitchkit_django.management.signals import noted
from stitchkit_django.registry import get_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import timedelta

    from django.core.management.base import CommandParser

    from stitchkit_django.core.values import JSONValue
    from stitchkit_django.management.progress import Progress
    from stitchkit_django.management.signals import Stop
    from stitchkit_django.registry import DjangoStore

T = TypeVar("T")

SOMETHING_FAILED: Final = 1
"""Exit status of a command that has done the rest."""
ENDED_BY: Final = {
    "signal": "by a signal",
    "time": "its time was up",
    "database": "the database failed",
}


class Operation:
    """One run of a command: what it works on, and what it has come to."""

    def __init__(  # noqa: PLR0913 - what the shared options say
        self,
        store: DjangoStore,
        stop: Stop,
        output: Output,
        progress: Progress,
        *,
        dry_run: bool,
        batch_size: int,
        limit: int | None,
    ) -> None:
        """Begin with nothing told."""
        self.store = store
        self.dry_run = dry_run
        self.batch_size = batch_size
        self.limit = limit
        self.failures = 0
        self.has_begun = False
        self._stop = stop
        self._output = output
        self._progress = progress
        self._ended_by: str | None = None

    def followed(self, batches: Iterable[T], *, within: timedelta | None = None) -> Iterator[T]:
        """Give each batch of work, until a signal or the end of its time comes.

        Args:
            batches: each is done when it is given; the next begins when it is asked for.
            within: how long; what is in hand then is finished. None: until the end.

        Raises:
            StoreUnavailableError: the database failed before anything was done. What fails later
                is told, and ends the work.
        """
        deadline = None if within is None else time.monotonic() + within.total_seconds()
        try:
            for batch in batches:
                self.has_begun = True
                yield batch
                if self._stop.signal is not None:
                    self._ended_by = "signal"
                    return
                if deadline is not None and time.monotonic() >= deadline:
                    self._ended_by = "time"
                    return
        except StoreUnavailableError as error:
            if not self.has_begun:
                raise
            self._ended_by = "database"
            self.fail(str(error), {"error": str(error)})

    def tell(self, text: str, document: Mapping[str, JSONValue]) -> None:
        """Tell what became of an item, on stdout."""
        self._output.result(text, document)

    def fail(self, text: str, document: Mapping[str, JSONValue]) -> None:
        """Tell what failed, on stderr; it makes the exit status 1."""
        self.failures += 1
        self._output.failure(text, document)

    def sum_up(self, text: str, document: Mapping[str, JSONValue]) -> None:
        """Tell what all came to, and why it ended early if it did."""
        early = "" if self._ended_by is None else f" (ended early: {ENDED_BY[self._ended_by]})"
        ending: dict[str, JSONValue] = {
            "dryRun": self.dry_run,
            "failed": self.failures,
            "endedBy": self._ended_by,
        }
        self._output.summary(f"{text}{early}", {**document, **ending})

    def progress(self, text: str, done: int) -> None:
        """Show on a terminal how far it has come."""
        self._progress.show(text, done)

    def check(self) -> None:
        """End the command with the exit status that it has earned.

        Raises:
            CommandError: a signal has ended it, or something failed.
        """
        status = self._stop.status
        if status is not None:
            name = "SIGINT" if self._stop.signal is None else self._stop.signal.name
            msg = f"{name} has ended it after the batch in hand; the next pass goes on"
            raise CommandError(msg, returncode=status)
        if self.failures:
            msg = f"{self.failures} failed, as told above; the rest was done"
            raise CommandError(msg, returncode=SOMETHING_FAILED)


class OperationCommand(BaseCommand):
    """A command with the shared options, which ends with the exit status that it has earned."""

    # What is to be settled or purged must not wait until all else in the project is in order.
    requires_system_checks = ()
    default_batch_size: ClassVar[int] = 500
    batch_help: ClassVar[str] = "rows that one transaction deletes at the most"
    limit_help: ClassVar[str] = "how many are done at the most; without it all"
    most_in_a_batch: ClassVar[int | None] = None

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options that all commands have."""
        parser.add_argument(
            "--database",
            metavar="ALIAS",
            help="the database; without it STITCHKIT['DATABASE'], else the router's",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be done, and do nothing"
        )
        parser.add_argument(
            "--batch-size",
            metavar="N",
            default=self.default_batch_size,
            help=f"{self.batch_help} (%(default)s)",
        )
        parser.add_argument("--limit", metavar="N", help=self.limit_help)
        parser.add_argument(
            "--format",
            metavar="FORMAT",
            dest="output_format",
            default=TEXT,
            help=f"{' or '.join(FORMATS)} (%(default)s)",
        )

    @contextmanager
    def operation(self, items: str, shared: Mapping[str, Any]) -> Iterator[Operation]:
        """Check the shared options, and run the block as this command's operation.

        Args:
            items: what a JSON document calls the list of them.
            shared: the options as `handle` is given them, of which those that all commands have
                are read.

        Raises:
            CommandError: with the exit status: something failed, it could not run, or a signal
                has ended it.
        """
        using = options.alias(shared["database"])
        most = options.optional_number("--limit", shared["limit"])
        batch = options.whole_number(
            "--batch-size", shared["batch_size"], most=self.most_in_a_batch
        )
        output_format = options.one_of("--format", shared["output_format"], FORMATS)
        streams: tuple[Any, Any] = (self.stdout, self.stderr)
        # The command's own stderr ends each line that it is given.
        progress = progress_on(sys.stderr, most) if streams[1].isatty() else NoProgress()
        output = Output(*streams, progress, output_format=output_format, items=items)
        with noted() as stop:
            try:
                running = Operation(
                    get_store(using),
                    stop,
                    output,
                    progress,
                    dry_run=shared["dry_run"],
                    batch_size=batch,
                    limit=most,
                )
                yield running
            except (
                ImproperlyConfigured,
                InvalidIdentifierError,
                InvalidValueError,
                StoreUnavailableError,
            ) as error:
                raise CommandError(str(error), returncode=COULD_NOT_RUN) from error
            finally:
                progress.clear()
        running.check()
