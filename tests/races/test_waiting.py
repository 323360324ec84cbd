"""What waits for a conversation's lock decides from what was committed meanwhile; PostgreSQL."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction

from stitchkit_django import get_store
from stitchkit_django.core import (
    Absorption,
    Applied,
    Conflict,
    ConflictReason,
    ConversationPurgedError,
    Duplicate,
    RunState,
)
from stitchkit_django.models import Conversation
from tests.core.steps import (
    acquire,
    admit,
    answered,
    compact,
    end,
    history,
    owned,
    reason_of,
    requeue,
    run_of,
    view,
)
from tests.races.threads import aside, overtaken, wait_for_waiting, workers

if TYPE_CHECKING:
    from stitchkit_django.core import AgentStore, Outcome, Run


@pytest.fixture
def store(postgres_alias: str) -> AgentStore:
    return get_store(postgres_alias)


def test_the_first_inputs_of_a_new_conversation_wait_for_each_other(store: AgentStore) -> None:
    first, second = overtaken("postgres", partial(admit, store, "1"), partial(admit, store, "2"))

    assert (first.turn, second.turn) == (1, 2)
    assert history(store) == ["i-1", "i-2"]


def test_what_was_rolled_back_is_not_there_for_who_waited(store: AgentStore) -> None:
    with workers(1) as threads:
        with transaction.atomic(using="postgres"):
            admit(store, "1")
            waiting = threads.start(partial(admit, store, "2"))
            wait_for_waiting("postgres", 1)
            transaction.set_rollback(True, using="postgres")
        run = waiting.result()

    assert run.turn == 1
    assert history(store) == ["i-2"]


def test_a_retry_that_waited_for_its_original_is_a_duplicate(store: AgentStore) -> None:
    admit(store, "0")

    run, retried = overtaken(
        "postgres", partial(admit, store, "1"), partial(store.accept_input, "c", "1", "Hello?")
    )

    assert isinstance(retried, Duplicate)
    assert (retried.run, retried.version, retried.same_input) == (run, 2, True)


def test_an_acquisition_that_waited_for_another_is_told_the_owner(store: AgentStore) -> None:
    run = admit(store)

    taken, refused = overtaken(
        "postgres",
        partial(acquire, store, run, "worker-1"),
        partial(store.acquire_run, "c", run.id, expected_revision=0, owner_id="worker-2"),
    )

    assert refused == Conflict(reason=ConflictReason.REVISION, version=2, run=taken)
    assert view(store).run == taken


def test_a_run_is_first_in_the_queue_once_the_one_before_it_has_ended(store: AgentStore) -> None:
    first = acquire(store, admit(store, "1"))
    second = admit(store, "2")

    _, taken = overtaken(
        "postgres",
        partial(end, store, first),
        partial(store.acquire_run, "c", second.id, expected_revision=0, owner_id="worker"),
    )

    assert run_of(taken).state is RunState.RUNNING


def test_of_two_ends_the_one_that_waited_is_told(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    ended, refused = overtaken(
        "postgres", partial(end, store, run, "First"), partial(finish, store, run, "timeout")
    )

    assert refused == Conflict(reason=ConflictReason.REVISION, version=3, run=ended)
    assert view(store).run == ended


def test_an_interrupt_just_after_a_success_is_told_so(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    ended, refused = overtaken(
        "postgres", partial(end, store, run), partial(store.request_interrupt, "c", run.id)
    )

    assert refused == Conflict(reason=ConflictReason.STATE, version=3, run=ended)
    assert view(store).run.state is RunState.COMPLETED


def test_an_end_just_after_an_interrupt_is_told_so_and_may_try_again(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    interrupted, refused = overtaken(
        "postgres", partial(store.request_interrupt, "c", run.id), partial(finish, store, run)
    )

    assert refused == Conflict(reason=ConflictReason.REVISION, version=3, run=run_of(interrupted))
    assert end(store, view(store).run).state is RunState.COMPLETED


def test_a_checkpoint_just_after_an_interrupt_keeps_nothing(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    interrupted, refused = overtaken(
        "postgres",
        partial(store.request_interrupt, "c", run.id),
        partial(store.checkpoint_run, "c", run.id, **owned(run), parts="Too late"),
    )

    assert refused == Conflict(reason=ConflictReason.REVISION, version=3, run=run_of(interrupted))
    assert history(store) == ["i-1"]


def test_a_cancel_just_after_an_acquisition_is_told_that_the_run_is_not_queued(
    store: AgentStore,
) -> None:
    run = admit(store)

    taken, refused = overtaken(
        "postgres", partial(acquire, store, run), partial(store.cancel_run, "c", run.id)
    )

    assert refused == Conflict(reason=ConflictReason.STATE, version=2, run=taken)


def test_an_end_just_after_a_requeue_is_refused(store: AgentStore) -> None:
    run = acquire(store, admit(store))

    queued, refused = overtaken(
        "postgres", partial(requeue, store, run), partial(finish, store, run)
    )

    assert refused == Conflict(reason=ConflictReason.REVISION, version=3, run=queued)


def test_a_run_that_another_input_has_joined_is_not_absorbed(store: AgentStore) -> None:
    run = acquire(store, admit(store, "1"))
    queued = admit(store, "2")
    absorb = [Absorption(run_id=queued.id, input_message_ids=queued.input_message_ids)]

    joined, ended = overtaken(
        "postgres",
        partial(admit, store, "3", coalesce_into=queued.id),
        partial(finish, store, run, absorb=absorb),
    )

    assert run_of(ended).input_message_ids == ("i-1",)
    assert view(store, queued.id).run == joined
    assert history(store) == ["i-1", "a-r1", "i-2", "i-3"]


def test_a_run_that_was_just_absorbed_can_not_be_acquired_or_joined(store: AgentStore) -> None:
    run = acquire(store, admit(store, "1"))
    queued = admit(store, "2")
    absorb = [Absorption(run_id=queued.id, input_message_ids=queued.input_message_ids)]

    _, joined = overtaken(
        "postgres",
        partial(finish, store, run, absorb=absorb),
        partial(store.accept_input, "c", "3", "More", coalesce_into=queued.id),
    )

    assert reason_of(joined) is ConflictReason.STATE
    assert history(store) == ["i-1", "i-2", "a-r1"]


def test_a_summary_is_refused_when_a_message_came_while_it_was_computed(
    store: AgentStore,
) -> None:
    answered(store)
    version = store.load_snapshot("c").version

    _, refused = overtaken(
        "postgres", partial(admit, store, "2"), partial(summarise, store, version)
    )

    assert reason_of(refused) is ConflictReason.VERSION
    assert history(store) == ["i-1", "a-r1", "i-2"]
    assert isinstance(summarise(store, version + 1), Applied)
    assert history(store) == ["s", "i-2"]


def test_a_message_that_waited_for_a_summary_stands_after_it(store: AgentStore) -> None:
    answered(store)

    overtaken(
        "postgres",
        partial(compact, store, "i-1", "a-r1", summary_id="s"),
        partial(admit, store, "2"),
    )

    assert history(store) == ["s", "i-2"]


def test_what_waited_for_a_purge_is_refused_and_writes_no_row(store: AgentStore) -> None:
    answered(store)

    def admit_late() -> None:
        with pytest.raises(ConversationPurgedError):
            admit(store, "2")

    overtaken("postgres", partial(store.purge_conversation, "c"), admit_late)

    head = Conversation.objects.using("postgres").get()
    assert (head.version, head.purged_at is None) == (4, False)


def test_a_renewal_that_waited_for_an_end_gives_no_lease(store: AgentStore) -> None:
    run = acquire(store, admit(store))
    hour = timedelta(hours=1)

    ended, refused = overtaken(
        "postgres",
        partial(end, store, run),
        partial(store.renew_lease, "c", run.id, owner_id="worker", fencing_token=1, lease=hour),
    )

    assert refused == Conflict(reason=ConflictReason.STATE, version=3, run=ended)
    assert view(store).run == ended


def test_the_moment_of_what_waited_is_from_after_its_wait(store: AgentStore) -> None:
    with workers(1) as threads:
        with transaction.atomic(using="postgres"):
            admit(store, "1")
            waiting = threads.start(partial(admit, store, "2"))
            wait_for_waiting("postgres", 1)
            with connections["postgres"].cursor() as cursor:
                cursor.execute("SELECT clock_timestamp()")
                released_at = cursor.fetchone()[0]
        run = waiting.result()

    assert run.created_at > released_at


def test_a_conversation_never_waits_for_another(store: AgentStore) -> None:
    acquire(store, admit(store))

    def live() -> Outcome:
        with connections["postgres"].cursor() as cursor:
            cursor.execute("SET lock_timeout = '1s'")
        admitted = run_of(store.accept_input("other", "key", "Hello?", input_message_id="i"))
        taken = run_of(
            store.acquire_run("other", admitted.id, expected_revision=0, owner_id="worker")
        )
        kept = run_of(store.checkpoint_run("other", taken.id, **owned(taken), parts="So"))
        stopped = run_of(store.request_interrupt("other", kept.id))
        store.renew_lease("other", kept.id, owner_id="worker", fencing_token=1)
        store.recover_run("other", kept.id, expected_revision=stopped.revision, action="abandon")
        store.compact_history(
            "other", expected_version=5, message_ids=["i"], summary_parts="In short."
        )
        return store.purge_conversation("other")

    with transaction.atomic(using="postgres"):
        store.request_interrupt("c", "r1")
        outcome = aside(live)

    assert isinstance(outcome, Applied)
    assert outcome.version == 7


def finish(store: AgentStore, run: Run, reason: str = "success", **fields: object) -> Outcome:
    arguments = {**owned(run), "parts": "Late", "reason": reason, **fields}
    return store.commit_terminal("c", run.id, **arguments)


def summarise(store: AgentStore, version: int) -> Outcome:
    return store.compact_history(
        "c",
        expected_version=version,
        message_ids=["i-1", "a-r1"],
        summary_parts="In short.",
        summary_id="s",
    )
