"""The rows of a conversation by their ids, as the rules look them up; no rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core.driver import LAST_SLOT, ConversationRows, Place, PlacedMessage
from stitchkit_django.core.errors import shown
from stitchkit_django.core.integrity.finding import Finding, Rule
from stitchkit_django.core.lifecycle import MessageRole, TerminalReason

if TYPE_CHECKING:
    from stitchkit_django.core.records import AdmissionReceipt, Run


class Indexed:
    """The rows of one conversation, ready to be looked up."""

    def __init__(self, rows: ConversationRows, *, whole: bool) -> None:
        """Index the rows.

        Args:
            rows: of one conversation.
            whole: whether a row that isn't among them isn't there.
        """
        self.rows = rows
        self.head = rows.head
        self.whole = whole
        self.runs = {stored.run.id: stored for stored in rows.runs}
        # Of two with one id, which is a finding of its own, the first counts.
        self.messages = {placed.message.id: placed for placed in reversed(rows.messages)}
        self.receipts = {receipt.input.id: receipt for receipt in rows.receipts}
        """By the id of the input."""
        self.active = [placed for placed in rows.messages if placed.archived_at is None]
        """Of the messages; by place."""
        self.askers = self._askers()
        """By the id of an input: the runs that name it and were not absorbed."""
        self._summaries = [
            placed.place for placed in self.active if placed.message.role is MessageRole.SUMMARY
        ]

    def answer(self, run: Run) -> PlacedMessage | None:
        """Give the message that a run has answered with, if there is one."""
        placed = self.messages.get(run.assistant_message_id)
        return placed if placed is not None and placed.message.run_id == run.id else None

    def inputs(self, run: Run) -> list[PlacedMessage]:
        """Give the active messages that are a run's own inputs, in the order of the run."""
        named = [self.messages[one] for one in run.input_message_ids if one in self.messages]
        return [
            placed
            for placed in named
            if placed.archived_at is None and self.askers.get(placed.message.id) == [run]
        ]

    def displaced(self, run: Run) -> int | None:
        """Give the turn that a run's messages stand in when all of them stand in another one."""
        answer = self.answer(run)
        placed = self.inputs(run) + ([] if answer is None else [answer])
        turns = {one.place.turn for one in placed}
        together = len(placed) > 1 and len(turns) == 1
        return turns.pop() if together and run.turn not in turns else None

    def has_known_turn(self, run: Run) -> bool:
        """Tell whether the places of a run's messages can be judged by its turn."""
        return run.turn <= self.head.version and self.displaced(run) is None

    def may_be_replaced(self, place: Place) -> bool:
        """Tell whether a message that isn't there may have made room for a summary.

        A summary goes only where another one takes its place, at or before it.
        """
        return any(summary <= place for summary in self._summaries)

    def finding(self, rule: Rule, row: str, detail: str) -> Finding:
        """Report a row of this conversation."""
        where = self.head.conversation_id
        return Finding(rule=rule, conversation_id=where, row=row, detail=detail)

    def _askers(self) -> dict[str, list[Run]]:
        askers: dict[str, list[Run]] = {}
        for stored in self.rows.runs:
            if not is_absorbed(stored.run):
                for identity in stored.run.input_message_ids:
                    askers.setdefault(identity, []).append(stored.run)
        return askers


def is_absorbed(run: Run) -> bool:
    """Tell whether another run answered instead."""
    return run.terminal_reason is TerminalReason.ABSORBED


def answer_place(run: Run) -> Place:
    """Give the place of a run's answer."""
    return Place(run.turn, LAST_SLOT)


def run_row(run: Run) -> str:
    """Name a run in a report."""
    return f"run {shown(run.id)}"


def message_row(placed: PlacedMessage) -> str:
    """Name a message in a report."""
    return f"message {shown(placed.message.id)}"


def receipt_row(receipt: AdmissionReceipt) -> str:
    """Name a receipt in a report."""
    return f"receipt {shown(receipt.idempotency_key)}"


def told_place(place: Place) -> str:
    """Tell a place in a report."""
    slot = "the last slot" if place.slot == LAST_SLOT else f"slot {place.slot}"
    return f"{slot} of turn {place.turn}"
