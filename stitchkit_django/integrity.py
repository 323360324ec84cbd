"""Which stored rows break an invariant: the work of `check_conversations`; it changes nothing."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import FloatField, Q, TextField
from django.db.models.functions import Cast

from stitchkit_django.core import wire
from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity import Finding, Rule, findings
from stitchkit_django.core.records import SCHEMA_VERSION
from stitchkit_django.models import AdmissionReceipt, Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stitchkit_django.core.documents import ExportedRows, UnreadableRow
    from stitchkit_django.core.usage import Usage
    from stitchkit_django.stored import Orphan, StoredConversations


class Checked(NamedTuple):
    """One conversation, and what is wrong with it."""

    conversation_id: str
    findings: tuple[Finding, ...]


def check_all(
    stored: StoredConversations, *, page: int, limit: int | None = None
) -> Iterator[Checked]:
    """Check every conversation of a database, one at a time, in the order of their ids.

    Args:
        stored: of the database.
        page: how many ids are read at once.
        limit: of conversations; None: all, and after them the rows that have no head.

    Raises:
        StoreUnavailableError: the database failed.
    """
    for number, conversation_id in enumerate(stored.ids(page=page)):
        if number == limit:
            return
        found = check_one(stored, conversation_id)
        if found is not None:
            yield found
    if limit is None:
        yield from map(_headless, stored.orphans())


def check_one(stored: StoredConversations, conversation_id: str) -> Checked | None:
    """Check a conversation; None when it has no row.

    Raises:
        StoreUnavailableError: the database failed.
    """
    given = stored.conversation(conversation_id)
    if given is None:
        return None
    unreadable = tuple(_unreadable(conversation_id, row) for row in given.unreadable)
    rows = given.readable()
    if rows is None:
        headless = () if given.has_head else _headless_rows(conversation_id, given)
        return Checked(conversation_id, unreadable + headless)
    between = findings(rows, whole=not unreadable)
    columns = tuple(_repeated_columns(stored, conversation_id, given))
    return Checked(conversation_id, unreadable + between + columns)


def _unreadable(conversation_id: str, row: UnreadableRow) -> Finding:
    version = row.columns["schema_version"]
    rule = Rule.ROW if version == SCHEMA_VERSION else Rule.SCHEMA_VERSION
    what = f"{row.kind} {shown(row.id)}" if row.id else f"the {row.kind}"
    return Finding(rule=rule, conversation_id=conversation_id, row=what, detail=row.reason)


def _headless_rows(conversation_id: str, given: ExportedRows) -> tuple[Finding, ...]:
    kinds = {"run": given.runs, "receipt": given.receipts, "message": given.messages}
    counts = {kind: len(rows) for kind, rows in kinds.items()}
    return (_without_head(conversation_id, counts),)


def _headless(orphan: Orphan) -> Checked:
    found = _without_head(orphan.conversation_id, orphan.counts)
    return Checked(orphan.conversation_id, (found,))


def _without_head(conversation_id: str, counts: dict[str, int]) -> Finding:
    told = ", ".join(f"{count} of kind {kind}" for kind, count in counts.items() if count)
    detail = f"is missing, but there are rows: {told}"
    return Finding(rule=Rule.HEAD, conversation_id=conversation_id, row="the head", detail=detail)


# ---------------------------------------------------------------- what stands in a row twice


def _repeated_columns(
    stored: StoredConversations, conversation_id: str, given: ExportedRows
) -> Iterator[Finding]:
    inputs = {receipt.idempotency_key: receipt.input.id for receipt in given.receipts}
    receipts = AdmissionReceipt.objects.using(stored.using).filter(conversation_id=conversation_id)
    # Sorted here: asked to sort by the key of the table, a planner may walk the whole of it.
    named = receipts.values_list("idempotency_key", "input_message_id")
    for key, column in sorted(stored.asked(lambda: list(named))):
        # Receipts are never changed; one may have come or gone since the others were read.
        if inputs.get(key, column) != column:
            detail = f"its column input_message_id says {shown(column)}, its input "
            detail += shown(inputs[key])
            row = f"receipt {shown(key)}"
            yield _column(conversation_id, row, detail)
    yield from _costs(stored, conversation_id)


def _costs(stored: StoredConversations, conversation_id: str) -> Iterator[Finding]:
    # Read anew, beside the columns: a checkpoint may have changed both since.
    runs = Run.objects.using(stored.using).filter(conversation_id=conversation_id)
    costs = (
        runs.filter(
            Q(usage__isnull=False) | Q(cost_amount__isnull=False) | Q(cost_currency__isnull=False)
        )
        .annotate(text=Cast("usage", TextField()), amount=Cast("cost_amount", FloatField()))
        .values_list("run_id", "text", "amount", "cost_currency")
    )
    found = stored.asked(lambda: list(costs))
    for run_id, text, amount, currency in sorted(found, key=itemgetter(0)):
        expected = _cost(text)
        if expected is not None and not _is_same(expected, amount, currency):
            detail = f"its cost columns say {amount} {currency}, its usage "
            detail += f"{expected[0]} {expected[1]}"
            yield _column(conversation_id, f"run {shown(run_id)}", detail)


def _cost(text: str | None) -> tuple[float | None, str | None] | None:
    # None where the usage can't be read, which is a finding of its own.
    try:
        usage: Usage | None = None if text is None else wire.USAGE.decode(text)
    except wire.DECODING_ERRORS:
        return None
    cost = None if usage is None else usage.cost
    if cost is None:
        return None, None
    return None if cost.amount is None else float(cost.amount), cost.currency


def _is_same(
    expected: tuple[float | None, str | None], amount: float | None, currency: str | None
) -> bool:
    if expected[0] is None or amount is None:
        return expected == (amount, currency)
    # SQLite keeps a float.
    return expected[1] == currency and math.isclose(expected[0], amount)


def _column(conversation_id: str, row: str, detail: str) -> Finding:
    return Finding(rule=Rule.COLUMN, conversation_id=conversation_id, row=row, detail=detail)
