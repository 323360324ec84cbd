"""A store decides anew a bounded number of times, and asks no driver before it has checked."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django.core import (
    AgentStore,
    InvalidIdentifierError,
    InvalidValueError,
    Limits,
    MemoryDriver,
    Message,
    StoreUnavailableError,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from stitchkit_django.core.store import new_identifier
from tests.core.drivers import LosingDriver, UntouchableDriver
from tests.core.steps import acquire, admit, end, owned, rows
from tests.factories import MessageFactory

if TYPE_CHECKING:
    from collections.abc import Callable

# ---------------------------------------------------------------- lost writes


@pytest.mark.parametrize("losses", [0, 1, 2])
def test_a_lost_write_is_decided_anew(losses: int) -> None:
    driver = LosingDriver(losses=losses)

    run = admit(AgentStore(driver))

    assert run.revision == 0
    assert driver.reads == losses + 1


def test_a_write_that_can_not_win_is_given_up_and_nothing_is_written() -> None:
    driver = LosingDriver(losses=3)

    with pytest.raises(StoreUnavailableError, match="found its rows moved 3 times"):
        admit(AgentStore(driver))

    assert driver.reads == 3
    assert driver.rows("c") is None


def test_an_end_survives_a_lost_write_with_its_answer() -> None:
    driver = LosingDriver(losses=0)
    store = AgentStore(driver)
    run = acquire(store, admit(store))
    driver.losses = 2

    end(store, run, "Hello!")

    assert rows(driver).runs[0].terminal_assistant is not None


def test_a_renewal_that_can_not_win_is_given_up() -> None:
    driver = LosingDriver(losses=0)
    store = AgentStore(driver)
    acquire(store, admit(store))
    before = rows(driver)

    driver.losses = 2
    assert store.renew_lease("c", "r1", owner_id="worker", fencing_token=1).outcome == "applied"
    driver.losses = 3
    with pytest.raises(StoreUnavailableError, match="RenewLease in conversation 'c'"):
        store.renew_lease("c", "r1", owner_id="worker", fencing_token=1, lease=timedelta(minutes=1))

    assert rows(driver) == before


# ---------------------------------------------------------------- before any driver is asked

CALL = ToolCallPart(call_id="1", tool_name="t", input=None)
RESULT = ToolResultPart(call_id="1", tool_name="t", outcome="success")  # type: ignore[arg-type] # its plain string

ID = InvalidIdentifierError
VALUE = InvalidValueError
ACCEPT = ("accept_input", {"conversation_id": "c", "idempotency_key": "k", "parts": "x"})
OF_RUN = {"conversation_id": "c", "run_id": "r"}
ACQUIRE = ("acquire_run", OF_RUN | {"expected_revision": 0, "owner_id": "w"})
CHECKPOINT = ("checkpoint_run", OF_RUN | {"expected_revision": 0, "owner_id": "w", "parts": "x"})
RENEW = ("renew_lease", OF_RUN | {"owner_id": "w", "fencing_token": 1})
INTERRUPT = ("request_interrupt", OF_RUN)
CANCEL = ("cancel_run", OF_RUN)
RECOVER = ("recover_run", OF_RUN | {"expected_revision": 0, "action": "abandon"})
END = (
    "commit_terminal",
    OF_RUN | {"expected_revision": 0, "owner_id": "w", "parts": "x", "reason": "success"},
)
COMPACT = (
    "compact_history",
    {
        "conversation_id": "c",
        "expected_version": 0,
        "message_ids": ["i"],
        "summary_parts": "x",
    },
)
PURGE = ("purge_conversation", {"conversation_id": "c"})
HUGE = "x" * 1024 * 1024
DEEP: dict[str, Any] = {}
for _ in range(100):
    DEEP = {"x": DEEP}


@pytest.mark.parametrize(
    ("call", "wrong", "error"),
    [
        (ACCEPT, {"conversation_id": ""}, ID),
        (ACCEPT, {"idempotency_key": "a\x00"}, ID),
        (ACCEPT, {"input_message_id": " x"}, ID),
        (ACCEPT, {"run_id": 7}, ID),
        (ACCEPT, {"assistant_message_id": "x" * 256}, ID),
        (ACCEPT, {"coalesce_into": ""}, ID),
        (ACCEPT, {"expected_version": -1}, VALUE),
        (ACCEPT, {"expected_version": True}, VALUE),
        (ACCEPT, {"parts": None}, VALUE),
        (ACCEPT, {"parts": HUGE}, VALUE),
        (ACCEPT, {"parts": [CALL]}, VALUE),
        (ACCEPT, {"metadata": {"x": float("nan")}}, VALUE),
        (ACCEPT, {"metadata": {"x": datetime(2026, 3, 1, tzinfo=UTC)}}, VALUE),
        (ACCEPT, {"metadata": DEEP}, VALUE),
        (ACCEPT, {"metadata": [1]}, VALUE),
        (ACQUIRE, {"conversation_id": None}, ID),
        (ACQUIRE, {"run_id": ""}, ID),
        (ACQUIRE, {"owner_id": None}, ID),
        (ACQUIRE, {"expected_revision": None}, VALUE),
        (ACQUIRE, {"lease": timedelta()}, VALUE),
        (ACQUIRE, {"lease": timedelta(seconds=-1)}, VALUE),
        (ACQUIRE, {"lease": timedelta(days=36_501)}, VALUE),
        (ACQUIRE, {"lease": timedelta.max}, VALUE),
        (ACQUIRE, {"lease": 60}, VALUE),
        (CHECKPOINT, {"run_id": "\ud83d"}, ID),
        (CHECKPOINT, {"owner_id": " w"}, ID),
        (CHECKPOINT, {"expected_revision": None}, VALUE),
        (CHECKPOINT, {"fencing_token": 0}, VALUE),
        (CHECKPOINT, {"parts": HUGE}, VALUE),
        (CHECKPOINT, {"parts": [RESULT]}, VALUE),
        (CHECKPOINT, {"metadata": DEEP}, VALUE),
        (CHECKPOINT, {"usage": {"cost": 1}}, VALUE),
        (RENEW, {"run_id": ""}, ID),
        (RENEW, {"owner_id": ""}, ID),
        (RENEW, {"fencing_token": None}, VALUE),
        (RENEW, {"lease": timedelta()}, VALUE),
        (INTERRUPT, {"run_id": ""}, ID),
        (INTERRUPT, {"expected_revision": "0"}, VALUE),
        (CANCEL, {"run_id": ""}, ID),
        (CANCEL, {"expected_revision": -1}, VALUE),
        (RECOVER, {"run_id": ""}, ID),
        (RECOVER, {"expected_revision": None}, VALUE),
        (RECOVER, {"action": "restart"}, VALUE),
        (RECOVER, {"replay_safe": 1}, VALUE),
        (RECOVER, {"require_expired_lease": None}, VALUE),
        (RECOVER, {"detail": b"x"}, VALUE),
        (END, {"owner_id": ""}, ID),
        (END, {"expected_revision": None}, VALUE),
        (END, {"fencing_token": True}, VALUE),
        (END, {"reason": "boredom"}, VALUE),
        (END, {"reason": "absorbed"}, VALUE),
        (END, {"reason": "abandoned"}, VALUE),
        (END, {"policy_name": "budget"}, VALUE),
        (END, {"reason": "policy_stop"}, VALUE),
        (END, {"reason": "policy_stop", "policy_name": ""}, ID),
        (END, {"detail": 1}, VALUE),
        (END, {"absorb": ["r2"]}, VALUE),
        (END, {"usage": 1}, VALUE),
        (END, {"parts": HUGE}, VALUE),
        (COMPACT, {"conversation_id": ""}, ID),
        (COMPACT, {"summary_id": ""}, ID),
        (COMPACT, {"message_ids": [""]}, ID),
        (COMPACT, {"message_ids": "i"}, VALUE),
        (COMPACT, {"expected_version": None}, VALUE),
        (COMPACT, {"summary_parts": HUGE}, VALUE),
        (PURGE, {"conversation_id": "x" * 10_000}, ID),
        (PURGE, {"expected_version": 2**63}, VALUE),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else ascii(value)[:60],
)
def test_what_can_not_be_is_refused_before_the_driver_is_asked(
    call: tuple[str, dict[str, Any]], wrong: dict[str, Any], error: type[Exception]
) -> None:
    store = AgentStore(UntouchableDriver())
    method, arguments = call

    with pytest.raises(error):
        getattr(store, method)(**(arguments | wrong))


@pytest.mark.parametrize(
    "call",
    [ACCEPT, ACQUIRE, CHECKPOINT, RENEW, INTERRUPT, CANCEL, RECOVER, END, COMPACT, PURGE],
    ids=lambda call: call[0],
)
def test_what_is_right_is_asked_of_the_driver(call: tuple[str, dict[str, Any]]) -> None:
    method, arguments = call

    with pytest.raises(AssertionError):
        getattr(AgentStore(UntouchableDriver()), method)(**arguments)
    assert getattr(AgentStore(MemoryDriver()), method)(**arguments).outcome in {
        "applied",
        "not_found",
    }


def test_ids_that_the_store_makes_are_checked_too() -> None:
    store = AgentStore(UntouchableDriver(), new_id=lambda: "")

    with pytest.raises(InvalidIdentifierError):
        store.accept_input("c", "k", "x")


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("kind", ["accept", "checkpoint", "end", "compact"])
def test_the_limits_of_a_store_hold_for_every_message(kind: str) -> None:
    driver = MemoryDriver()
    store = AgentStore(driver, limits=Limits(max_message_bytes=100))
    run = acquire(store, admit(store))
    large = "x" * 100
    calls: dict[str, Callable[[], object]] = {
        "accept": lambda: store.accept_input("c", "2", large),
        "checkpoint": lambda: store.checkpoint_run("c", "r1", **owned(run), parts=large),
        "end": lambda: store.commit_terminal(
            "c", "r1", **owned(run), parts=large, reason="success"
        ),
        "compact": lambda: store.compact_history(
            "c", expected_version=2, message_ids=["i-1"], summary_parts=large
        ),
    }
    before = rows(driver)

    with pytest.raises(InvalidValueError, match="at most 100 are allowed"):
        calls[kind]()

    assert rows(driver) == before


def test_what_was_given_can_be_changed_without_changing_what_was_stored(
    store: AgentStore,
) -> None:
    metadata: dict[str, Any] = {"tags": ["a"]}
    parts = [TextPart(text="x")]
    admit(store, "1", parts, metadata=metadata)

    metadata["tags"].append("b")
    parts.append(TextPart(text="y"))

    (stored,) = store.load_snapshot("c").messages
    assert (stored.metadata, stored.parts) == ({"tags": ["a"]}, (TextPart(text="x"),))


@pytest.mark.parametrize("text", ["\ud83d", "a\x00b", "naïve", "\U0001f600", ""], ids=ascii)
def test_a_hostile_text_is_one_message_like_any_other(store: AgentStore, text: str) -> None:
    run = acquire(store, admit(store, "1", text, metadata={text: [text]}))
    end(store, run, text, detail=text)
    for key in "234":
        admit(store, key)

    found = store.load_snapshot("c").messages

    assert len(found) == 5
    assert found[0] == MessageFactory.build(
        id="i-1",
        parts=[TextPart(text=text)],
        metadata={text: [text]},
    )
    assert isinstance(found[1], Message)
    assert found[1].parts == (TextPart(text=text),)


# ---------------------------------------------------------------- ids that the store makes


def test_ids_that_are_made_later_sort_later(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(1_800_000_000_000_000_000, 1_800_000_000_100_000_000, 1_000_000))
    monkeypatch.setattr("time.time_ns", lambda: next(moments))

    made = [new_identifier() for _ in range(100)]

    assert made == sorted(made)
    assert {uuid.UUID(one).version for one in made} == {7}
    assert uuid.UUID(made[0]).int >> 80 == 1_800_000_000_000


def test_ids_of_one_moment_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_800_000_000_000_000_000)

    made = {new_identifier() for _ in range(1_000)}

    assert len(made) == 1_000
    assert {uuid.UUID(one).variant for one in made} == {uuid.RFC_4122}
