"""Random histories: SQLite and PostgreSQL must do what the memory driver does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from stitchkit_django.driver import DjangoDriver
from tests.model.conversation import Conversation
from tests.model.kinds import KINDS
from tests.model.machine import Operations
from tests.model.views import Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

SEQUENCES: Final = 250
OPERATIONS: Final = 30
EXAMPLES: Final = 50
ROUNDS: Final = 20
both_stores = pytest.mark.parametrize(
    "archives", [pytest.param(True, id="archiving"), pytest.param(False, id="deleting")]
)


class Exploration:
    """Runs the state machine, and counts what it reaches."""

    def __init__(self, aliases: Sequence[str], *, archives: bool) -> None:
        self.subjects = [Subject.of(alias, DjangoDriver(alias)) for alias in aliases]
        self.archives = archives
        self.reached: Counter[tuple[str, str]] = Counter()
        self.conversations: list[Conversation] = []

    def explore(self, *, examples: int, operations: int, derandomize: bool = False) -> None:
        """Run that many sequences, few of them shorter than asked for."""
        run_state_machine_as_test(
            self._operations,  # type: ignore[arg-type] # any function that makes a machine
            settings=settings(
                max_examples=examples,
                stateful_step_count=operations + 1,  # the beginning is one, and may do nothing
                deadline=None,
                derandomize=derandomize,
                database=None,
                # Each step runs on every database and reads all that is there.
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )

    def whole(self, operations: int) -> int:
        """Tell how many sequences had that many operations."""
        return sum(one.steps >= operations for one in self.conversations)

    def _operations(self) -> Operations:
        made = Conversation(self.subjects, self.reached, archives=self.archives)
        self.conversations.append(made)
        return Operations(made)


@both_stores
def test_every_driver_does_what_the_memory_driver_does(
    aliases: tuple[str, ...], archives: bool
) -> None:
    exploration = Exploration(aliases, archives=archives)

    exploration.explore(examples=20, operations=20, derandomize=True)

    tried = {operation for operation, _ in exploration.reached}
    assert tried == {operation for operation, _ in KINDS}


@pytest.mark.slow
@both_stores
def test_no_operation_and_no_outcome_differs_between_drivers(
    aliases: tuple[str, ...], archives: bool
) -> None:
    exploration = Exploration(aliases, archives=archives)

    for _ in range(ROUNDS):
        exploration.explore(examples=EXAMPLES, operations=OPERATIONS)
        if exploration.whole(OPERATIONS) >= SEQUENCES and set(exploration.reached) == KINDS:
            break

    assert exploration.whole(OPERATIONS) >= SEQUENCES
    assert set(exploration.reached) == KINDS
