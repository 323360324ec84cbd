"""Several threads at once: whole turns in conversations of their own, admissions to one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.bodies import body
from benchmarks.crew import Crew, in_slices
from benchmarks.entries import entries
from benchmarks.filling import MESSAGE_SIZE, fill
from benchmarks.report import Measurement
from benchmarks.turns import LENGTH, take_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.contenders import Contender
    from benchmarks.databases import Database
    from benchmarks.plan import Plan

    Work = Callable[[Contender, int], object]


def measure(database: Database, plan: Plan) -> list[Measurement]:
    """Measure both; what is compared is how many are done in a second."""

    def turns() -> Work:
        own = fill(database, plan.threads, LENGTH)
        return lambda contender, number: take_turn(contender, own[number])

    def admissions() -> Work:
        (one,) = fill(database, 1, LENGTH)
        return lambda contender, _: contender.accept(one, str(uuid4()), body(MESSAGE_SIZE))

    whole = f"whole turns, {plan.threads} threads on own conversations"
    admitted = f"admissions, {plan.threads} threads on one conversation"
    return [
        *_measured(database, plan, whole, "turn", turns),
        *_measured(database, plan, admitted, "accept", admissions),
    ]


def _measured(
    database: Database, plan: Plan, section: str, name: str, make_work: Callable[[], Work]
) -> list[Measurement]:
    taking_part = entries(database, plan.options)
    crews = [Crew(entry, plan.threads, make_work()) for entry in taking_part]
    database.settle()
    in_slices(crews, plan.seconds)
    return [
        Measurement(section, name, entry.name, crew.samples, entry.floor, by_rate=True)
        for entry, crew in zip(taking_part, crews, strict=True)
    ]
