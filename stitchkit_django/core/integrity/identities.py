"""Rules of ids and keys: each is given once in its conversation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity.finding import Rule
from stitchkit_django.core.integrity.indexed import run_row
from stitchkit_django.core.lifecycle import MessageRole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stitchkit_django.core.integrity.finding import Finding
    from stitchkit_django.core.integrity.indexed import Indexed


def check_identities(found: Indexed) -> Iterator[Finding]:
    """Check that nothing has the id of something else."""
    rows = found.rows
    runs = [stored.run for stored in rows.runs]
    yield from _repeated(found, "run", "runs have this id", (run.id for run in runs))
    reserved = (run.assistant_message_id for run in runs)
    yield from _repeated(found, "answer", "runs have reserved this id", reserved)
    messages = (placed.message.id for placed in rows.messages)
    yield from _repeated(found, "message", "messages have this id", messages)
    keys = (receipt.idempotency_key for receipt in rows.receipts)
    yield from _repeated(found, "receipt", "receipts have this key", keys)
    inputs = (receipt.input.id for receipt in rows.receipts)
    yield from _repeated(found, "input", "receipts are of this input", inputs)
    yield from _reserved(found)


def _repeated(found: Indexed, kind: str, told: str, identities: Iterable[str]) -> Iterator[Finding]:
    for identity, count in Counter(identities).items():
        if count > 1:
            yield found.finding(Rule.IDENTITY, f"{kind} {shown(identity)}", f"{count} {told}")


def _reserved(found: Indexed) -> Iterator[Finding]:
    for stored in found.rows.runs:
        identity = stored.run.assistant_message_id
        placed = found.messages.get(identity)
        taken = placed is not None and placed.message.role is not MessageRole.ASSISTANT
        if taken or identity in found.receipts:
            detail = f"has reserved the id {shown(identity)}, which an input or another message has"
            yield found.finding(Rule.IDENTITY, run_row(stored.run), detail)
