"""Messages as pages show them: read in few queries, whatever they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from stitchkit_django.admin.labels import ROLES, STATUSES, badge, label
from stitchkit_django.admin.parts import ShownParts, shown_parts
from stitchkit_django.admin.reading import Stored, decoded
from stitchkit_django.admin.texts import Cut, cut, cut_json
from stitchkit_django.core.lifecycle import MessageRole
from stitchkit_django.core.redaction import MASK
from stitchkit_django.redaction import redaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.utils.safestring import SafeString

    from stitchkit_django.admin.links import Links
    from stitchkit_django.admin.reading import Decoded, Row
    from stitchkit_django.core.redaction import Redact

OUTLINE: Final = (
    "pk",
    "conversation_id",
    "message_id",
    "schema_version",
    "turn",
    "slot",
    "run_id",
    "role",
    "status",
    "created_at",
    "updated_at",
    "archived_at",
    "replaced_by",
    "size of parts",
    "moment",
)
"""Of a message's row, all but its bodies."""


class ShownMessage(NamedTuple):
    """A message as a page shows it."""

    row: Row
    role: str
    role_name: str
    status: SafeString | str
    parts: ShownParts | None
    """None where they can't be read, or are too long for this page."""
    problem: str
    """Why there are no parts."""
    text: Cut | None
    """What stands where parts can't be read."""
    metadata: Cut | None
    page_url: str | None
    raw_url: str | None
    replaced_url: str | None
    """Of a summary: where the messages are that it replaced."""
    receipt: Row | None = None
    """Of an input."""
    run: Any = None
    """The run that answers, or that this is the answer of; shown once a turn."""


def shown_messages(rows: Sequence[Row], links: Links) -> list[ShownMessage]:
    """Give messages as a page shows them.

    Args:
        rows: their outlines, in the order of the page; the last is read first.
        links: of the site.
    """
    stored = Stored("message")
    sizes = {row.pk: row.size_of_parts for row in reversed(rows)}
    bodies = stored.bodies(sizes, "parts", "metadata")
    redact = redaction()
    return [_shown(row, bodies.get(row.pk), links, redact) for row in rows]


def shown_retained(text: str | bytes | None, row: Row, links: Links) -> ShownMessage | None:
    """Give the message that a run or a receipt keeps, as a page shows it.

    Args:
        text: as it is stored; None where nothing is kept.
        row: whose it is; has a schema version.
        links: of the site.
    """
    if text is None:
        return None
    redact = redaction()
    found = decoded("message", text, row.schema_version)
    if found.value is None:
        return _unread(row, found, redact)
    message = found.value
    return ShownMessage(
        row=row,
        role=message.role,
        role_name=label(ROLES, message.role),
        status=badge(STATUSES, message.status),
        parts=shown_parts(message.parts, redact),
        problem="",
        text=None,
        metadata=None if message.metadata is None else cut_json(message.metadata),
        page_url=links.message_named(message.conversation_id, message.id),
        raw_url=None,
        replaced_url=None,
    )


def _shown(row: Row, body: Row | None, links: Links, redact: Redact | None) -> ShownMessage:
    if body is None:
        size = filesizeformat(row.size_of_parts)
        problem = _("%(size)s are too much for this page") % {"size": size}
        return _message(row, links, problem=problem)
    parts = decoded("parts", body.parts, row.schema_version)
    metadata = decoded("metadata", body.metadata, row.schema_version)
    shown = _message(row, links, metadata=_metadata(metadata, redact))
    if parts.value is None:
        return shown._replace(problem=_told(parts, redact), text=_plain(parts, redact))
    return shown._replace(parts=shown_parts(parts.value, redact))


def _message(
    row: Row, links: Links, *, problem: str = "", metadata: Cut | None = None
) -> ShownMessage:
    replaced = None
    if row.role == MessageRole.SUMMARY and row.archived_at is None:
        replaced = links.conversation(row.conversation_id, within=row.message_id)
    return ShownMessage(
        row=row,
        role=row.role if row.role in ROLES else "unknown",
        role_name=label(ROLES, row.role),
        status=badge(STATUSES, row.status),
        parts=None,
        problem=problem,
        text=None,
        metadata=metadata,
        page_url=links.message(row.pk),
        raw_url=links.message(row.pk, "raw"),
        replaced_url=replaced,
    )


def _unread(row: Row, found: Decoded[Any], redact: Redact | None) -> ShownMessage:
    return ShownMessage(
        row=row,
        role="unknown",
        role_name="",
        status="",
        parts=None,
        problem=_told(found, redact),
        text=_plain(found, redact),
        metadata=None,
        page_url=None,
        raw_url=None,
        replaced_url=None,
    )


def _metadata(found: Decoded[Any], redact: Redact | None) -> Cut | None:
    if found.problem is not None:
        return _plain(found, redact)
    return None if found.value is None else cut_json(found.value)


def _told(found: Decoded[Any], redact: Redact | None) -> str:
    # What a decoder says can quote what it couldn't read.
    problem = MASK if redact else found.problem
    return _("This can't be read: %(problem)s") % {"problem": problem}


def _plain(found: Decoded[Any], redact: Redact | None) -> Cut:
    # The project's redaction knows parts, and these are none: so nobody sees them.
    return cut(MASK if redact else found.text)
