"""A run is acquired, checkpointed, interrupted, cancelled and ended by one owner."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from stitchkit_django.core import (
    AgentStore,
    Cost,
    MemoryDriver,
    MessageStatus,
    Provenance,
    RunState,
    TerminalReason,
    TextPart,
    Usage,
)
from tests.core.steps import (
    acquire,
    admit,
    answer,
    checkpoint,
    end,
    history,
    message,
    requeue,
    row,
    rows,
    run_of,
    view,
)
from tests.factories import MOMENT

if TYPE_CHECKING:
    from tests.core.clock import Clock

USAGE = Usage(cost=Cost(amount=Decimal("0.5"), currency="USD", provenance=Provenance.COMPUTED))
MORE = Usage(cost=Cost(amount=Decimal("0.7"), currency="USD", provenance=Provenance.COMPUTED))
SECOND = timedelta(seconds=1)


# ---------------------------------------------------------------- acquire


def test_an_acquired_run_has_an_owner_and_a_fence(store: AgentStore, clock: Clock) -> None:
    admitted = admit(store)
    clock.move(by=SECOND)

    run = acquire(store, admitted)

    assert (run.state, run.owner_id, run.fencing_token) == (RunState.RUNNING, "worker", 1)
    assert (run.acquired_at, run.updated_at, run.created_at) == (MOMENT + SECOND,) * 2 + (MOMENT,)
    assert (run.lease_seconds, run.lease_expires_at) == (None, None)
    assert view(store).run == run


def test_the_fence_counts_the_attempts(store: AgentStore) -> None:
    run = admit(store)

    for attempt in (1, 2, 3):
        acquired = acquire(store, run, f"worker {attempt}")
        assert acquired.fencing_token == attempt
        run = requeue(store, acquired)

    assert (run.fencing_token, run.owner_id) == (3, None)


def test_only_the_first_active_run_is_acquired(store: AgentStore) -> None:
    first, second = admit(store, "1"), admit(store, "2")
    end(store, acquire(store, first))

    assert acquire(store, second).state is RunState.RUNNING


def test_every_write_of_a_run_raises_its_revision_and_the_version_by_one(
    store: AgentStore,
) -> None:
    run = admit(store)
    written = [(run.revision, store.load_snapshot("c").version)]

    for step in (acquire, lambda store, run: checkpoint(store, run, "x"), requeue, acquire, end):
        run = step(store, run)
        written.append((run.revision, store.load_snapshot("c").version))

    assert written == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]


# ---------------------------------------------------------------- checkpoint


def test_a_checkpoint_replaces_the_answer_and_keeps_its_place_and_beginning(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    run = checkpoint(store, acquire(store, admit(store, "1")), "Hel")
    first = row(driver, "a-r1")
    admit(store, "2")
    clock.move(by=SECOND)

    checkpoint(store, run, "Hello")

    second = row(driver, "a-r1")
    assert second.place == first.place
    assert second.message.parts == (TextPart(text="Hello"),)
    assert second.message.status is MessageStatus.STREAMING
    assert (second.message.created_at, second.message.updated_at) == (MOMENT, MOMENT + SECOND)
    assert history(store) == ["i-1", "a-r1", "i-2"]
    assert view(store).assistant is None


def test_usage_and_metadata_that_are_not_given_stay_as_they_were(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    run = checkpoint(store, run, "a", usage=USAGE, metadata={"n": 1})
    run = checkpoint(store, run, "b")
    assert (run.usage, message(store, "a-r1").metadata) == (USAGE, {"n": 1})
    run = checkpoint(store, run, "c", usage=MORE, metadata={})
    assert (run.usage, message(store, "a-r1").metadata) == (MORE, {})
    run = end(store, run)

    assert (run.usage, answer(store).metadata) == (MORE, {})


def test_an_end_may_bring_usage_and_metadata(store: AgentStore) -> None:
    run = checkpoint(store, acquire(store, admit(store)), "a", usage=USAGE, metadata={"n": 1})

    run = end(store, run, usage=MORE, metadata={"n": 2})

    assert (run.usage, answer(store).metadata) == (MORE, {"n": 2})


def test_a_checkpoint_is_judged_by_revision_and_fence_whatever_was_compacted(
    store: AgentStore,
) -> None:
    end(store, acquire(store, admit(store, "1")))
    run = checkpoint(store, acquire(store, admit(store, "2")), "Hel")
    version = store.load_snapshot("c").version
    store.compact_history(
        "c",
        expected_version=version,
        message_ids=["i-1", "a-r1", "i-2"],
        summary_parts="In short.",
        summary_id="s",
    )

    checkpoint(store, run, "Hello")

    assert history(store) == ["s", "a-r2"]
    assert message(store, "a-r2").parts == (TextPart(text="Hello"),)


# ---------------------------------------------------------------- interrupt


def test_an_interrupt_never_loses_to_a_checkpoint(store: AgentStore) -> None:
    run = checkpoint(store, acquire(store, admit(store)), "Hel")

    asked = run_of(store.request_interrupt("c", "r1"))

    assert (asked.state, asked.revision) == (RunState.INTERRUPT_REQUESTED, run.revision + 1)
    assert (asked.owner_id, asked.fencing_token) == ("worker", 1)


def test_an_interrupted_answer_is_kept_once_under_its_own_id(store: AgentStore) -> None:
    run = checkpoint(store, acquire(store, admit(store)), "Hel")
    checkpoint(store, run, "Hello, I w")
    asked = run_of(store.request_interrupt("c", "r1"))

    end(store, asked, "Hello, I w", reason="interrupted")

    assert history(store) == ["i-1", "a-r1"]
    assert answer(store).status is MessageStatus.INTERRUPTED
    assert answer(store).parts == (TextPart(text="Hello, I w"),)


def test_a_run_whose_interrupt_was_requested_may_still_succeed(store: AgentStore) -> None:
    acquire(store, admit(store))
    asked = run_of(store.request_interrupt("c", "r1", expected_revision=1))

    assert end(store, asked).state is RunState.COMPLETED


# ---------------------------------------------------------------- cancel


def test_a_cancelled_run_has_an_empty_interrupted_answer(store: AgentStore, clock: Clock) -> None:
    admit(store)
    clock.move(by=SECOND)

    run = run_of(store.cancel_run("c", "r1", expected_revision=0))

    assert (run.state, run.terminal_reason) == (RunState.CANCELLED, TerminalReason.CANCELLED)
    assert (run.ended_at, run.owner_id, run.revision) == (MOMENT + SECOND, None, 1)
    assert (answer(store).status, answer(store).parts) == (MessageStatus.INTERRUPTED, ())
    assert history(store) == ["i-1", "a-r1"]


def test_a_cancelled_run_keeps_what_it_had_said(store: AgentStore) -> None:
    run = checkpoint(store, acquire(store, admit(store)), "Hel", usage=USAGE, metadata={"n": 1})
    requeue(store, run)

    cancelled = run_of(store.cancel_run("c", "r1"))

    assert (cancelled.usage, cancelled.fencing_token) == (USAGE, 1)
    assert answer(store).parts == (TextPart(text="Hel"),)
    assert answer(store).metadata == {"n": 1}


def test_a_conversation_takes_the_next_input_after_a_cancel(store: AgentStore) -> None:
    admit(store, "1")
    store.cancel_run("c", "r1")

    assert acquire(store, admit(store, "2")).state is RunState.RUNNING


# ---------------------------------------------------------------- end


def test_an_end_retains_the_answer_and_frees_the_queue(
    store: AgentStore, driver: MemoryDriver, clock: Clock
) -> None:
    run = acquire(store, admit(store), lease=SECOND)
    clock.move(by=SECOND)

    ended = end(store, run, "Hello!", detail="fine")

    assert (ended.state, ended.terminal_reason, ended.terminal_detail) == (
        RunState.COMPLETED,
        TerminalReason.SUCCESS,
        "fine",
    )
    assert (ended.owner_id, ended.fencing_token, ended.ended_at) == ("worker", 1, clock.moment)
    assert (ended.lease_seconds, ended.lease_expires_at) == (None, None)
    assert rows(driver).runs[0].terminal_assistant == answer(store) == message(store, "a-r1")
    assert store.list_active_runs("c") == ()


def test_a_detail_is_cut_to_what_a_row_holds(store: AgentStore) -> None:
    text = "\x00\ud83d\ud83d\ude00" * 1_000_000

    ended = end(store, acquire(store, admit(store)), reason="provider_failure", detail=text)

    assert ended.state is RunState.FAILED
    assert ended.terminal_detail == "\x00\ud83d\U0001f600" * 1_365 + "\x00"
    assert len(ended.terminal_detail) == 4_096


@pytest.mark.parametrize("detail", ["", None])
def test_a_detail_may_be_empty_or_absent(store: AgentStore, detail: str | None) -> None:
    assert end(store, acquire(store, admit(store)), detail=detail).terminal_detail == detail
