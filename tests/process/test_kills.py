"""A process that is killed in the middle of something: what it committed stays, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stitchkit_django import get_store
from stitchkit_django.core import (
    ConflictReason,
    Duplicate,
    MessageStatus,
    RunState,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)
from stitchkit_django.models import AdmissionReceipt, Message, Run
from tests.core.steps import (
    acquire,
    admit,
    answer,
    answered,
    end,
    history,
    message,
    owned,
    reason_of,
    run_of,
    view,
)
from tests.process.children import children

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stitchkit_django.core import AgentStore, Outcome

CALL = ToolCallPart(call_id="call-1", tool_name="search", input={"q": "capital"})
CLOSED = ToolResultPart(call_id="call-1", tool_name="search", outcome=ToolOutcome.INTERRUPTED)


def test_a_run_whose_worker_was_killed_is_abandoned_and_the_next_one_is_answered(
    alias: str, child_environment: Mapping[str, str]
) -> None:
    store = get_store(alias)
    admit(store, "1")

    kill_at_work(alias, child_environment)
    refused = store.cancel_run("c", "r1")
    run = run_of(recover(store, "abandon"))
    next_run = answered(store, "2")

    assert reason_of(refused) is ConflictReason.STATE
    assert (run.state, run.owner_id, run.lease_expires_at) == (RunState.ABANDONED, None, None)
    assert answer(store).status is MessageStatus.FAILED
    assert answer(store).parts == (TextPart(text="So far"), CALL, CLOSED)
    assert next_run.state is RunState.COMPLETED
    assert history(store) == ["i-1", "a-r1", "i-2", "a-r2"]


def test_the_next_worker_goes_on_from_what_the_killed_one_kept(
    alias: str, child_environment: Mapping[str, str]
) -> None:
    store = get_store(alias)
    admit(store)

    kill_at_work(alias, child_environment)
    lost = view(store).run
    run = acquire(store, run_of(recover(store, "requeue", replay_safe=True)), "worker-2")

    assert (lost.fencing_token, run.fencing_token) == (1, 2)
    kept = message(store, "a-r1")
    assert (kept.status, kept.parts) == (MessageStatus.STREAMING, (TextPart(text="So far"), CALL))
    late = store.checkpoint_run("c", run.id, **owned(lost), parts="Late")
    assert reason_of(late) is ConflictReason.REVISION
    assert end(store, run).state is RunState.COMPLETED


def test_a_process_killed_before_its_commit_leaves_no_lock_and_no_half(
    alias: str, child_environment: Mapping[str, str]
) -> None:
    store = get_store(alias)
    run = admit(store)
    before = store.load_snapshot("c")

    kill_at_work(alias, child_environment, "work_uncommitted")

    assert store.load_snapshot("c") == before
    assert acquire(store, run).fencing_token == 1
    assert history(store) == ["i-1"]


@pytest.mark.parametrize("text", ["Hello?", "Hello!"])
def test_a_retry_after_a_kill_between_commit_and_return_is_a_duplicate(
    alias: str, child_environment: Mapping[str, str], text: str
) -> None:
    store = get_store(alias)
    with children(child_environment, ("admit_unanswered", alias)) as (caller,):
        assert caller.hear() == "committed"
        caller.kill()
        assert not caller.hear()

    retried = store.accept_input("c", "key", text)

    assert isinstance(retried, Duplicate)
    assert (retried.version, retried.run.state) == (1, RunState.QUEUED)
    assert retried.same_input is (text == "Hello?")
    assert Run.objects.using(alias).count() == 1
    assert Message.objects.using(alias).count() == 1
    assert AdmissionReceipt.objects.using(alias).count() == 1


def kill_at_work(alias: str, environment: Mapping[str, str], program: str = "work") -> None:
    with children(environment, (program, alias)) as (worker,):
        assert worker.hear() == "working"
        worker.kill()


def recover(store: AgentStore, action: str, *, replay_safe: bool = False) -> Outcome:
    return store.recover_run(
        "c",
        "r1",
        expected_revision=view(store).run.revision,
        action=action,
        replay_safe=replay_safe,
        require_expired_lease=True,
    )
