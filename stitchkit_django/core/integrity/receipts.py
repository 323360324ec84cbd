"""Rules of the receipts: each points to the run and the message that it was given for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity.finding import Rule
from stitchkit_django.core.integrity.indexed import receipt_row, run_row
from stitchkit_django.core.lifecycle import MessageRole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core.integrity.finding import Finding
    from stitchkit_django.core.integrity.indexed import Indexed
    from stitchkit_django.core.records import AdmissionReceipt


def check_receipts(found: Indexed) -> Iterator[Finding]:
    """Check each receipt against its run and its message."""
    for receipt in found.rows.receipts:
        wrong = _wrong_run(found, receipt)
        if wrong:
            yield found.finding(Rule.RECEIPT_RUN, receipt_row(receipt), wrong)
        placed = found.messages.get(receipt.input.id)
        # A message of another role is reported as the input that it is of a run.
        if placed is None or placed.message.role is not MessageRole.USER:
            continue
        if placed.message != receipt.input:
            detail = f"its input {shown(receipt.input.id)} is not the message in the history"
            yield found.finding(Rule.RECEIPT_INPUT, receipt_row(receipt), detail)


def _wrong_run(found: Indexed, receipt: AdmissionReceipt) -> str | None:
    stored = found.runs.get(receipt.run_id)
    if stored is None:
        return f"names run {shown(receipt.run_id)}, which is missing" if found.whole else None
    run = stored.run
    if receipt.input.id not in run.input_message_ids:
        return f"names {run_row(run)}, which does not have its input {shown(receipt.input.id)}"
    if receipt.assistant_message_id != run.assistant_message_id:
        identity = shown(receipt.assistant_message_id)
        return f"reserves the answer {identity}, {run_row(run)} another one"
    return None
