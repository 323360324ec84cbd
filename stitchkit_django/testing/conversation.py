"""What checks act with: a conversation of the store under test, and operations that must succeed.

Input `1` is message `i-1`; it asks for run `r1`, whose answer is message `a-r1`.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from stitchkit_django.core import AgentStore
from stitchkit_django.testing.claims import applied, duplicate, expect, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from stitchkit_django.core import (
        Absorption,
        Driver,
        Duplicate,
        JSONValue,
        Message,
        Outcome,
        Part,
        Run,
        RunView,
        Usage,
    )
    from stitchkit_django.core.driver import ConversationRows, PlacedMessage

MakeStore: TypeAlias = "Callable[[Sequence[str]], AbstractContextManager[AgentStore]]"
"""Makes a store over the driver under test, for conversations of these ids, of which there is
nothing yet; on the way out it deletes what they hold, their heads too."""

Check: TypeAlias = "Callable[[MakeStore], None]"
"""Raises AssertionError, or what the store raises, when a driver breaks the check's law."""


class Ownership(TypedDict):
    """The arguments that prove that the caller owns a run."""

    expected_revision: int
    owner_id: str
    fencing_token: int | None


def owned(run: Run) -> Ownership:
    """Give the arguments that prove that the caller owns a run."""
    assert run.owner_id is not None, f"nobody owns run {run.id!r}"
    return {
        "expected_revision": run.revision,
        "owner_id": run.owner_id,
        "fencing_token": run.fencing_token,
    }


@contextmanager
def opened(make_store: MakeStore) -> Iterator[Conversation]:
    """Give a conversation that nobody has written to."""
    (identity,) = fresh_ids(1)
    with make_store([identity]) as store:
        yield Conversation(store, identity)


@contextmanager
def opened_pair(make_store: MakeStore) -> Iterator[tuple[Conversation, Conversation]]:
    """Give two conversations of one store."""
    first, second = fresh_ids(2)
    with make_store([first, second]) as store:
        yield Conversation(store, first), Conversation(store, second)


def fresh_ids(count: int) -> list[str]:
    """Make ids that no conversation has, also where a store is used by many checks."""
    return [f"check-{uuid.uuid4()}" for _ in range(count)]


