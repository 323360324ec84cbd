"""Google ADK's DatabaseSessionService: a session, its history one event a message."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.adk.events import Event  # type: ignore[import-not-found]
from google.adk.sessions import DatabaseSessionService, Session  # type: ignore[import-not-found]
from google.adk.sessions.base_session_service import (  # type: ignore[import-not-found]
    GetSessionConfig,
)
from google.genai.types import Content, Part  # type: ignore[import-not-found]
from sqlalchemy import text  # type: ignore[import-not-found]
from sqlalchemy.engine import make_url  # type: ignore[import-not-found]

from benchmarks.bodies import body
from benchmarks.peers.worker import MESSAGE_SIZE, serve

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

APP: Final = {"app_name": "benchmark", "user_id": "user"}
# Events can be appended one by one alone, each in a transaction: too slow for thousands.
_REPEAT: Final = text(
    "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data) "
    "SELECT gen_random_uuid()::text, app_name, user_id, session_id, invocation_id, "
    "timestamp - n * interval '1 second', event_data "
    "FROM events CROSS JOIN generate_series(1, :times) AS n WHERE session_id = :session"
)


class GoogleADK:
    """Sessions of one service."""

    def __init__(self, url: str) -> None:
        """Connect; the first session makes the tables."""
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        dialect = make_url(url).set(drivername="postgresql+asyncpg")
        self._service = DatabaseSessionService(dialect.render_as_string(hide_password=False))

    def fill(self, length: int) -> str:
        """Make a session of so many events; give its id."""
        return self._run(self._fill(length))

    def turn(self, conversation: str, window: int | None) -> None:
        """Load the session, append the input, then the answer, as a runner does."""
        self._run(self._turn(conversation, window))

    def read(self, conversation: str, window: int | None) -> int:
        """Load the session; give how many events it had."""
        return len(self._run(self._loaded(conversation, window)).events)

    async def _fill(self, length: int) -> str:
        session = await self._service.create_session(**APP)
        await self._append(session)
        if length > len(session.events):
            repeated = {"times": length // 2 - 1, "session": session.id}
            async with self._service.db_engine.begin() as connection:
                await connection.execute(_REPEAT, repeated)
        name: str = session.id
        return name

    async def _turn(self, conversation: str, window: int | None) -> None:
        await self._append(await self._loaded(conversation, window))

    async def _append(self, session: Session) -> None:
        for number, (author, role) in enumerate([("user", "user"), ("agent", "model")]):
            said = Content(role=role, parts=[Part(text=body(MESSAGE_SIZE, number).text)])
            await self._service.append_event(session, Event(author=author, content=said))

    async def _loaded(self, conversation: str, window: int | None) -> Session:
        config = None if window is None else GetSessionConfig(num_recent_events=window)
        return await self._service.get_session(**APP, session_id=conversation, config=config)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


if __name__ == "__main__":
    serve(GoogleADK)
