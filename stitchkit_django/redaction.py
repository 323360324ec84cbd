"""The project's redaction, as its setting REDACT names it: for whatever shows stored parts.

The callable is given a part and gives the part to show: of the same kind, and of the same call
where it is a tool's. The default shows what is stored. Only parts go through it: metadata of
messages, details of ends, ids and owners are shown as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stitchkit_django.conf import conf, imported
from stitchkit_django.core.redaction import (
    MASK,
    redacted_placed,
    redacted_receipt,
    redacted_run,
)

if TYPE_CHECKING:
    from stitchkit_django.core.documents import ExportedRows, UnreadableRow
    from stitchkit_django.core.redaction import Redact

# What of an unreadable row can hold parts, by its column: a text that nobody could look into.
_BODIES = ("parts", "input", "terminal_assistant")


def redaction() -> Redact | None:
    """Give the callable that the setting's `REDACT` names; None where it is unset.

    Raises:
        ImproperlyConfigured: it can't be imported or called.
    """
    path = conf().redact
    return None if path is None else imported("REDACT", path)


def redacted_rows(rows: ExportedRows) -> ExportedRows:
    """Give the rows of a conversation as they may be shown; of unreadable ones no body.

    Raises:
        ImproperlyConfigured: the setting's callable can't be imported or called.
    """
    redact = redaction()
    if redact is None:
        return rows
    return replace(
        rows,
        runs=tuple(redacted_run(one, redact) for one in rows.runs),
        receipts=tuple(redacted_receipt(one, redact) for one in rows.receipts),
        messages=tuple(redacted_placed(one, redact) for one in rows.messages),
        unreadable=tuple(map(_without_bodies, rows.unreadable)),
    )


def _without_bodies(row: UnreadableRow) -> UnreadableRow:
    columns = {
        name: MASK if name in _BODIES and value is not None else value
        for name, value in row.columns.items()
    }
    # The reason can quote what it couldn't read.
    return replace(row, columns=columns, reason=MASK)
