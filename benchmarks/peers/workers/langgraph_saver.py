"""LangGraph's PostgresSaver: a conversation is a thread, its history the value of one channel.

The saver is driven as a graph of one node drives it: a checkpoint with the input, the node's
writes, a checkpoint with its answer. The channel is the one that MessagesState has, which each
checkpoint holds whole. There is no windowed read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from langchain_core.messages import (  # type: ignore[import-not-found]
    AIMessage,
    BaseMessage,
    HumanMessage,
)
from langgraph.checkpoint.base import (  # type: ignore[import-not-found]
    Checkpoint,
    empty_checkpoint,
)
from langgraph.checkpoint.base.id import uuid6  # type: ignore[import-not-found]
from langgraph.checkpoint.postgres import PostgresSaver  # type: ignore[import-not-found]
from psycopg import Connection
from psycopg.rows import dict_row

from benchmarks.bodies import body
from benchmarks.peers.worker import MESSAGE_SIZE, roles, serve

KINDS = {"user": HumanMessage, "assistant": AIMessage}


class LangGraph:
    """Threads of a PostgresSaver, over one connection as its documentation makes it."""

    def __init__(self, url: str) -> None:
        """Connect and make the tables."""
        options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0}
        self._saver = PostgresSaver(Connection.connect(url, row_factory=dict_row, **options))
        self._saver.setup()

    def fill(self, length: int) -> str:
        """Make a thread of so many messages; give its name."""
        thread = str(uuid4())
        messages = [_message(role, number) for number, role in enumerate(roles(length))]
        self._put(_config(thread), empty_checkpoint(), messages, "loop", 0)
        return thread

    def turn(self, conversation: str, window: int | None) -> None:  # noqa: ARG002 - it has none
        """Load the thread, and keep it with the input, then with the answer."""
        saved = self._saver.get_tuple(_config(conversation))
        step = saved.metadata["step"] + 1
        asked = [*saved.checkpoint["channel_values"]["messages"], _message("user", step)]
        config, checkpoint = self._put(saved.config, saved.checkpoint, asked, "input", step)
        answer = _message("assistant", step)
        self._saver.put_writes(config, [("messages", [answer])], str(uuid4()))
        self._put(config, checkpoint, [*asked, answer], "loop", step + 1)

    def read(self, conversation: str, window: int | None) -> int:  # noqa: ARG002 - likewise
        """Load the thread; give how many messages it has."""
        saved = self._saver.get_tuple(_config(conversation))
        return len(saved.checkpoint["channel_values"]["messages"])

    def _put(
        self,
        config: dict[str, Any],
        last: Checkpoint,
        messages: list[BaseMessage],
        source: str,
        step: int,
    ) -> tuple[dict[str, Any], Checkpoint]:
        current = last["channel_versions"].get("messages")
        version = self._saver.get_next_version(current, None)
        checkpoint = {
            **last,
            "id": str(uuid6(clock_seq=step)),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": {"messages": messages},
            "channel_versions": {"messages": version},
        }
        metadata = {"source": source, "step": step, "parents": {}}
        written = self._saver.put(config, checkpoint, metadata, {"messages": version})
        return written, checkpoint


def _config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def _message(role: str, seed: int) -> BaseMessage:
    return KINDS[role](content=body(MESSAGE_SIZE, seed % 50).text, id=str(uuid4()))


if __name__ == "__main__":
    serve(LangGraph)
