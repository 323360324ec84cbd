"""`manage.py test`: the example's tests, run by pytest."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from django.core.management.base import BaseCommand, CommandError, CommandParser

from example import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence


class Command(BaseCommand):
    """Hands its labels to pytest, and pytest's exit status to the caller."""

    help = "Runs the example's tests with pytest; ends with pytest's own exit status."
    requires_system_checks = ()
    _options: Sequence[str] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Keep what follows `--` for pytest, and parse the rest."""
        if "--" in argv:
            end = argv.index("--")
            argv, self._options = argv[:end], argv[end + 1 :]
        super().run_from_argv(argv)

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what pytest takes."""
        parser.add_argument(
            "labels",
            nargs="*",
            metavar="label",
            help=(
                "a file, a dotted module or the id of a test (default: all tests); options of "
                "pytest's own go after `--`"
            ),
        )

    def handle(self, *_args: object, labels: list[str], **_options: object) -> None:
        """Run the tests.

        Raises:
            CommandError: pytest or pytest-django isn't installed.
            SystemExit: with the exit status of pytest, unless it is 0.
        """
        # In a process of its own: pytest imports its plugins itself, so that it can rewrite their
        # asserts, and this process has imported the package of one already.
        missing = [name for name in ("pytest", "pytest_django") if find_spec(name) is None]
        if missing:
            message = f"the tests need {' and '.join(missing)}: pip install -e '.[dev]' brings them"
            raise CommandError(message, returncode=2)
        own = ["-c", str(DIRECTORY / "pytest.ini"), "--pyargs"]
        chosen = labels or [str(DIRECTORY / "example")]
        command = [sys.executable, "-m", "pytest", *own, *self._options, *chosen]
        status = subprocess.run(command, check=False).returncode  # noqa: S603 - what the user asked
        if status:
            sys.exit(status)
