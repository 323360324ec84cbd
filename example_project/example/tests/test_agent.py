"""What the agent says next, given what there is."""

from __future__ import annotations

from datetime import UTC, datetime

from example.agent import next_part, use_tool
from stitchkit_django.core import (
    Message,
    MessageRole,
    MessageStatus,
    Part,
    TextPart,
    ToolCallPart,
    ToolOutcome,
)

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def asked(question: str) -> list[Message]:
    """Build a prompt of one question."""
    message = Message(
        id="input-1",
        conversation_id="chat-1",
        role=MessageRole.USER,
        status=MessageStatus.COMMITTED,
        parts=(TextPart(text=question),),
        created_at=MOMENT,
        updated_at=MOMENT,
    )
    return [message]


def answered(question: str, so_far: tuple[Part, ...] = ()) -> tuple[Part, ...]:
    """Let the agent go on to the end."""
    while (part := next_part(asked(question), so_far)) is not None:
        so_far = (*so_far, part)
    return so_far


def test_the_agent_asks_the_tool_about_each_city_and_then_answers() -> None:
    parts = answered("Where is it warmest, Rome or Oslo?")

    calls = [part.call_id for part in parts if isinstance(part, ToolCallPart)]
    assert calls == ["Oslo", "Rome"]
    assert parts[-1] == TextPart(text="Oslo has 11 and Rome has 27 degrees: it is warmest in Rome.")


def test_the_agent_goes_on_from_every_prefix_of_its_answer() -> None:
    question = "Where is it warmest, Rome or Oslo?"
    whole = answered(question)

    for length in range(len(whole) + 1):
        resumed = answered(question, whole[:length])
        assert resumed[:length] == whole[:length]
        assert resumed[-1] == whole[-1]


def test_a_question_about_no_known_city_has_an_answer_too() -> None:
    parts = answered("How are you?")

    assert parts[-1] == TextPart(text="I can tell the weather of Lisbon, Oslo, Rome alone.")


def test_a_tool_that_fails_has_a_result() -> None:
    call = ToolCallPart(call_id="1", tool_name="temperature", input={"city": "Atlantis"})

    assert use_tool(call).outcome is ToolOutcome.ERROR
