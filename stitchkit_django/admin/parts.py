"""The parts of a message as a page shows them: redacted, cut, calls beside their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from django.utils.translation import gettext as _
from msgspec import UNSET

from stitchkit_django.admin.labels import CONTROLS, TOOL_OUTCOMES, badge, label
from stitchkit_django.admin.texts import Cut, brief, cut, cut_json, safe_url
from stitchkit_django.core.parts import (
    ControlPart,
    FilePart,
    Part,
    ProviderPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from stitchkit_django.core.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from django.utils.safestring import SafeString

    from stitchkit_django.core.redaction import Redact

MOST_PARTS: Final = 200
"""Of one message on a page."""


class ShownPart(NamedTuple):
    """One part, or a tool call with its result; `kind` chooses how it is drawn."""

    kind: str
    title: str = ""
    text: Cut | None = None
    """What it says; of a tool call its input."""
    url: str | None = None
    """Where a link may lead."""
    detail: str = ""
    badge: SafeString | str = ""
    output: Cut | None = None
    """Of a tool's result; None where there is none."""


class ShownParts(NamedTuple):
    """The parts of one message."""

    shown: tuple[ShownPart, ...]
    left_out: int
    """How many more there are than a page shows."""


def shown_parts(parts: Sequence[Part], redact: Redact | None) -> ShownParts:
    """Give the parts of a message as a page shows them.

    Args:
        parts: as they are stored.
        redact: the project's redaction; None shows what is stored.
    """
    some = [redacted(part, redact) for part in parts[:MOST_PARTS]]
    return ShownParts(tuple(_shown(some)), len(parts) - len(some))


def _shown(parts: Iterable[Part]) -> Iterator[ShownPart]:
    parts = list(parts)
    results = {part.call_id: part for part in parts if isinstance(part, ToolResultPart)}
    calls = {part.call_id for part in parts if isinstance(part, ToolCallPart)}
    for part in parts:
        if not (isinstance(part, ToolResultPart) and part.call_id in calls):
            yield _shown_part(part, results)


def _shown_part(part: Part, results: Mapping[str, ToolResultPart]) -> ShownPart:
    match part:
        case TextPart(text=text):
            return ShownPart("text", text=cut(text))
        case ReasoningPart(text=text):
            return ShownPart("folded", title=_("Reasoning"), text=cut(text))
        case ToolCallPart():
            return _tool(part, results.get(part.call_id))
        case ToolResultPart():
            return _result("tool", part)
        case FilePart():
            return _file(part)
        case SourcePart():
            return _source(part)
        case ProviderPart(envelope=envelope):
            title = _("Data of %(provider)s") % {"provider": brief(envelope.provider)}
            return ShownPart("folded", title=title, text=cut_json(envelope.data))
        case ControlPart(reason=reason):
            return ShownPart("note", title=label(CONTROLS, reason))
    assert_never(part)


def _tool(call: ToolCallPart, result: ToolResultPart | None) -> ShownPart:
    if result is None:
        shown = ShownPart("tool", detail=_("no result yet"))
    else:
        shown = _result("tool", result)
    return shown._replace(title=brief(call.tool_name), text=cut_json(call.input))


def _result(kind: str, result: ToolResultPart) -> ShownPart:
    return ShownPart(
        kind,
        title=brief(result.tool_name),
        badge=badge(TOOL_OUTCOMES, result.outcome),
        detail=_("no output") if result.output is UNSET else "",
        output=None if result.output is UNSET else cut_json(result.output),
    )


def _file(part: FilePart) -> ShownPart:
    return ShownPart(
        "link",
        title=brief(part.filename or part.reference),
        url=safe_url(part.reference),
        text=cut(part.reference),
        detail=brief(part.media_type),
        badge=_("File"),
    )


def _source(part: SourcePart) -> ShownPart:
    return ShownPart(
        "link",
        title=brief(part.title or part.url or part.source_id),
        url=safe_url(part.url),
        text=cut(part.url or part.source_id),
        badge=_("Source"),
    )
