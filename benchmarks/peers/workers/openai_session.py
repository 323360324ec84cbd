"""OpenAI Agents' SQLAlchemySession: a conversation is a session, its history one row a message."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from agents.extensions.memory import SQLAlchemySession  # type: ignore[import-not-found]
from sqlalchemy.engine import make_url  # type: ignore[import-not-found]
from sqlalchemy.ext.asyncio import create_async_engine  # type: ignore[import-not-found]

from benchmarks.bodies import body
from benchmarks.peers.worker import MESSAGE_SIZE, roles, serve

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_FILLED_AT_ONCE: Final = 20
"""Few, so that a history has many moments, as one that has grown has."""


class OpenAIAgents:
    """Sessions over one engine, with the driver that its documentation names."""

    def __init__(self, url: str) -> None:
        """Connect; the first session makes the tables."""
        self._loop = asyncio.new_event_loop()
        self._engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
        self._run(self._session("first").get_items(1))

    def fill(self, length: int) -> str:
        """Make a session of so many messages; give its name."""
        name = str(uuid4())
        items = [_item(role, number) for number, role in enumerate(roles(length))]
        for start in range(0, length, _FILLED_AT_ONCE):
            some = items[start : start + _FILLED_AT_ONCE]
            self._run(self._session(name).add_items(some))
        return name

    def turn(self, conversation: str, window: int | None) -> None:
        """Read the history, add the input, then the answer, as a runner does."""
        self._run(self._turn(conversation, window))

    def read(self, conversation: str, window: int | None) -> int:
        """Read the history; give how many messages there were."""
        return len(self._run(self._session(conversation).get_items(window)))

    async def _turn(self, conversation: str, window: int | None) -> None:
        session = self._session(conversation)
        await session.get_items(window)
        await session.add_items([_item("user", 0)])
        await session.add_items([_item("assistant", 1)])

    def _session(self, name: str) -> SQLAlchemySession:
        return SQLAlchemySession(name, engine=self._engine, create_tables=name == "first")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


def _item(role: str, seed: int) -> dict[str, str]:
    return {"role": role, "content": body(MESSAGE_SIZE, seed % 50).text}


if __name__ == "__main__":
    serve(OpenAIAgents)
