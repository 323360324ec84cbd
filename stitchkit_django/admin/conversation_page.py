"""What the page of a conversation shows: its messages, its runs, the receipts of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.utils.translation import gettext as _

from stitchkit_django.admin.keyset import AFTER, BEFORE, InvalidKeyError
from stitchkit_django.admin.messages import shown_messages
from stitchkit_django.admin.raw import raw_row
from stitchkit_django.admin.reading import RUN_FIELDS, Stored, by
from stitchkit_django.admin.texts import brief
from stitchkit_django.admin.timeline import (
    ShownRun,
    runs_of_conversation,
    shown_run,
    with_bars,
)
from stitchkit_django.admin.transcript import WITHIN, Asked, replaced, transcript
from stitchkit_django.core.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpRequest

    from stitchkit_django.admin.messages import ShownMessage
    from stitchkit_django.admin.reading import Row
    from stitchkit_django.admin.readonly import ReadOnlyAdmin
    from stitchkit_django.admin.transcript import Transcript

RECEIPT_FIELDS: Final = ("pk", "idempotency_key", "input_message_id", "run_id", "created_at")
_HEAD: Final = ("version", "updated_at", "purged_at", "schema_version")


class Receipts(NamedTuple):
    """The receipts of the inputs on a page."""

    rows: list[Row]
    by_input: dict[str, Row]


def page_context(
    admin: ReadOnlyAdmin, request: HttpRequest, conversation_id: str
) -> dict[str, Any]:
    """Give what the page of a conversation shows to a user, who may not see all of it.

    Raises:
        InvalidKeyError: the URL names a place or a summary that there is not.
    """
    sees = {kind: admin.may_see(request, kind) for kind in ("run", "receipt", "message")}
    asked = Asked.of(request.GET)
    page = _transcript(conversation_id, asked) if sees["message"] else None
    rows = page.rows if page else []
    receipts = _receipts(admin, conversation_id, rows) if sees["receipt"] else Receipts([], {})
    runs, more_runs = _runs(admin, conversation_id) if sees["run"] else ([], False)
    named = _named_runs(admin, conversation_id, rows, receipts, runs) if sees["run"] else {}
    heads = Stored("head")
    head = heads.read(heads.where(conversation_id=conversation_id), *_HEAD)[0]
    links = admin.links
    newest = page is not None and page.newer is None and asked.within is None
    return {
        "title": _("Conversation %(id)s") % {"id": brief(conversation_id)},
        "conversation_id": conversation_id,
        "head": head,
        "is_known_schema": head.schema_version == SCHEMA_VERSION,
        "sees": sees,
        "messages_shown": _with_runs(shown_messages(rows, links), receipts, named),
        "waiting": [run for run in reversed(runs) if run.is_active] if newest else [],
        "within": asked.within,
        "runs": with_bars(runs),
        "more_runs_url": links.runs(q=conversation_id) if more_runs else None,
        "receipts": receipts.rows,
        "standing": _standing(runs),
        **_urls(admin, request, conversation_id, asked, page),
    }


def raw_page(conversation_id: str, query: Any) -> dict[str, Any]:  # noqa: ANN401 - a request's GET
    """Give the messages of a page, whole.

    Raises:
        InvalidKeyError: the URL names a place or a summary that there is not.
    """
    page = _transcript(conversation_id, Asked.of(query))
    stored = Stored("message")
    bodies = stored.bodies({row.pk: row.size_of_parts for row in page.rows}, "parts", "metadata")
    kinds = {"parts": "parts", "metadata": "metadata"}
    messages = []
    for row in page.rows:
        body = vars(bodies[row.pk]) if row.pk in bodies else {}
        row.__dict__.update(body)
        messages.append(raw_row(row, kinds, left_out=("conversation_id",)))
    return {
        "conversation_id": conversation_id,
        "older": page.older,
        "newer": page.newer,
        "messages": messages,
    }


def _transcript(conversation_id: str, asked: Asked) -> Transcript:
    if asked.within is None:
        return transcript(conversation_id, asked)
    page = replaced(conversation_id, asked.within, asked.after)
    if page is None:
        raise InvalidKeyError(asked.within)
    return page


def _receipts(admin: ReadOnlyAdmin, conversation_id: str, rows: Iterable[Row]) -> Receipts:
    stored = Stored("receipt")
    inputs = [row.message_id for row in rows if row.run_id is None]
    wanted = stored.where(conversation_id=conversation_id, input_message_id__in=inputs)
    found = sorted(stored.read(wanted, *RECEIPT_FIELDS), key=lambda row: -row.pk)
    for row in found:
        row.url = admin.links.receipt(row.pk)
    return Receipts(found, by(found, "input_message_id"))


def _runs(admin: ReadOnlyAdmin, conversation_id: str) -> tuple[list[ShownRun], bool]:
    rows, more = runs_of_conversation(conversation_id)
    return [shown_run(row, admin.links) for row in rows], more


def _named_runs(
    admin: ReadOnlyAdmin,
    conversation_id: str,
    rows: Iterable[Row],
    receipts: Receipts,
    known: Iterable[ShownRun],
) -> dict[str, ShownRun]:
    # The runs of the messages: those of an older page are not among the newest.
    stored = Stored("run")
    named = {row.run_id for row in [*rows, *receipts.rows] if row.run_id is not None}
    wanted = stored.where(conversation_id=conversation_id, run_id__in=sorted(named))
    found = [shown_run(row, admin.links) for row in stored.read(wanted, *RUN_FIELDS, "moment")]
    return {run.row.run_id: run for run in [*found, *known]}


def _with_runs(
    shown: Iterable[ShownMessage], receipts: Receipts, runs: dict[str, ShownRun]
) -> list[ShownMessage]:
    return [
        one._replace(
            run=runs.get(one.row.run_id), receipt=receipts.by_input.get(one.row.message_id)
        )
        for one in shown
    ]


def _standing(runs: list[ShownRun]) -> ShownRun | None:
    # The first of the queue, else the one that ended last.
    active = [run for run in runs if run.is_active]
    return active[-1] if active else next(iter(runs), None)


def _urls(
    admin: ReadOnlyAdmin,
    request: HttpRequest,
    conversation_id: str,
    asked: Asked,
    page: Transcript | None,
) -> dict[str, str | None]:
    links = admin.links
    older, newer = (page.older, page.newer) if page else (None, None)

    def url(view: str = "change", **query: object) -> str | None:
        return links.conversation(conversation_id, view, **query)

    place: dict[str, Any] = {key: request.GET.get(key) for key in (BEFORE, AFTER, WITHIN)}
    return {
        "older_url": url(before=older, within=asked.within) if older else None,
        "newer_url": url(after=newer, within=asked.within) if newer else None,
        "newest_url": url() if any(place.values()) else None,
        "raw_url": url("raw", **place),
        "export_url": url("export"),
        "purge_url": url("purge"),
        "history_url": url("history"),
    }
