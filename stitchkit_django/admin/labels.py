"""What states, reasons, roles and the rest are called on a page; no markup but badges.

A code that a later version has brought is shown as it is, and hides no page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from stitchkit_django.core.lifecycle import MessageRole, MessageStatus, RunState, TerminalReason
from stitchkit_django.core.outcomes import ConflictReason
from stitchkit_django.core.parts import ControlReason, ToolOutcome
from stitchkit_django.core.usage import Provenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.utils.functional import _StrPromise
    from django.utils.safestring import SafeString

STATES: Final[Mapping[str, _StrPromise]] = {
    RunState.QUEUED: _("queued"),
    RunState.RUNNING: _("running"),
    RunState.INTERRUPT_REQUESTED: _("interrupt requested"),
    RunState.COMPLETED: _("completed"),
    RunState.INTERRUPTED: _("interrupted"),
    RunState.SUPERSEDED: _("superseded"),
    RunState.CANCELLED: _("cancelled"),
    RunState.FAILED: _("failed"),
    RunState.ABANDONED: _("abandoned"),
}
REASONS: Final[Mapping[str, _StrPromise]] = {
    TerminalReason.SUCCESS: _("success"),
    TerminalReason.POLICY_STOP: _("stopped by a policy"),
    TerminalReason.PROVIDER_STOP: _("stopped by the provider"),
    TerminalReason.INTERRUPTED: _("interrupted"),
    TerminalReason.SUPERSEDED: _("superseded"),
    TerminalReason.ABSORBED: _("absorbed by another run"),
    TerminalReason.CANCELLED: _("cancelled"),
    TerminalReason.SHUTDOWN: _("shutdown"),
    TerminalReason.TIMEOUT: _("timeout"),
    TerminalReason.PROVIDER_FAILURE: _("provider failure"),
    TerminalReason.CONTEXT_OVERFLOW: _("context overflow"),
    TerminalReason.ABANDONED: _("abandoned"),
}
ROLES: Final[Mapping[str, _StrPromise]] = {
    MessageRole.USER: _("User"),
    MessageRole.ASSISTANT: _("Assistant"),
    MessageRole.SYSTEM: _("System"),
    MessageRole.SUMMARY: _("Summary"),
}
STATUSES: Final[Mapping[str, _StrPromise]] = {
    MessageStatus.COMMITTED: _("committed"),
    MessageStatus.STREAMING: _("streaming"),
    MessageStatus.COMPLETED: _("completed"),
    MessageStatus.INTERRUPTED: _("interrupted"),
    MessageStatus.SUPERSEDED: _("superseded"),
    MessageStatus.FAILED: _("failed"),
}
TOOL_OUTCOMES: Final[Mapping[str, _StrPromise]] = {
    ToolOutcome.SUCCESS: _("success"),
    ToolOutcome.ERROR: _("error"),
    ToolOutcome.INTERRUPTED: _("interrupted"),
}
CONTROLS: Final[Mapping[str, _StrPromise]] = {
    ControlReason.RUN_INTERRUPTED: _("The run was interrupted."),
    ControlReason.STALE_RUN: _("The run was stale."),
}
PROVENANCES: Final[Mapping[str, _StrPromise]] = {
    Provenance.PROVIDER_REPORTED: _("reported by the provider"),
    Provenance.COMPUTED: _("computed"),
    Provenance.ESTIMATED: _("estimated"),
    Provenance.UNAVAILABLE: _("unavailable"),
}
TOKENS: Final[Mapping[str, _StrPromise]] = {
    "input_tokens": _("Input tokens"),
    "output_tokens": _("Output tokens"),
    "reasoning_tokens": _("Reasoning tokens"),
    "cache_read_tokens": _("Tokens read from a cache"),
    "cache_write_tokens": _("Tokens written to a cache"),
}
CONFLICTS: Final[Mapping[str, _StrPromise]] = {
    ConflictReason.VERSION: _("the conversation has been written since"),
    ConflictReason.REVISION: _("the run has been written since"),
    ConflictReason.STATE: _("the run's state doesn't allow it"),
    ConflictReason.OWNER: _("the run has another owner"),
    ConflictReason.FENCE: _("the run has been taken again"),
    ConflictReason.QUEUE: _("another run comes first"),
    ConflictReason.LEASE: _("the owner's lease is still valid"),
}


def label(labels: Mapping[str, _StrPromise], code: str | None) -> str:
    """Give the text of a code; a code that nobody knows is its own."""
    return "" if code is None else str(labels.get(code, code))


def badge(labels: Mapping[str, _StrPromise], code: str | None) -> SafeString | str:
    """Give a code as a badge; nothing for None."""
    if code is None:
        return ""
    known = code if code in labels else "unknown"
    return format_html('<span class="sk-badge sk-is-{}">{}</span>', known, label(labels, code))
