"""What a terminal shows while a command works: a bar where rich is installed, else one line."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

PAUSE_SECONDS: Final = 0.1
"""How long what is shown stays at the least; a terminal is slower than a database."""


class Progress(Protocol):
    """One place on a terminal that is written over and over."""

    def show(self, text: str, done: int) -> None:
        """Say how far it has come; now and then is enough."""
        ...

    def clear(self) -> None:
        """Make room for a line of output, until something is shown again."""
        ...


class NoProgress:
    """Shows nothing: nobody is looking."""

    def show(self, text: str, done: int) -> None:
        """Do nothing."""

    def clear(self) -> None:
        """Do nothing."""


class ProgressLine:
    """One line that is written over."""

    def __init__(self, stream: TextIO) -> None:
        """Take a terminal."""
        self._stream = stream
        self._width = 0

    def show(self, text: str, done: int) -> None:  # noqa: ARG002 - a line has no bar to fill
        """Write over what stands there."""
        # A longer one would wrap, and stay.
        text = text[: shutil.get_terminal_size().columns - 1]
        self._stream.write(f"\r{text.ljust(self._width)}")
        self._stream.flush()
        self._width = len(text)

    def clear(self) -> None:
        """Leave the line empty, and the cursor at its beginning."""
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0


class ProgressBar:
    """A bar by rich; one that only pulses where nobody knows how much there is."""

    def __init__(self, stream: TextIO, total: int | None) -> None:
        """Take a terminal.

        Raises:
            ImportError: rich isn't installed.
        """
        from rich.console import Console  # noqa: PLC0415 - an extra; its absence is an answer
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
        from rich.progress import Progress as Bar  # noqa: PLC0415

        self._bar: Any = Bar(
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=stream),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=total)

    def show(self, text: str, done: int) -> None:
        """Draw the bar."""
        self._bar.update(self._task, description=text, completed=done)
        self._bar.start()
        self._bar.refresh()

    def clear(self) -> None:
        """Take the bar away."""
        self._bar.stop()


class Slowed:
    """Passes on what is shown no more often than a terminal takes it."""

    def __init__(self, inner: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        """Take what shows it."""
        self._inner = inner
        self._clock = clock
        self._next = clock()

    def show(self, text: str, done: int) -> None:
        """Show it, unless something was shown just now."""
        if self._clock() >= self._next:
            self._inner.show(text, done)
            self._next = self._clock() + PAUSE_SECONDS

    def clear(self) -> None:
        """Make room."""
        self._inner.clear()


def progress_on(stream: TextIO, total: int | None) -> Progress:
    """Give what shows progress on a terminal.

    Args:
        stream: stderr, so that what a pipe takes is the results alone.
        total: how much there is to do; None: nobody knows.
    """
    try:
        return Slowed(ProgressBar(stream, total))
    except ImportError:
        return Slowed(ProgressLine(stream))
