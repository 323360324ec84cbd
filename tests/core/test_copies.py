"""What is kept can't be changed from outside, and what was changed outside is looked at again."""

# The wrong types are what the tests are about.
# mypy: disable-error-code="arg-type, call-overload, union-attr, index, return-value"

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from stitchkit_django.core import (
    AgentStore,
    Applied,
    Conflict,
    ConflictReason,
    Duplicate,
    HistoryPage,
    InvalidValueError,
    MemoryDriver,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    RecoverablePage,
    Snapshot,
    ToolCallPart,
    ToolResultPart,
)
from stitchkit_django.core.values import NODE_CEILING, json_value
from tests.core.steps import acquire, admit, checkpoint, owned
from tests.factories import MOMENT, MessageFactory, RunFactory

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import Part


def call() -> tuple[Part, dict[str, Any]]:
    part = ToolCallPart(call_id="1", tool_name="t", input={"a": 1})
    return part, part.input


def reasoning() -> tuple[Part, dict[str, Any]]:
    envelope = ProviderEnvelope(schema_version=1, provider="p", data={"a": 1})
    return ReasoningPart(text="Hm", provider=envelope), envelope.data


def provided() -> tuple[Part, dict[str, Any]]:
    envelope = ProviderEnvelope(schema_version=1, provider="p", data={"a": 1})
    return ProviderPart(envelope=envelope), envelope.data


@pytest.mark.parametrize("build", [call, reasoning, provided])
@pytest.mark.parametrize(
    "bad",
    [math.nan, (1,), {1: 2}, MOMENT, UUID(int=1), object(), 10**4_100],
    ids=lambda bad: type(bad).__name__,
)
def test_what_was_put_into_a_part_later_is_refused_with_its_path(
    store: AgentStore, build: Callable[[], tuple[Part, dict[str, Any]]], bad: object
) -> None:
    run = acquire(store, admit(store))
    part, inside = build()
    inside["a"] = bad

    with pytest.raises(InvalidValueError) as refused:
        store.checkpoint_run("c", "r1", **owned(run), parts=["Well", part][1:])

    assert refused.value.path.startswith("$.parts[0].")
    assert refused.value.path.endswith(".a")
    assert store.load_snapshot("c").version == 2


def test_a_part_changed_after_it_was_kept_changes_nothing(store: AgentStore) -> None:
    part, inside = call()
    result = ToolResultPart(call_id="1", tool_name="t", outcome="success", output={"b": 2})
    checkpoint(store, acquire(store, admit(store)), [part, result])

    inside["a"] = "changed"
    result.output["b"] = "changed"

    kept = store.load_snapshot("c").messages[1].parts
    assert kept == (call()[0], ToolResultPart(**{**_fields(result), "output": {"b": 2}}))


def _fields(part: ToolResultPart) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__struct_fields__}


def test_an_outcome_changed_outside_changes_nothing(store: AgentStore) -> None:
    admitted = store.accept_input("c", "k", "Hello?", metadata={"a": 1})
    assert isinstance(admitted, Applied)
    assert admitted.input is not None
    admitted.input.metadata["a"] = 2

    again = store.accept_input("c", "k", "Hello?", metadata={"a": 1})

    assert isinstance(again, Duplicate)
    assert again.same_input
    assert again.input.metadata == {"a": 1}


def test_what_a_read_gave_can_be_changed_without_changing_what_is_kept() -> None:
    store = AgentStore(MemoryDriver())
    run = acquire(store, admit(store, metadata={"a": 1}))
    part, _ = call()
    store.commit_terminal("c", "r1", **owned(run), parts=[part], reason="success")

    for read in (
        lambda: store.load_snapshot("c").messages[1],
        lambda: store.load_history("c").messages[1],
        lambda: getattr(store.load_run("c", "r1"), "assistant"),  # noqa: B009 - it is there
        lambda: getattr(store.accept_input("c", "1", "x"), "assistant"),  # noqa: B009 - likewise
    ):
        read().parts[0].input["a"] = "changed"
        assert read().parts[0].input == {"a": 1}


def test_a_value_that_grows_without_end_is_refused() -> None:
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]

    with pytest.raises(InvalidValueError, match=f"more than {NODE_CEILING} values"):
        json_value("metadata", value)


@pytest.mark.parametrize(
    ("build", "path"),
    [
        (
            lambda: Snapshot(conversation_id="c", version=1, messages=["x"], turns=[1]),
            "messages[0]",
        ),
        (lambda: Snapshot(conversation_id="c", version=1, runs="x"), "runs"),
        (
            lambda: Snapshot(
                conversation_id="c",
                version=2,
                messages=[MessageFactory.build(), MessageFactory.build(id="i-2")],
                turns=[2, 1],
            ),
            "turns",
        ),
        (
            lambda: Snapshot(conversation_id="d", version=1, runs=[RunFactory.build()]),
            "conversation_id",
        ),
        (lambda: HistoryPage(version=1, messages=[1]), "messages[0]"),
        (lambda: RecoverablePage(moment=MOMENT, items=["x"]), "items[0]"),
        (lambda: Conflict(reason="nope", version=1), "reason"),
        (lambda: Applied(version="1"), "version"),
    ],
    ids=[
        "message",
        "runs",
        "turns",
        "another conversation",
        "history",
        "recoverable",
        "reason",
        "version",
    ],
)
def test_a_page_or_an_outcome_that_is_none_is_refused(
    build: Callable[[], object], path: str
) -> None:
    with pytest.raises(InvalidValueError) as refused:
        build()

    assert refused.value.path == f"$.{path}"


def test_lists_become_tuples_and_plain_strings_members() -> None:
    page = HistoryPage(version=1, messages=[MessageFactory.build()])
    conflict = Conflict(reason="state", version=1)

    assert page.messages == (MessageFactory.build(),)
    assert conflict.reason is ConflictReason.STATE
