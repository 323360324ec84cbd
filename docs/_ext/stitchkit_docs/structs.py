"""Records, parts, outcomes and events: each field with its type and what it means."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stitchkit_django import core
from stitchkit_django.core import events, lifecycle, outcomes, parts, recovery
from stitchkit_django.core.operations import Absorption
from stitchkit_django.core.parts import ALLOWED_PARTS
from stitchkit_docs.markdown import code, codes, paragraphs, table
from stitchkit_docs.source import docstring, field_docs, field_types

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum

    from msgspec.structs import FieldInfo

RECORDS: Final[tuple[type[msgspec.Struct], ...]] = (
    core.Head,
    core.Run,
    core.StoredRun,
    core.AdmissionReceipt,
    core.Message,
    core.PendingAssistant,
    core.Snapshot,
    core.RunView,
    core.HistoryPage,
    core.RecoverablePage,
    core.Usage,
    core.TokenCount,
    core.Cost,
    Absorption,
    core.Limits,
)
OUTCOMES: Final[tuple[type[msgspec.Struct], ...]] = (
    outcomes.Applied,
    outcomes.Duplicate,
    outcomes.Conflict,
    outcomes.NotFound,
)
EVENTS: Final[tuple[type[msgspec.Struct], ...]] = (
    events.InputAdmitted,
    events.RunChanged,
    events.AssistantCheckpointed,
    events.RunEnded,
    events.HistoryCompacted,
)
PARTS: Final[tuple[type[msgspec.Struct], ...]] = (
    *ALLOWED_PARTS[core.MessageRole.ASSISTANT],
    core.ProviderEnvelope,
)
DECISIONS: Final[tuple[type[msgspec.Struct], ...]] = (
    recovery.Skip,
    recovery.Dispatch,
    recovery.Requeue,
    recovery.Abandon,
    recovery.StandardPolicy,
)
ENUMS: Final = (
    lifecycle.RunState,
    lifecycle.TerminalReason,
    lifecycle.MessageRole,
    lifecycle.MessageStatus,
    lifecycle.RecoveryAction,
    outcomes.ConflictReason,
    parts.ToolOutcome,
    parts.ControlReason,
    core.Provenance,
)


def records() -> str:
    """Give every record that is stored or read."""
    return paragraphs(*map(described, RECORDS))


def outcome_records() -> str:
    """Give the outcomes of operations."""
    return paragraphs(*map(described, OUTCOMES))


def event_records() -> str:
    """Give the events."""
    return paragraphs(*map(described, EVENTS))


def decisions() -> str:
    """Give what recovery can decide, and the policy that it has."""
    return paragraphs(*map(described, DECISIONS))


def part_records() -> str:
    """Give the parts of messages."""
    return paragraphs(*map(described, PARTS))


def allowed_parts() -> str:
    """Give which parts a message of each role may have."""
    rows = [
        [code(str(tag_of(part))), code(part.__name__), *_allowed(part)]
        for part in ALLOWED_PARTS[core.MessageRole.ASSISTANT]
    ]
    return table(["type", "part", *(code(str(role)) for role in ALLOWED_PARTS)], rows)


def enums() -> str:
    """Give the closed sets."""
    return paragraphs(*map(_closed_set, ENUMS))


def tag_of(cls: type[msgspec.Struct]) -> str | int | None:
    """Give what tells a record on the wire from its siblings."""
    return cls.__struct_config__.tag


def _allowed(part: type[Any]) -> Iterable[str]:
    return ["yes" if part in allowed else "" for allowed in ALLOWED_PARTS.values()]


def _closed_set(cls: type[StrEnum]) -> str:
    values = codes(str(member) for member in cls)
    return paragraphs(f"### {cls.__name__}", docstring(cls).summary, values)


def described(cls: type[msgspec.Struct]) -> str:
    """Give a record: what it is, and each of its fields."""
    doc, docs, kinds = docstring(cls), field_docs(cls), field_types(cls)
    rows = [
        [code(field.name), code(kinds[field.name]), _default(field), docs.get(field.name, "")]
        for field in msgspec.structs.fields(cls)
    ]
    fields = table(["field", "type", "default", "meaning"], rows) if rows else ""
    return paragraphs(f"### {cls.__name__}", doc.summary, doc.rest, _tag(cls), fields, _also(cls))


def _tag(cls: type[msgspec.Struct]) -> str:
    config = cls.__struct_config__
    return f"Its `{config.tag_field}` is `{config.tag}`." if isinstance(config.tag, str) else ""


def _also(cls: type[msgspec.Struct]) -> str:
    names = inspect.getmembers(cls, lambda member: isinstance(member, property))
    told = [f"- `{name}`: {docstring(one).summary}" for name, one in names]
    return paragraphs("It also tells:", "\n".join(told)) if told else ""


def _default(field: FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        return ""
    absent = field.default is msgspec.UNSET
    return code("UNSET" if absent else repr(field.default))
