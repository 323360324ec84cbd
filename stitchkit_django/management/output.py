"""What a command says: results on stdout, failures on stderr, as text or as one JSON document.

It survives a reader that has gone, and a locale that can't show a character.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from stitchkit_django.core.values import JSONValue
    from stitchkit_django.management.progress import Progress

TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = (TEXT, JSON)


class Output:
    """Writes what becomes of each item as soon as it is known, and what all came to at the end."""

    def __init__(
        self, stdout: TextIO, stderr: TextIO, progress: Progress, *, output_format: str, items: str
    ) -> None:
        """Write to these streams.

        Args:
            stdout: gets results.
            stderr: gets failures.
            progress: stands on stderr, too, and makes room for each line.
            output_format: text, or json: one document, whose items come as they are known.
            items: the document's key of them.
        """
        self._stdout = stdout
        self._stderr = stderr
        self._progress = progress
        self._is_json = output_format == JSON
        self._items = items
        self._began = False

    def result(self, text: str, document: Mapping[str, JSONValue]) -> None:
        """Tell what became of an item, in the form that was asked for."""
        if self._is_json:
            self._item(document)
        else:
            self._write(self._stdout, text)

    def failure(self, text: str, document: Mapping[str, JSONValue]) -> None:
        """Tell on stderr what failed; the document has it as an item as well."""
        if self._is_json:
            self._item(document)
        self._write(self._stderr, text)

    def summary(self, text: str, document: Mapping[str, JSONValue]) -> None:
        """Tell what all came to, and end the document."""
        if not self._is_json:
            self._write(self._stdout, text)
            return
        opening = "]" if self._began else f'{{"{self._items}": []'
        self._write(self._stdout, f'{opening}, "summary": {json.dumps(document)}}}')

    def _item(self, document: Mapping[str, JSONValue]) -> None:
        opening = "," if self._began else f'{{"{self._items}": ['
        self._began = True
        self._write(self._stdout, f"{opening}{json.dumps(document)}")

    def _write(self, stream: TextIO, text: str) -> None:
        self._progress.clear()
        try:
            stream.write(f"{writable(text, stream)}\n")
            stream.flush()
        except BrokenPipeError:
            _silence(stream)


def counted(number: int, noun: str) -> str:
    """Give a number with what it counts: 1 run, 2 runs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def writable(text: str, stream: TextIO) -> str:
    """Give a text as a stream can write it: what its encoding doesn't have stands as an escape."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _silence(stream: TextIO) -> None:
    # The work goes on, and Python, which flushes the stream at its end, must not fail over it.
    with suppress(OSError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
