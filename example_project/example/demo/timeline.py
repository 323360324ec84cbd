"""The timeline: what happens as the lines of a table; it knows no store and decides nothing."""

from __future__ import annotations

import textwrap
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.core.management.base import OutputWrapper
    from django.core.management.color import Style

LEGEND: Final = (
    "ver: the conversation's version, which every write moves. rev: the run's revision. "
    "fence: the run's fencing token, a new one each time that a worker takes it."
)
_WHAT: Final = 36
"""The column that the table's last cell begins at."""


class StepFailedError(Exception):
    """A step of the demo is not as it must be; the message names the step."""


class Timeline:
    """Prints events as they happen, each with its time, and checks of what they came to."""

    def __init__(self, out: OutputWrapper, style: Style, width: int) -> None:
        """Begin, at zero seconds.

        Args:
            out: where to print.
            style: of Django's commands: without colours where they aren't wanted.
            width: of the terminal, in characters.
        """
        self._out = out
        self._style = style
        self._width = max(width, _WHAT + 20)
        self._began = time.monotonic()
        self._steps = 0

    def begin(self, title: str) -> None:
        """Print the title and the head of the table."""
        self._print(title, self._style.MIGRATE_HEADING)
        for line in textwrap.wrap(LEGEND, self._width):
            self._print(line)
        self._print("")
        self._print(_row("time", "who", "ver", "rev", "fence") + "what", self._style.MIGRATE_LABEL)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Begin a step; whatever goes wrong inside is told with its name.

        Raises:
            StepFailedError: a check failed, or anything else was raised.
        """
        self._steps += 1
        name = f"{self._steps}. {title}"
        self._print("")
        self._print(name, self._style.MIGRATE_HEADING)
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, StepFailedError) else repr(error)
            raise StepFailedError(f"step {name}: {why}") from error

    def tell(
        self,
        who: str,
        what: str,
        version: int | str | None = None,
        revision: int | str | None = None,
        fence: int | str | None = None,
    ) -> None:
        """Print an event; None: the number is not known, or has no meaning there."""
        seconds = f"{time.monotonic() - self._began:.1f} s"
        self._wrap(_row(seconds, who, version, revision, fence), what)

    def check(self, what: str, *, holds: bool) -> None:
        """Print that something holds.

        Raises:
            StepFailedError: it doesn't.
        """
        if not holds:
            raise StepFailedError(f"it must hold that {what}")
        self._wrap(" " * (_WHAT - 4) + "ok  ", what, self._style.SUCCESS)

    def end(self, text: str) -> None:
        """Print the closing line."""
        self._print("")
        self._print(text, self._style.SUCCESS)

    def _wrap(self, prefix: str, what: str, style: Callable[[str], str] | None = None) -> None:
        lines = textwrap.wrap(
            what, self._width, initial_indent=prefix, subsequent_indent=" " * _WHAT
        )
        for line in lines:
            self._print(line, style)

    def _print(self, line: str, style: Callable[[str], str] | None = None) -> None:
        self._out.write(style(line) if style and line else line)
        self._out.flush()


def _row(time_: str, who: str, *numbers: int | str | None) -> str:
    version, revision, fence = ("-" if number is None else str(number) for number in numbers)
    return f"{time_:>6}  {who:<9}  {version:>3}  {revision:>3}  {fence:>5}  "
