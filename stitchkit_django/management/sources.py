"""Where commands that carry conversations read: the database's rows, files, standard input."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, BinaryIO, Final

from django.core.management.base import CommandError

from stitchkit_django.core.errors import shown
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.management.options import COULD_NOT_RUN
from stitchkit_django.stored import StoredConversations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import ExitStack

    from stitchkit_django.registry import DjangoStore

STDIN: Final = "-"


def stored_by(store: DjangoStore) -> StoredConversations:
    """Give the rows behind a store.

    Raises:
        CommandError: the store keeps them in no database of Django's.
    """
    if not isinstance(store.driver, DjangoDriver):
        msg = f"the store keeps its rows in no database, but in a {type(store.driver).__name__}"
        raise CommandError(msg, returncode=COULD_NOT_RUN)
    return StoredConversations(store.driver.using)


def opened(paths: Sequence[str], files: ExitStack) -> Iterator[tuple[str, BinaryIO]]:
    """Open files by turns, once all are known to be readable.

    Args:
        paths: of the files; `-` is standard input, and so is none at all.
        files: closes them.

    Returns:
        The name of each, for messages, and the open file.

    Raises:
        CommandError: one can't be opened; nothing was read then.
    """
    named = list(paths) or [STDIN]
    for path in named:
        if path != STDIN:
            _open(path).close()
    return ((_name(path), _entered(path, files)) for path in named)


def _name(path: str) -> str:
    return "stdin" if path == STDIN else path


def _entered(path: str, files: ExitStack) -> BinaryIO:
    return sys.stdin.buffer if path == STDIN else files.enter_context(_open(path))


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")  # noqa: PTH123 - closed by whoever asked for it
    except OSError as error:
        msg = f"{shown(path)} can't be read: {error.strerror}"
        raise CommandError(msg, returncode=COULD_NOT_RUN) from error