class Conversation:
    """A conversation; what its methods do must be applied."""

    def __init__(self, store: AgentStore, identity: str) -> None:
        """Take the store and the conversation's id."""
        self.store = store
        self.id = identity

    @property
    def driver(self) -> Driver:
        """The driver under test."""
        return self.store.driver

    def deleting(self) -> Conversation:
        """Give the conversation by a store that deletes what it compacts."""
        return Conversation(AgentStore(self.driver, archive_compacted=False), self.id)

    def archiving(self) -> Conversation:
        """Give the conversation by a store that archives what it compacts."""
        return Conversation(AgentStore(self.driver), self.id)

    # ------------------------------------------------------------ operations

    def send(
        self,
        key: str = "1",
        parts: str | Sequence[Part] = "Hello?",
        *,
        joins: str | None = None,
        metadata: dict[str, JSONValue] | None = None,
        expected_version: int | None = None,
    ) -> Outcome:
        """Send an input, whatever comes of it."""
        return self.store.accept_input(
            self.id,
            key,
            parts,
            metadata=metadata,
            input_message_id=f"i-{key}",
            run_id=f"r{key}",
            assistant_message_id=f"a-r{key}",
            coalesce_into=joins,
            expected_version=expected_version,
        )

    def admit(
        self,
        key: str = "1",
        parts: str | Sequence[Part] = "Hello?",
        *,
        joins: str | None = None,
        metadata: dict[str, JSONValue] | None = None,
    ) -> Run:
        """Admit an input; give the run that will answer it."""
        return run_of(self.send(key, parts, joins=joins, metadata=metadata))

    def retry(self, key: str = "1", parts: str | Sequence[Part] = "Hello?") -> Duplicate:
        """Send an input again, under ids that nothing has."""
        return duplicate(self.store.accept_input(self.id, key, parts))

    def acquire(self, run: Run, owner_id: str = "worker", *, lease: timedelta | None = None) -> Run:
        """Let a worker take a run; give it as acquired."""
        return run_of(
            self.store.acquire_run(
                self.id,
                run.id,
                expected_revision=run.revision,
                owner_id=owner_id,
                lease=lease,
            )
        )

    def checkpoint(
        self,
        run: Run,
        parts: str | Sequence[Part] = "So far",
        *,
        metadata: dict[str, JSONValue] | None = None,
        usage: Usage | None = None,
    ) -> Run:
        """Let a run's owner keep what it has; give the run."""
        return run_of(
            self.store.checkpoint_run(
                self.id, run.id, **owned(run), parts=parts, metadata=metadata, usage=usage
            )
        )

    def end(  # noqa: PLR0913 - what an end can say
        self,
        run: Run,
        parts: str | Sequence[Part] = "Hello!",
        *,
        reason: str = "success",
        detail: str | None = None,
        usage: Usage | None = None,
        absorb: Sequence[Absorption] = (),
    ) -> Run:
        """Let a run's owner end it; give the run."""
        return run_of(
            self.store.commit_terminal(
                self.id,
                run.id,
                **owned(run),
                parts=parts,
                reason=reason,
                detail=detail,
                usage=usage,
                absorb=absorb,
            )
        )

    def interrupt(self, run: Run) -> Run:
        """Ask a run's owner to stop; give the run."""
        return run_of(self.store.request_interrupt(self.id, run.id))

    def cancel(self, run: Run) -> Run:
        """End a queued run; give it."""
        return run_of(self.store.cancel_run(self.id, run.id))

    def requeue(self, run: Run) -> Run:
        """Let a run be queued again; give it."""
        return run_of(
            self.store.recover_run(
                self.id,
                run.id,
                expected_revision=run.revision,
                action="requeue",
                replay_safe=True,
            )
        )

    def abandon(self, run: Run, *, detail: str | None = None) -> Run:
        """Let a run be given up; give it."""
        return run_of(
            self.store.recover_run(
                self.id, run.id, expected_revision=run.revision, action="abandon", detail=detail
            )
        )

    def answered(self, key: str = "1") -> Run:
        """Admit an input and answer it; give the ended run."""
        return self.end(self.acquire(self.admit(key)))

    def compact(self, *message_ids: str, summary_id: str = "s") -> Message:
        """Let a summary stand for messages; give it."""
        outcome = applied(
            self.store.compact_history(
                self.id,
                expected_version=self.version,
                message_ids=message_ids,
                summary_parts="In short.",
                summary_id=summary_id,
            )
        )
        assert outcome.summary is not None, "a compaction gave no summary"
        return outcome.summary

    # ------------------------------------------------------------ what is there

    @property
    def version(self) -> int:
        """The head's version, as a snapshot tells it."""
        return self.store.load_snapshot(self.id).version

    def view(self, run_id: str = "r1") -> RunView:
        """Read a run that is there."""
        found = self.store.load_run(self.id, run_id)
        assert found is not None, f"run {run_id!r} is not found"
        return found

    def history(self) -> list[str]:
        """Give the ids of the active history, in causal order."""
        return [message.id for message in self.store.load_snapshot(self.id).messages]

    def message(self, message_id: str) -> Message:
        """Read a message of the active history."""
        found = [one for one in self.store.load_snapshot(self.id).messages if one.id == message_id]
        expect(f"messages of id {message_id!r}", len(found), 1)
        return found[0]

    def rows(self) -> ConversationRows:
        """Read all rows, of which there are some."""
        found = self.driver.rows(self.id)
        assert found is not None, "the conversation has no rows"
        return found

    def row(self, message_id: str) -> PlacedMessage:
        """Read a message's row, archived or not."""
        found = [one for one in self.rows().messages if one.message.id == message_id]
        expect(f"rows of message {message_id!r}", len(found), 1)
        return found[0]

    @contextmanager
    def unchanged(self, what: str) -> Iterator[None]:
        """Claim that something writes nothing."""
        before = self.driver.rows(self.id)
        yield
        expect(f"all rows after {what}", self.driver.rows(self.id), before)
