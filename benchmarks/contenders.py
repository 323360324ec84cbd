"""What is measured: the store, by its public functions alone, and the interface of its rivals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from django.db import connections

import stitchkit_django
from stitchkit_django.core import Applied, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bodies import Body
    from stitchkit_django.core import Outcome

OWNER: Final = "worker"
LEASE: Final = timedelta(seconds=60)
WINDOW: Final = 100
"""Messages that a turn reads of its history."""
PAGE: Final = 100
"""Runs that a pass of recovery reads at once."""


@dataclass
class Claim:
    """A run as its worker knows it."""

    conversation_id: str
    run_id: str
    revision: int
    fence: int | None = None


class Contender(Protocol):
    """One way to keep conversations, in one thread."""

    def accept(self, conversation_id: str, key: str, body: Body) -> Claim:
        """Admit an input."""

    def acquire(self, claim: Claim) -> None:
        """Take its run."""

    def checkpoint(self, claim: Claim, body: Body) -> None:
        """Keep what it has answered so far."""

    def check_fence(self, claim: Claim) -> None:
        """Read the run, to see whether it is still the worker's."""

    def end(self, claim: Claim, body: Body) -> None:
        """End it with its answer."""

    def history(self, conversation_id: str) -> int:
        """Read the newest messages; give how many there were."""

    def snapshot(self, conversation_id: str) -> int:
        """Read all messages; give how many there were."""

    def recovery_page(self, cursor: Any) -> Any:  # noqa: ANN401 - each has its own kind
        """Read a page of active runs from a cursor on, None for the first; give the next cursor."""

    def close(self) -> None:
        """Close the connection."""


class Entry(NamedTuple):
    """A contender by name; each thread opens its own."""

    name: str
    open: Callable[[], Contender]
    floor: str | None = None
    """Name of the entry that its figures are divided by; None: it is a floor itself."""


class Store:
    """The store of this package."""

    def __init__(self, alias: str) -> None:
        """Take the database's alias."""
        self._alias = alias
        self._store = stitchkit_django.get_store(alias)

    def accept(self, conversation_id: str, key: str, body: Body) -> Claim:
        """Admit an input."""
        run = _run(self._store.accept_input(conversation_id, key, body.text))
        return Claim(conversation_id, run.id, run.revision)

    def acquire(self, claim: Claim) -> None:
        """Take its run."""
        run = _run(
            self._store.acquire_run(
                claim.conversation_id,
                claim.run_id,
                expected_revision=claim.revision,
                owner_id=OWNER,
                lease=LEASE,
            )
        )
        claim.revision, claim.fence = run.revision, run.fencing_token

    def checkpoint(self, claim: Claim, body: Body) -> None:
        """Keep what it has answered so far."""
        run = _run(
            self._store.checkpoint_run(
                claim.conversation_id, claim.run_id, parts=body.text, **_owned(claim)
            )
        )
        claim.revision = run.revision

    def check_fence(self, claim: Claim) -> None:
        """Read the run, to see whether it is still the worker's."""
        view = self._store.load_run(claim.conversation_id, claim.run_id)
        if view is None or view.run.fencing_token != claim.fence:
            raise _unexpected(view)

    def end(self, claim: Claim, body: Body) -> None:
        """End it with its answer."""
        _run(
            self._store.commit_terminal(
                claim.conversation_id,
                claim.run_id,
                parts=body.text,
                reason="success",
                **_owned(claim),
            )
        )

    def history(self, conversation_id: str) -> int:
        """Read the newest messages; give how many there were."""
        return len(self._store.load_history(conversation_id, limit=WINDOW).messages)

    def snapshot(self, conversation_id: str) -> int:
        """Read all messages; give how many there were."""
        return len(self._store.load_snapshot(conversation_id).messages)

    def recovery_page(self, cursor: Any) -> Any:  # noqa: ANN401 - each has its own kind
        """Read a page of active runs from a cursor on, None for the first; give the next cursor."""
        return self._store.scan_recoverable(cursor=cursor, limit=PAGE).next_cursor

    def close(self) -> None:
        """Close this thread's connection."""
        connections[self._alias].close()


def _owned(claim: Claim) -> dict[str, Any]:
    return {
        "expected_revision": claim.revision,
        "owner_id": OWNER,
        "fencing_token": claim.fence,
    }


def _run(outcome: Outcome) -> Run:
    if not isinstance(outcome, Applied) or outcome.run is None:
        raise _unexpected(outcome)
    return outcome.run


def _unexpected(found: object) -> RuntimeError:
    return RuntimeError(f"an operation that is measured must succeed, but gave {found!r}")
