"""What the store logs, where, and with which facts."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from django.db import OperationalError

from stitchkit_django import driver as driver_module
from stitchkit_django import get_store
from stitchkit_django.core import AgentStore, MemoryDriver
from stitchkit_django.events import run_event
from tests.core.steps import acquire, admit, end
from tests.django.hooks import failing
from tests.django.test_failures import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import Event, Run

NAME = "stitchkit_django.store"


def facts(record: logging.LogRecord) -> tuple[Any, ...]:
    """Give the facts of an outcome that a record carries."""
    keys = ("conversation_id", "run_id", "outcome", "reason")
    return tuple(record.__dict__[key] for key in keys)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda store, _: admit(store, "2"), ("c", "r2", "applied", None)),
        (lambda store, _: store.accept_input("c", "1", "Hello?"), ("c", "r1", "duplicate", None)),
        (
            lambda store, _: store.accept_input("c", "2", "Hello?", expected_version=9),
            ("c", None, "conflict", "version"),
        ),
        (end, ("c", "r1", "applied", None)),
        (
            lambda store, run: store.cancel_run("c", run.id),
            ("c", "r1", "conflict", "state"),
        ),
        (lambda store, _: store.cancel_run("c", "r9"), ("c", "r9", "not_found", None)),
        (
            lambda store, run: store.renew_lease("c", run.id, owner_id="worker", fencing_token=1),
            ("c", "r1", "applied", None),
        ),
        (
            lambda store, run: store.renew_lease("c", run.id, owner_id="other", fencing_token=1),
            ("c", "r1", "conflict", "owner"),
        ),
        (
            lambda store, _: store.purge_conversation("c"),
            ("c", None, "conflict", "state"),
        ),
    ],
    ids=[
        "admission",
        "retry",
        "refused admission",
        "end",
        "refused cancel",
        "unknown run",
        "renewal",
        "refused renewal",
        "refused purge",
    ],
)
def test_each_outcome_is_logged_for_who_debugs(
    alias: str,
    caplog: pytest.LogCaptureFixture,
    call: Callable[[AgentStore, Run], object],
    expected: tuple[Any, ...],
) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))

    with caplog.at_level(logging.DEBUG, logger=NAME):
        call(store, run)

    (record,) = caplog.records
    assert (record.name, record.levelno) == (NAME, logging.DEBUG)
    assert facts(record) == expected


def test_by_default_nothing_that_went_well_or_lost_a_race_is_logged(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = get_store(alias)

    with caplog.at_level(logging.INFO, logger=NAME):
        admit(store)
        store.accept_input("c", "1", "Hello?")
        store.cancel_run("c", "r9")

    assert caplog.records == []


def test_an_id_that_would_break_a_line_of_the_log_is_shown_as_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = AgentStore(MemoryDriver())

    with caplog.at_level(logging.DEBUG, logger=NAME):
        store.accept_input("a\u2028é", "k", "Hello?")

    assert caplog.records[0].getMessage() == r"AcceptInput in conversation 'a\u2028\xe9': applied"
    assert caplog.records[0].__dict__["conversation_id"] == "a\u2028é"


def test_a_refused_transaction_that_is_run_again_is_a_warning(
    alias: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "LONGEST_PAUSE_SECONDS", 0.0)
    store = get_store(alias)

    with (
        caplog.at_level(logging.WARNING, logger=NAME),
        failing(alias, partial(refusal, alias), 1, 2),
    ):
        admit(store)

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert [record.__dict__["tries"] for record in caplog.records] == [1, 2]
    assert {record.__dict__["using"] for record in caplog.records} == {alias}


def test_what_is_given_up_is_raised_and_not_logged_as_run_again(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = get_store(alias)

    with (
        caplog.at_level(logging.DEBUG, logger=NAME),
        failing(alias, lambda: OperationalError("injected"), 1),
        pytest.raises(Exception, match="injected"),
    ):
        admit(store)

    assert caplog.records == []


def test_a_publisher_and_a_receiver_that_fail_are_errors_with_their_run(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_event: Event) -> NoReturn:
        raise LookupError

    def receive(**_: object) -> NoReturn:
        raise LookupError

    publishing = AgentStore(get_store(alias).driver, publishers=[fail])
    run_event.connect(receive)
    try:
        with caplog.at_level(logging.ERROR, logger=NAME):
            admit(publishing, "1")
            admit(get_store(alias), "2")
    finally:
        run_event.disconnect(receive)

    # Django logs a receiver that fails, too, without saying of which run.
    records = [record for record in caplog.records if record.name == NAME]
    assert [record.levelno for record in records] == [logging.ERROR] * 2
    assert [record.__dict__["run_id"] for record in records] == ["r1", "r2"]
    assert {record.__dict__["conversation_id"] for record in records} == {"c"}
    assert all(record.exc_info for record in records)
