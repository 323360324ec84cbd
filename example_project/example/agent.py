"""The agent: a model that asks a tool before it answers; it knows neither store nor worker.

What comes next depends on the conversation and on the answer so far, and on nothing else. An agent
of this form can go on from any checkpoint, whoever wrote it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from stitchkit_django.core import (
    Message,
    MessageRole,
    Part,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stitchkit_django.core import JSONValue

STATIONS: Final = MappingProxyType({"Lisbon": 24, "Oslo": 11, "Rome": 27})
"""The weather: degrees Celsius by city."""


def next_part(prompt: Sequence[Message], so_far: tuple[Part, ...]) -> Part | None:
    """Give the next part of an answer.

    Args:
        prompt: the messages that the answer is to, in causal order.
        so_far: the parts that the answer has already.

    Returns:
        A text, a tool call or a tool's result; None when the answer is whole.
    """
    match so_far:
        case (*_, ToolCallPart() as call):
            return use_tool(call)
        case _:
            return ask_model(prompt, so_far)


def ask_model(
    prompt: Sequence[Message], so_far: tuple[Part, ...]
) -> TextPart | ToolCallPart | None:
    """Say what a language model would: first that it looks, then what to look up, then the answer.

    Returns:
        A text or a tool call; None when all has been said.
    """
    if not so_far:
        return TextPart(text="Let me ask the weather stations.")
    if len(so_far) > 1 and isinstance(so_far[-1], TextPart):
        return None
    asked = {part.call_id for part in so_far if isinstance(part, ToolCallPart)}
    for city in STATIONS:
        if city in _question(prompt) and city not in asked:
            return ToolCallPart(call_id=city, tool_name="temperature", input={"city": city})
    return TextPart(text=_conclusion(so_far))


def use_tool(call: ToolCallPart) -> ToolResultPart:
    """Give the result of a tool call; a tool that fails has one, too."""
    outcome, output = ToolOutcome.SUCCESS, None
    try:
        output = TOOLS[call.tool_name](call.input)
    except LookupError as error:
        outcome, output = ToolOutcome.ERROR, str(error)
    return ToolResultPart(
        call_id=call.call_id, tool_name=call.tool_name, outcome=outcome, output=output
    )


def temperature(wanted: JSONValue) -> JSONValue:
    """Measure the temperature of a city, now.

    Raises:
        LookupError: the city has no station.
    """
    match wanted:
        case {"city": str(city)} if city in STATIONS:
            measured_at = datetime.now(UTC).isoformat()
            return {"city": city, "celsius": STATIONS[city], "measuredAt": measured_at}
        case _:
            raise LookupError(f"no weather station for {wanted}")


TOOLS: Final[Mapping[str, Callable[[JSONValue], JSONValue]]] = MappingProxyType(
    {"temperature": temperature}
)


def _question(prompt: Sequence[Message]) -> str:
    asked = [message for message in prompt if message.role is MessageRole.USER]
    return " ".join(part.text for part in asked[-1].parts if isinstance(part, TextPart))


def _conclusion(so_far: tuple[Part, ...]) -> str:
    measured: dict[str, int] = {}
    for part in so_far:
        match part:
            case ToolResultPart(output={"city": str(city), "celsius": int(celsius)}):
                measured[city] = celsius
            case _:
                pass
    if not measured:
        return f"I can tell the weather of {', '.join(STATIONS)} alone."
    warmest = max(measured, key=measured.__getitem__)
    told = " and ".join(f"{city} has {celsius}" for city, celsius in measured.items())
    return f"{told} degrees: it is warmest in {warmest}."
