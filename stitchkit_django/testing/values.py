"""Laws of values: what was accepted is read back exactly, wherever it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stitchkit_django.core import (
    FilePart,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)
from stitchkit_django.testing.claims import expect
from stitchkit_django.testing.conversation import opened

if TYPE_CHECKING:
    from stitchkit_django.core import JSONValue, Message, Part
    from stitchkit_django.testing.conversation import MakeStore

TEXT: Final = (
    "NUL \0, a lone \ud83d and \udc00, \N{GRINNING FACE}, e\u0301, \u2028 \\ \" ' % {}\r\n"
)

JSON: Final[dict[str, JSONValue]] = {
    "zeros": [0, 0.0, -0.0, False],
    "ones": [1, 1.0, True],
    "a large float": 1e100,
    "small floats": [5e-324, 0.1, -1.7976931348623157e308],
    "large integers": [2**63, -(2**63) - 1, 10**200, 9007199254740993],
    "nothing": [None, "", [], {}],
    TEXT: TEXT,
    "z": {"b": 1, "a": 2, "": 3, "B": 4},
}

INPUT: Final[tuple[Part, ...]] = (
    TextPart(text=TEXT),
    TextPart(text=""),
    FilePart(media_type="text/plain", reference=TEXT, filename=TEXT),
    ProviderPart(envelope=ProviderEnvelope(schema_version=0, provider=TEXT, data=JSON)),
)
ANSWER: Final[tuple[Part, ...]] = (
    *INPUT,
    ReasoningPart(
        text=TEXT, provider=ProviderEnvelope(schema_version=7, provider="p", data=[JSON])
    ),
    SourcePart(source_id=TEXT, url=TEXT, title=TEXT),
    ToolCallPart(call_id=TEXT, tool_name=TEXT, input=JSON),
    ToolResultPart(call_id=TEXT, tool_name=TEXT, outcome=ToolOutcome.SUCCESS, output=None),
    ToolCallPart(call_id="2", tool_name="t", input=None),
    ToolResultPart(call_id="2", tool_name="t", outcome=ToolOutcome.ERROR),
)


def check_an_input_is_read_back_exactly(make_store: MakeStore) -> None:
    """Parts and metadata of an input are what they were, in history and in its receipt."""
    with opened(make_store) as conversation:
        conversation.admit("1", INPUT, metadata=JSON)

        _check_exact(conversation.message("i-1"), INPUT)
        _check_exact(conversation.retry("1", INPUT).input, INPUT)
        page = conversation.store.load_history(conversation.id)
        expect("messages of the page", [message.id for message in page.messages], ["i-1"])
        for message in page.messages:
            _check_exact(message, INPUT)


def check_an_answer_is_read_back_exactly(make_store: MakeStore) -> None:
    """Parts and metadata of an answer are what they were: streamed, retained, archived."""
    with opened(make_store) as made:
        conversation = made.archiving()
        run = conversation.acquire(conversation.admit())
        kept = conversation.checkpoint(run, ANSWER, metadata=JSON)
        _check_exact(conversation.message("a-r1"), ANSWER)

        conversation.end(kept, ANSWER)

        answer = conversation.message("a-r1")
        _check_exact(answer, ANSWER)
        expect("retained answer", conversation.view().assistant, answer)
        retained = conversation.retry().assistant
        assert retained is not None, "a retry gets no answer"
        _check_exact(retained, ANSWER)
        conversation.compact("a-r1")
        _check_exact(conversation.row("a-r1").message, ANSWER)


def check_what_a_run_has_said_is_kept_exactly(make_store: MakeStore) -> None:
    """An answer that recovery writes for a run is, to the digit, what the run had said."""
    with opened(make_store) as conversation:
        kept = conversation.checkpoint(
            conversation.acquire(conversation.admit()), ANSWER, metadata=JSON
        )
        created_at = conversation.message("a-r1").created_at

        conversation.abandon(kept, detail=TEXT)

        answer = conversation.message("a-r1")
        _check_exact(answer, ANSWER)
        expect("beginning of the answer", answer.created_at, created_at)
        expect("detail", conversation.view().run.terminal_detail, TEXT)


def _check_exact(message: Message, parts: tuple[Part, ...]) -> None:
    # As texts: 1, 1.0 and True are equal, and so are objects whose keys stand in another order.
    expect("parts", repr(message.parts), repr(parts))
    expect("metadata", repr(message.metadata), repr(JSON))
