"""A conversation that has everything, and how to change one thing about its rows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stitchkit_django.core import (
    Absorption,
    AgentStore,
    MemoryDriver,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
)
from tests.core.clock import Clock
from tests.core.steps import acquire, admit, answered, checkpoint, compact, end, requeue

if TYPE_CHECKING:
    from stitchkit_django.core.driver import ConversationRows

CALL = ToolCallPart(call_id="1", tool_name="search", input={})
RESULT = ToolResultPart(call_id="1", tool_name="search", outcome=ToolOutcome.SUCCESS)
STEP = timedelta(seconds=1)


def begin(store: AgentStore, clock: Clock | None = None) -> None:
    """Let conversation `c` have everything.

    Run `r1` is answered, and a summary `s` stands for it; `r2` has absorbed `r3`; `r4` is answered
    with a tool call; `r5` is running and has begun to answer; `r6` and `r7` are queued, `r6` with
    two inputs.
    """

    def wait() -> None:
        if clock is not None:
            clock.move(by=STEP)

    answered(store, "1")
    wait()
    compact(store, "i-1", "a-r1")
    second, third = acquire(store, admit(store, "2")), admit(store, "3")
    named = Absorption(run_id="r3", input_message_ids=third.input_message_ids)
    end(store, second, absorb=[named])
    wait()
    end(store, acquire(store, admit(store, "4")), [CALL, RESULT])
    fifth = requeue(store, acquire(store, admit(store, "5")))
    checkpoint(store, acquire(store, fifth), "So far")
    admit(store, "6")
    admit(store, "6b", coalesce_into="r6")
    admit(store, "7")


def sound() -> ConversationRows:
    """Give the rows of a conversation that has everything, and nothing wrong with it."""
    clock = Clock()
    driver = MemoryDriver(clock)
    begin(AgentStore(driver), clock)
    rows = driver.rows("c")
    assert rows is not None
    return rows


def head(rows: ConversationRows, **fields: Any) -> ConversationRows:
    """Change the head."""
    return replace(rows, head=replace(rows.head, **fields))


def run(rows: ConversationRows, run_id: str, **fields: Any) -> ConversationRows:
    """Change a run; a field of the answer that it has retained is `answer_…`."""
    runs = []
    for stored in rows.runs:
        if stored.run.id == run_id:
            answer = stored.terminal_assistant
            told = {name[7:]: value for name, value in fields.items() if name[:7] == "answer_"}
            if answer is not None and told:
                answer = replace(answer, **told)
            own = {name: value for name, value in fields.items() if name[:7] != "answer_"}
            runs.append(replace(stored, run=replace(stored.run, **own), terminal_assistant=answer))
        else:
            runs.append(stored)
    return replace(rows, runs=tuple(runs))


def receipt(rows: ConversationRows, key: str, **fields: Any) -> ConversationRows:
    """Change a receipt."""
    receipts = [
        replace(one, **fields) if one.idempotency_key == key else one for one in rows.receipts
    ]
    return replace(rows, receipts=tuple(receipts))


def message(rows: ConversationRows, message_id: str, **fields: Any) -> ConversationRows:
    """Change a message; `place`, `archived_at` and `replaced_by` are where it stands."""
    messages = []
    for placed in rows.messages:
        if placed.message.id == message_id:
            where = {
                name: fields[name]
                for name in ("place", "archived_at", "replaced_by")
                if name in fields
            }
            own = {name: value for name, value in fields.items() if name not in where}
            messages.append(replace(placed, message=replace(placed.message, **own), **where))
        else:
            messages.append(placed)
    return replace(rows, messages=tuple(messages))


def without(
    rows: ConversationRows,
    *,
    runs: tuple[str, ...] = (),
    receipts: tuple[str, ...] = (),
    messages: tuple[str, ...] = (),
) -> ConversationRows:
    """Take rows away, by run id, key and message id."""
    return replace(
        rows,
        runs=tuple(one for one in rows.runs if one.run.id not in runs),
        receipts=tuple(one for one in rows.receipts if one.idempotency_key not in receipts),
        messages=tuple(one for one in rows.messages if one.message.id not in messages),
    )
