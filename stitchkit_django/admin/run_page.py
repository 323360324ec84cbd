"""What the page of a run shows: its times and use, its inputs and answer, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.utils.translation import gettext as _

from stitchkit_django.admin.labels import PROVENANCES, REASONS, TOKENS, label
from stitchkit_django.admin.messages import OUTLINE, ShownMessage, shown_messages, shown_retained
from stitchkit_django.admin.reading import (
    MOST_BODY_CHARACTERS,
    RUN_FIELDS,
    Decoded,
    Stored,
    by,
    decoded,
)
from stitchkit_django.admin.texts import Cut, brief, cut, money, number
from stitchkit_django.admin.timeline import ShownRun, blocked, shown_run, with_bars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.http import HttpRequest

    from stitchkit_django.admin.actions import RunAction
    from stitchkit_django.admin.links import Links
    from stitchkit_django.admin.reading import Row
    from stitchkit_django.admin.readonly import ReadOnlyAdmin
    from stitchkit_django.core.usage import Usage

MOST_INPUTS: Final = 50
"""Of one run on a page."""
BODIES: Final = {
    "input_message_ids": "identifiers",
    "terminal_detail": "text",
    "usage": "usage",
    "terminal_assistant": "message",
}
"""The kind of each body of a run's row."""
_SHORT: Final = ("input_message_ids", "terminal_detail", "usage")


class Figure(NamedTuple):
    """One line of what a run has used up."""

    name: str
    value: str
    provenance: str


class Inputs(NamedTuple):
    """The inputs that a run answers."""

    shown: list[ShownMessage]
    missing: list[str]
    """The ids of those that are no messages any more."""
    left_out: int
    problem: str


def page_context(
    admin: ReadOnlyAdmin,
    request: HttpRequest,
    row: Any,  # noqa: ANN401 - a run's row
    actions: Sequence[RunAction],
) -> dict[str, Any]:
    """Give what the page of a run shows.

    Args:
        admin: of runs.
        request: of the page.
        row: of the run.
        actions: that the user may do.
    """
    stored, links = Stored("run"), admin.links
    found = stored.read(
        stored.rows().filter(pk=row.pk),
        *RUN_FIELDS,
        *_SHORT,
        "size of terminal_assistant",
        "moment",
    )[0]
    run = with_bars([shown_run(found, links)])[0]
    sees_messages = admin.may_see(request, "message")
    return {
        "title": _("Run %(id)s") % {"id": brief(found.run_id)},
        "run": run,
        "blocked": blocked(run, _first(found, links)),
        "usage": decoded("usage", found.usage, found.schema_version),
        "figures": list(_figures(decoded("usage", found.usage, found.schema_version))),
        "detail": _detail(found),
        "reason": label(REASONS, found.terminal_reason),
        "absorber_url": links.run_named(found.conversation_id, found.absorbed_into_run_id)
        if found.absorbed_into_run_id
        else None,
        "sees_messages": sees_messages,
        "inputs": _inputs(found, links) if sees_messages else None,
        "answer": _answer(found, links) if sees_messages else None,
        "actions": [(one, links.act(one.name, found.pk)) for one in actions if one.allows(run)],
        "conversation_url": links.conversation(found.conversation_id),
        "raw_url": links.run(found.pk, "raw"),
        "history_url": links.run(found.pk, "history"),
    }


def _first(row: Row, links: Links) -> ShownRun | None:
    # Of the queue; asked for whatever the run's state is, so that each page asks the same.
    stored = Stored("run")
    queue = stored.where(conversation_id=row.conversation_id, active=1).order_by("turn")
    found = stored.read(queue[:1], *RUN_FIELDS, "moment")
    return shown_run(found[0], links) if found else None


def _figures(usage: Decoded[Usage]) -> Iterator[Figure]:
    if usage.value is None:
        return
    for field, name in TOKENS.items():
        count = getattr(usage.value, field)
        if count is not None:
            value = "" if count.value is None else number(count.value)
            yield Figure(str(name), value, label(PROVENANCES, count.provenance))
    cost = usage.value.cost
    if cost is not None:
        told = label(PROVENANCES, cost.provenance)
        yield Figure("", money(cost.amount, cost.currency), told)


def _detail(row: Row) -> Cut | None:
    found = decoded("text", row.terminal_detail, row.schema_version)
    if found.problem is not None:
        return cut(found.text)
    return None if found.value is None else cut(found.value)


def _inputs(row: Row, links: Links) -> Inputs:
    found = decoded("identifiers", row.input_message_ids, row.schema_version)
    ids = list(found.value or ())
    wanted = ids[:MOST_INPUTS]
    stored = Stored("message")
    rows = by(
        stored.read(
            stored.where(conversation_id=row.conversation_id, message_id__in=wanted), *OUTLINE
        ),
        "message_id",
    )
    return Inputs(
        shown=shown_messages([rows[one] for one in wanted if one in rows], links),
        missing=[one for one in wanted if one not in rows],
        left_out=len(ids) - len(wanted),
        problem=found.problem or "",
    )


def _answer(row: Row, links: Links) -> ShownMessage | None:
    # As it stands in the history; once that was compacted and purged, as it is kept with the run.
    message = Stored("message")
    mine = message.where(conversation_id=row.conversation_id, message_id=row.assistant_message_id)
    outlines = message.read(mine, *OUTLINE)
    shown = shown_messages(outlines, links)
    run = Stored("run")
    kept = run.rows().filter(pk=row.pk)
    if outlines or (row.size_of_terminal_assistant or 0) > MOST_BODY_CHARACTERS:
        kept = kept.none()
    retained = run.read(kept, "terminal_assistant", "schema_version")
    if shown or not retained:
        return next(iter(shown), None)
    return shown_retained(retained[0].terminal_assistant, retained[0], links)
