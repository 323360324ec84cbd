"""Conversations out of a database and into one, as documents: the work of export and import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from django.db.utils import DataError, IntegrityError
from msgspec.structs import replace

from stitchkit_django.core.documents import UnreadableRow, document
from stitchkit_django.core.errors import StoreUnavailableError
from stitchkit_django.core.transfer import Import, ImportResult, import_document
from stitchkit_django.redaction import redacted_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stitchkit_django.core.driver import Driver
    from stitchkit_django.stored import StoredConversations

# What the database objects to in one conversation, which says nothing about the next.
_OBJECTIONS: Final = (DataError, IntegrityError)


class Imported(NamedTuple):
    """What became of one line."""

    line: int
    """From 1."""
    outcome: Import


class Export(NamedTuple):
    """A conversation as one line, and what of it could not be read."""

    text: str
    unreadable: tuple[UnreadableRow, ...]
    has_head: bool
    """Whether there is a row for the head, be it one that can't be read."""


def import_lines(
    driver: Driver, lines: Iterable[bytes], *, dry_run: bool = False
) -> Iterator[Imported]:
    """Import the conversation of each line that isn't blank; one that is refused stops none.

    Args:
        driver: of the database that they go to.
        lines: each a document in either form, in UTF-8.
        dry_run: decide all, and write nothing.

    Raises:
        StoreUnavailableError: the database failed; the lines so far are imported, and the same
            lines can be given again.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield Imported(number, _imported(driver, line, dry_run=dry_run))


def export(
    stored: StoredConversations, conversation_id: str, *, redacts: bool = True
) -> Export | None:
    """Give a conversation as a document; None when nobody has written to it.

    A row that can't be read is in it as its columns have it. The document then holds everything,
    but an import refuses it, as it does one that was redacted.

    Args:
        stored: of the database.
        conversation_id: of the conversation.
        redacts: whether parts go through what the setting's `REDACT` names.

    Raises:
        StoreUnavailableError: the database failed.
        ImproperlyConfigured: `REDACT` names nothing that can be called.
    """
    rows = stored.conversation(conversation_id)
    if rows is None or (rows.head is not None and rows.head.version == 0):
        return None
    told = rows
    if redacts and (told := redacted_rows(rows)) is not rows:
        told = replace(told, redacted=True)
    return Export(document(told), told.unreadable, rows.has_head)


def _imported(driver: Driver, line: bytes, *, dry_run: bool) -> Import:
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        return Import(result=ImportResult.REFUSED, reason=f"is not UTF-8: {error}")
    try:
        return _tried(driver, text, dry_run=dry_run)
    except StoreUnavailableError as error:
        if _is_about_this_one(error):
            return Import(result=ImportResult.REFUSED, reason=str(error))
        raise


def _tried(driver: Driver, text: str, *, dry_run: bool) -> Import:
    try:
        return import_document(driver, text, dry_run=dry_run)
    except StoreUnavailableError as error:
        if _is_about_this_one(error):
            raise
    # The connection may have been lost before. What was written then is found there now.
    return import_document(driver, text, dry_run=dry_run)


def _is_about_this_one(error: StoreUnavailableError) -> bool:
    # Without a cause the database hasn't failed: it has no row for the head, and needs one.
    return error.__cause__ is None or isinstance(error.__cause__, _OBJECTIONS)
