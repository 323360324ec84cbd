"""A conversation from a document into a driver: checked whole, then written whole or not at all."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from stitchkit_django.core.checked import Record
from stitchkit_django.core.documents import conversation_id_of, rows_of
from stitchkit_django.core.errors import (
    CorruptRecordError,
    InvalidValueError,
    UnsupportedSchemaVersionError,
)
from stitchkit_django.core.integrity import findings

if TYPE_CHECKING:
    from stitchkit_django.core.driver import ConversationRows, Driver, Transaction
    from stitchkit_django.core.records import Head


class ImportResult(StrEnum):
    """What became of a document."""

    IMPORTED = "imported"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class Import(Record, frozen=True, kw_only=True):
    """What became of one document, and why."""

    result: ImportResult
    conversation_id: str | None = None
    """None when the document doesn't say, or can't be read so far."""
    reason: str | None = None
    """Set exactly when it was refused."""


def import_document(driver: Driver, text: str, *, dry_run: bool = False) -> Import:
    """Import one conversation.

    It is refused as a whole when it breaks a rule of `core.integrity`, and when a conversation of
    its id is there at another version. One that is there at the same version is left as it is.

    Args:
        driver: where it goes.
        text: the document, in either form of `core.documents`.
        dry_run: decide all, and write nothing.

    Raises:
        StoreUnavailableError: the database failed; nothing was written.
    """
    try:
        rows = rows_of(text)
    except InvalidValueError as error:
        known = conversation_id_of(text)
        return Import(result=ImportResult.REFUSED, conversation_id=known, reason=str(error))
    conversation_id = rows.head.conversation_id
    try:
        result, reason = _restored(driver, rows, dry_run=dry_run)
    except (CorruptRecordError, UnsupportedSchemaVersionError) as error:
        result, reason = ImportResult.REFUSED, f"is there, but can't be read: {error}"
    return Import(result=result, conversation_id=conversation_id, reason=reason)


def _restored(
    driver: Driver, rows: ConversationRows, *, dry_run: bool
) -> tuple[ImportResult, str | None]:
    reason = _contradiction(rows)
    if reason is not None:
        return ImportResult.REFUSED, reason
    stored = driver.active_runs(rows.head.conversation_id).head
    if not (dry_run or _is_there(stored)):
        stored = _written(driver, rows)
    if stored is None or not _is_there(stored):
        return ImportResult.IMPORTED, None
    reason = _difference(stored, rows.head)
    return (ImportResult.REFUSED if reason else ImportResult.UNCHANGED), reason


def _contradiction(rows: ConversationRows) -> str | None:
    if rows.head.version == 0:
        return "has version 0: nobody has written to it, so there is nothing to import"
    broken = findings(rows)
    if not broken:
        return None
    more = f"; {len(broken) - 1} more findings" if len(broken) > 1 else ""
    return f"contradicts itself: {broken[0]}{more}"


def _is_there(head: Head | None) -> bool:
    # A product's own row can be there before anybody has written.
    return head is not None and head.version > 0


def _written(driver: Driver, rows: ConversationRows) -> Head | None:
    # Gives the head that was there already, if another was faster.
    def write(transaction: Transaction) -> bool:
        return transaction.restore(rows)

    if driver.transaction(write):
        return None
    return driver.active_runs(rows.head.conversation_id).head


def _difference(stored: Head, head: Head) -> str | None:
    if (stored.version, stored.purged_at) == (head.version, head.purged_at):
        return None
    purged = " and purged" if stored.purged_at is not None else ""
    return (
        f"is there at version {stored.version}{purged}, while the document has version "
        f"{head.version}: what is stored is left as it is"
    )
