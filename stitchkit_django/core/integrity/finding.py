"""The rules by name, and what a broken one is reported as; no rule's own logic."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from stitchkit_django.core.checked import Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class Rule(StrEnum):
    """What must hold; a value stands in reports and is never used for another rule."""

    ROW = "row"
    SCHEMA_VERSION = "schema-version"
    COLUMN = "column"
    HEAD = "head"
    VERSION = "version"
    UPDATED_AT = "updated-at"
    PURGED = "purged"
    CONVERSATION = "conversation"
    IDENTITY = "identity"
    TURN = "turn"
    ACQUIRED = "acquired"
    QUEUE = "queue"
    OWNER = "owner"
    REVISION = "revision"
    RUN_MOMENTS = "run-moments"
    ABSORBER = "absorber"
    INPUT = "input"
    INPUT_PLACE = "input-place"
    INPUT_RECEIPT = "input-receipt"
    INPUT_MESSAGE = "input-message"
    ANSWER_RUN = "answer-run"
    ANSWER_PLACE = "answer-place"
    ANSWER_STATUS = "answer-status"
    ANSWER_MESSAGE = "answer-message"
    RETAINED = "retained"
    OPEN_CALL = "open-call"
    PLACE = "place"
    ARCHIVED = "archived"
    SUMMARY = "summary"
    RECEIPT_RUN = "receipt-run"
    RECEIPT_INPUT = "receipt-input"


LAWS: Final[Mapping[Rule, str]] = MappingProxyType(
    {
        Rule.ROW: "A row can be read: its JSON is whole, and its columns agree with each other.",
        Rule.SCHEMA_VERSION: "A row's schema version is one that this release can read.",
        Rule.COLUMN: "A column that repeats part of a record, for an index or a report, says the "
        "same as the record.",
        Rule.HEAD: "Runs, receipts and messages belong to a conversation that has a head.",
        Rule.VERSION: "The head's version is not behind any turn.",
        Rule.UPDATED_AT: "No row carries a moment after the head's `updated_at`.",
        Rule.PURGED: "A purged conversation has its head alone.",
        Rule.CONVERSATION: "Every row names the conversation that it is kept with.",
        Rule.IDENTITY: "An id is given once: to a run, to a message, to the input of a receipt, "
        "or as the reserved id of an answer; and so is a key.",
        Rule.TURN: "No two runs share a turn.",
        Rule.ACQUIRED: "A conversation has at most one acquired run.",
        Rule.QUEUE: "The acquired run is the first of the active ones.",
        Rule.OWNER: "A run that has had an owner has a fence, and one that its owner ended still "
        "names the owner.",
        Rule.REVISION: "A run's revision is not behind what the run has been through.",
        Rule.RUN_MOMENTS: "A run is created, acquired, ended and last updated in this order.",
        Rule.ABSORBER: "An absorbed run points to a run of an earlier turn that completed and that "
        "has its inputs.",
        Rule.INPUT: "An input is a user message, and of one run that was not absorbed.",
        Rule.INPUT_PLACE: "A run's inputs stand in its turn, in the order in which they joined.",
        Rule.INPUT_RECEIPT: "Each input of an active run has its receipt.",
        Rule.INPUT_MESSAGE: "An input's message is there, unless a summary may have replaced it.",
        Rule.ANSWER_RUN: "An answer in the active history is the one that its run has reserved.",
        Rule.ANSWER_PLACE: "An answer stands in the last slot of its run's turn.",
        Rule.ANSWER_STATUS: "An answer's status is the one that its run's end gives, or "
        "`streaming` while its run is active and has been acquired; an absorbed run has none.",
        Rule.ANSWER_MESSAGE: "The answer of a run that has ended is there, unless a summary may "
        "have replaced it.",
        Rule.RETAINED: "The answer that is retained with a run is the one in the history.",
        Rule.OPEN_CALL: "No answer of a run that has ended holds a tool call without a result.",
        Rule.PLACE: "No two active messages share a place, and in the last slot of a turn stands "
        "an answer or a summary.",
        Rule.ARCHIVED: "A message says that it was archived and by which summary, or neither.",
        Rule.SUMMARY: "What replaced an archived message is a summary, made at that moment, that "
        "does not stand behind it.",
        Rule.RECEIPT_RUN: "A receipt names the run that its input asked for.",
        Rule.RECEIPT_INPUT: "A receipt's input is the message in the history.",
    }
)


class Finding(Record, frozen=True, kw_only=True):
    """One rule that does not hold for one row or group of rows."""

    rule: Rule
    conversation_id: str
    row: str
    """Which one, as `kind id`."""
    detail: str
    """What is there, and what should be."""

    def __str__(self) -> str:
        """Tell it in one line, without the conversation."""
        return f"{self.row}: {self.detail} ({self.rule})"
