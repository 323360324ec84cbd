"""A conversation goes out as one line and comes back as the same rows, or the place is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from stitchkit_django.core import AgentStore, InvalidValueError, MemoryDriver, TextPart
from stitchkit_django.core.documents import (
    ExportedRows,
    UnreadableRow,
    conversation_id_of,
    document,
    exported,
    rows_of,
)
from tests.core.aggregates import aggregate, line, message
from tests.core.planting import sound
from tests.core.steps import acquire, admit, end
from tests.replay import histories, replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core.driver import ConversationRows

UNREADABLE = UnreadableRow(
    kind="message", id="i-1", reason="no JSON", columns={"message_id": "i-1", "parts": "\0{"}
)


def plain() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(exported(sound()))
    return found


def refusal(text: str) -> str:
    with pytest.raises(InvalidValueError) as refused:
        rows_of(text)
    return str(refused.value)


@pytest.mark.parametrize("history", histories()[::10], ids=lambda history: f"{history['seed']}")
def test_an_export_gives_the_same_rows(history: dict[str, Any]) -> None:
    driver = MemoryDriver()
    replay(AgentStore(driver), "c", history)
    rows = driver.rows("c")
    assert rows is not None

    text = exported(rows)

    assert rows_of(text) == rows
    assert "\n" not in text
    assert exported(rows_of(text)) == text


HARD = "NUL \0, half a pair \ud83d, \u2028\r\n, \U0010ffff"
HARD_METADATA: dict[str, Any] = {"\0": [1e100, -0.0, 10**30, True, 1, 1.0, None], HARD: HARD}


def test_an_export_keeps_every_text_and_number_exactly() -> None:
    driver = MemoryDriver()
    store = AgentStore(driver)
    end(store, acquire(store, admit(store, "1", HARD, metadata=HARD_METADATA)), HARD, detail=HARD)
    rows = driver.rows("c")
    assert rows is not None

    text = exported(rows)
    back = rows_of(text)

    assert back == rows
    assert repr(back) == repr(rows)
    text.encode()


def test_the_exported_form_is_told_by_its_schema_version_and_its_key() -> None:
    assert list(plain()) == ["schemaVersion", "conversation"]
    assert list(plain()["conversation"]) == ["head", "runs", "receipts", "messages"]
    assert plain()["conversation"]["messages"][0]["place"] == [1, 0]


# ---------------------------------------------------------------- what can't be read


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "$: '' is no conversation: "),
        ("{", "$: '{' is no conversation: "),
        ("[]", "is no conversation: Expected `object`, got `array`"),
        ("null", "is no conversation: Expected `object`, got `null`"),
        ('{"messages": []}', "$: has neither `conversation`, as an export, nor `state`"),
        ('{"state": {}}', "is no conversation: Object missing required field"),
        ('{"conversation": {}}', "$.conversation.head: is missing"),
        ('{"schemaVersion": 2, "conversation": {}}', "Invalid value 2 - at `$.schemaVersion`"),
        ('{"conversation": {"head": {"schemaVersion": 7}}}', "`$.conversation.head.schemaVersion`"),
        ('{"a": ' + "[" * 100_000, "$: is nested too deep"),
        ('{"a": "' + "x" * 1_000, "x…"),
    ],
    ids=range(11),
)
def test_what_is_no_document_is_refused(text: str, told: str) -> None:
    assert told in refusal(text)


def spoil(**steps: object) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        for path, value in steps.items():
            *above, last = path.split("__")
            held: Any = found["conversation"]
            for step in above:
                held = held[int(step) if step.isdigit() else step]
            held[last] = value

    return change


SPOILT: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "the head": (spoil(head__version=-1), "$: $.version: -1 is not in 0 to"),
    "a run": (
        spoil(runs__1__run__ownerId=" w"),
        "$.conversation.runs[1]: owner_id ' w' has white space",
    ),
    "an answer": (
        spoil(runs__0__terminalAssistant__status="failed"),
        "$.conversation.runs[0].terminal_assistant: status failed",
    ),
    "a receipt": (
        spoil(receipts__2__idempotencyKey="\n"),
        "$.conversation.receipts[2]: idempotency_key '\\n' has white space",
    ),
    "a message": (
        spoil(messages__3__message__updatedAt="2020-01-01T00:00:00Z"),
        "$.conversation.messages[3].updated_at: 2020-01-01 00:00:00+00:00 is before",
    ),
    "a turn": (
        spoil(messages__3__place=[0, 0]),
        "$.conversation.messages[3]: $.place[0]: 0 is not in 1 to",
    ),
    "a slot": (
        spoil(messages__3__place=[1, 2**31]),
        "$.conversation.messages[3]: $.place[1]: 2147483648 is over 2147483647",
    ),
    "a negative slot": (
        spoil(messages__3__place=[1, -1]),
        "$.conversation.messages[3]: $.place[1]: -1 is not in 0 to",
    ),
    "a moment of no zone": (
        spoil(messages__0__archivedAt="2026-03-01T12:00:00"),
        "$.conversation.messages[0]: $.archived_at: ",
    ),
    "a summary's name": (
        spoil(messages__0__replacedBy=""),
        "$.conversation.messages[0]: replaced_by '' is empty",
    ),
    "a type": (
        spoil(messages__0__message__role=7),
        "Expected `str`, got `int` - at `$.conversation.messages[0].message.role`",
    ),
}


@pytest.mark.parametrize(("change", "told"), SPOILT.values(), ids=SPOILT.keys())
def test_what_is_wrong_in_an_export_is_named_with_its_place(
    change: Callable[[dict[str, Any]], None], told: str
) -> None:
    found = plain()
    change(found)

    assert told in refusal(json.dumps(found))


def test_the_first_message_that_is_wrong_is_named_in_an_aggregate_too() -> None:
    text = line(aggregate([], [message("i1"), message(" i2"), message(" i3")]))

    assert refusal(text) == "$.messages[1]: id ' i2' has white space at an end"


# ---------------------------------------------------------------- rows that could not be read


def test_rows_that_could_not_be_read_go_out_as_their_columns_have_them() -> None:
    found = json.loads(exported(sound(), (UNREADABLE,)))

    assert found["conversation"]["unreadable"] == [
        {
            "kind": "message",
            "id": "i-1",
            "reason": "no JSON",
            "columns": {"message_id": "i-1", "parts": "\0{"},
        }
    ]


def test_an_export_with_rows_that_could_not_be_read_does_not_come_back() -> None:
    told = refusal(exported(sound(), (UNREADABLE, replace(UNREADABLE, id="i-2"))))

    assert told == (
        "$.conversation.unreadable: 2 rows could not be read when this was exported; the first is "
        "message 'i-1': no JSON"
    )


def test_an_export_that_was_redacted_does_not_come_back() -> None:
    found = plain()
    found["conversation"]["redacted"] = True

    assert refusal(json.dumps(found)) == (
        "$.conversation.redacted: it was redacted when it was exported, so it is not what was "
        "stored"
    )


def test_an_export_can_be_without_a_head() -> None:
    text = document(ExportedRows(unreadable=(UNREADABLE,)))

    assert list(json.loads(text)["conversation"]) == ["unreadable"]
    assert ExportedRows(unreadable=(UNREADABLE,)).readable() is None
    assert not ExportedRows(unreadable=(UNREADABLE,)).has_head
    assert ExportedRows(unreadable=(replace(UNREADABLE, kind="head", id=""),)).has_head
    given = sound()
    shuffled = ExportedRows(
        head=given.head,
        runs=given.runs[::-1],
        receipts=given.receipts[::-1],
        messages=given.messages[::-1],
    )
    assert shuffled.readable() == given


# ---------------------------------------------------------------- whose it is


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (line(aggregate([], [])), "c"),
        ('{"conversation": {"head": {"conversationId": "d"}}}', "d"),
        ('{"conversation": {"head": {"conversationId": "d "}}}', None),
        ('{"conversation": {"head": {"conversationId": 7}}}', None),
        ('{"conversation": null}', None),
        ('{"state": {}}', None),
        ("{}", None),
        ("7", None),
        ("{", None),
        ("[" * 100_000, None),
    ],
    ids=range(10),
)
def test_a_document_that_is_refused_names_its_conversation_where_it_can(
    text: str, expected: str | None
) -> None:
    assert conversation_id_of(text) == expected


def test_no_part_of_a_line_is_lost_that_a_record_does_not_know() -> None:
    found = plain()
    found["conversation"]["messages"][0]["message"]["queuePriority"] = "interrupt-next"
    rows: ConversationRows = rows_of(json.dumps(found))

    assert rows == sound()
    assert isinstance(rows.messages[0].message.parts[0], TextPart)
