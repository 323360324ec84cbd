"""A whole turn: input, run, history, eight checkpoints with a fence check each, end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from benchmarks.bodies import body
from benchmarks.cases import Case, contenders, measured
from benchmarks.filling import MESSAGE_SIZE, fill
from benchmarks.report import Measurement

if TYPE_CHECKING:
    from benchmarks.contenders import Contender
    from benchmarks.databases import Database
    from benchmarks.plan import Plan

SECTION: Final = "whole turns, one client"
CHECKPOINTS: Final = 8
CHECKPOINT_SIZE: Final = 2000
LENGTH: Final = 100


def take_turn(contender: Contender, conversation_id: str) -> None:
    """Answer one input from beginning to end."""
    claim = contender.accept(conversation_id, str(uuid4()), body(MESSAGE_SIZE))
    contender.acquire(claim)
    contender.history(conversation_id)
    for number in range(CHECKPOINTS):
        contender.checkpoint(claim, body(CHECKPOINT_SIZE, number))
        contender.check_fence(claim)
    contender.end(claim, body(CHECKPOINT_SIZE, CHECKPOINTS))


def measure(database: Database, plan: Plan) -> list[Measurement]:
    """Measure whole turns of one client."""
    with contenders(database, plan) as opened:
        conversations = fill(database, len(opened), LENGTH)
        database.settle()
        cases = [
            Case(
                Measurement(SECTION, "turn", entry.name, floor=entry.floor),
                partial(take_turn, contender, where),
            )
            for (entry, contender), where in zip(opened, conversations, strict=True)
        ]
        return measured(cases, plan.seconds * len(opened))
