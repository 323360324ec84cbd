"""Random histories: no state that the store leaves is a finding, and an export brings it back."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from stitchkit_django.core import MemoryDriver
from stitchkit_django.core.documents import exported
from stitchkit_django.core.integrity import findings
from stitchkit_django.core.transfer import ImportResult, import_document
from tests.model.conversation import Conversation
from tests.model.machine import Operations

MOST_STEPS = 30


class SoundConversation(Conversation):
    """Looks at its rows after each step, and takes them elsewhere at its end."""

    def do(self, operation: str, method: str, **arguments: object) -> object:
        outcome = super().do(operation, method, **arguments)
        if self.rows is not None:
            assert findings(self.rows) == ()
        return outcome

    def close(self) -> None:
        super().close()
        if self.rows is None:
            return
        elsewhere = MemoryDriver()
        done = import_document(elsewhere, exported(self.rows))
        assert done.result is ImportResult.IMPORTED, done.reason
        assert elsewhere.rows(self.id) == self.rows


@pytest.mark.parametrize("archives", [True, False], ids=["archiving", "deleting"])
def test_every_state_is_sound_and_comes_back_from_an_export(archives: bool) -> None:
    made: list[SoundConversation] = []

    def operations() -> Operations:
        made.append(SoundConversation([], Counter(), archives=archives))
        return Operations(made[-1])

    run_state_machine_as_test(
        operations,  # type: ignore[arg-type] # any function that makes a machine
        settings=settings(
            max_examples=40,
            stateful_step_count=MOST_STEPS,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )

    assert sum(one.steps for one in made) > 40 * MOST_STEPS / 2
