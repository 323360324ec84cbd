"""A project's dispatcher is told after the outermost commit, outside every transaction."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction

from stitchkit_django import get_store
from stitchkit_django.core import Applied, RunState
from stitchkit_django.registry import get_dispatcher
from stitchkit_django.runtime.dispatch import InlineDispatcher
from tests.core.steps import abandon, acquire, admit, checkpoint, end, requeue, view
from tests.django.hooks import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import Settings

    from stitchkit_django.core import AgentStore, Event

calls: list[str] = []
in_transactions: list[bool] = []


def note(name: str) -> None:
    calls.append(name)
    in_transactions.extend(one.in_atomic_block for one in connections.all())


def publish(event: Event) -> None:
    note(f"publish {type(event).__name__}")


def dispatch(_conversation_id: str, run_id: str) -> None:
    note(f"dispatch {run_id}")


def fail(_conversation_id: str, run_id: str) -> None:
    calls.append(f"fail {run_id}")
    raise LookupError(run_id)


def execute(conversation_id: str, run_id: str) -> None:
    note(f"execute {run_id}")
    store = get_store()
    found = store.load_run(conversation_id, run_id)
    if found is not None and found.run.state is RunState.QUEUED:
        end(store, checkpoint(store, acquire(store, found.run), "So far"))


inline = InlineDispatcher(execute)


@pytest.fixture(autouse=True)
def _nothing_called() -> Iterator[None]:
    calls.clear()
    in_transactions.clear()
    yield
    calls.clear()


@pytest.fixture
def store(alias: str, settings: Settings) -> AgentStore:
    settings.STITCHKIT = {
        "DATABASE": alias,
        "PUBLISHERS": [f"{__name__}.publish"],
        "DISPATCHER": f"{__name__}.dispatch",
    }
    return get_store()


def test_the_dispatcher_is_what_the_setting_names(settings: Settings) -> None:
    settings.STITCHKIT = {}
    unset = get_dispatcher()
    settings.STITCHKIT = {"DISPATCHER": f"{__name__}.inline"}

    assert unset is None
    assert get_dispatcher() is inline


def test_publishers_are_told_before_the_dispatcher(store: AgentStore) -> None:
    admit(store)

    assert calls == ["publish InputAdmitted", "dispatch r1"]


def test_no_transaction_is_open_in_any_call(store: AgentStore) -> None:
    run = acquire(store, admit(store, "1"))
    admit(store, "2")
    run = requeue(store, checkpoint(store, run, "So far"))
    run = acquire(store, run)
    store.request_interrupt("c", run.id)
    end(store, view(store).run)
    abandon(store, view(store, "r2").run)
    with transaction.atomic(using=store.driver.using):  # type: ignore[attr-defined]
        admit(store, "3")

    assert [one for one in calls if one.startswith("dispatch")] == [
        "dispatch r1",
        "dispatch r2",
        "dispatch r1",
        "dispatch r2",
        "dispatch r3",
    ]
    assert len(in_transactions) == len(calls) * len([*connections]) > 0
    assert not any(in_transactions)


def test_inside_a_callers_transaction_a_run_is_dispatched_after_the_outermost_commit(
    store: AgentStore, alias: str
) -> None:
    with transaction.atomic(using=alias):
        with transaction.atomic(using=alias):
            admit(store, "1")
        admit(store, "2")
        called_inside = list(calls)

    assert called_inside == []
    assert calls == [
        "publish InputAdmitted",
        "dispatch r1",
        "publish InputAdmitted",
        "dispatch r2",
    ]


def test_what_is_rolled_back_is_not_dispatched(store: AgentStore, alias: str) -> None:
    def roll_back() -> None:
        with transaction.atomic(using=alias):
            admit(store, "1")
            raise LookupError

    with transaction.atomic(using=alias):
        with pytest.raises(LookupError):
            roll_back()
        admit(store, "2")

    assert calls == ["publish InputAdmitted", "dispatch r2"]


def test_a_run_admitted_inside_a_callers_transaction_is_executed_after_it(
    alias: str, settings: Settings
) -> None:
    settings.STITCHKIT = {"DATABASE": alias, "DISPATCHER": f"{__name__}.inline"}
    store = get_store()

    with transaction.atomic(using=alias):
        admit(store, "1")
        admit(store, "2")
        states_inside = [run.state for run in store.list_active_runs("c")]

    assert states_inside == [RunState.QUEUED, RunState.QUEUED]
    assert [view(store, run_id).run.state for run_id in ("r1", "r2")] == [RunState.COMPLETED] * 2
    # The second is told twice: when the first has ended, and for itself.
    assert calls == ["execute r1", "execute r2", "execute r2"]
    assert not any(in_transactions)


def test_a_dispatcher_that_fails_is_logged_and_the_run_waits(
    alias: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.STITCHKIT = {"DATABASE": alias, "DISPATCHER": f"{__name__}.fail"}
    store = get_store()

    with caplog.at_level(logging.ERROR, logger="stitchkit_django.store"):
        outcome = store.accept_input("c", "k", "Hello?", run_id="r1")

    assert isinstance(outcome, Applied)
    assert calls == ["fail r1"]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)
    assert "function fail" in record.getMessage()
    assert (record.__dict__["conversation_id"], record.__dict__["run_id"]) == ("c", "r1")
    assert [run.id for run in store.scan_recoverable().items] == ["r1"]


def test_only_where_there_is_a_dispatcher_the_queue_is_read_at_an_end(
    alias: str, settings: Settings
) -> None:
    sent: list[int] = []
    for given in ({}, {"DISPATCHER": f"{__name__}.dispatch"}):
        settings.STITCHKIT = {"DATABASE": alias, **given}
        store = get_store()
        run = acquire(store, admit(store, str(len(sent))))
        with counted(alias) as statements:
            end(store, run)
        sent.append(len(statements))

    assert sent[1] == sent[0] + 1


def test_an_async_admission_is_dispatched_too(store: AgentStore) -> None:
    async def accept() -> object:
        return await get_store().aaccept_input("c", "k", "Hello?", run_id="r1")

    outcome = async_to_sync(accept)()

    assert isinstance(outcome, Applied)
    assert calls == ["publish InputAdmitted", "dispatch r1"]
    assert not any(in_transactions)
    assert view(store).run.state is RunState.QUEUED
