"""What tests arrange with: operations in conversation `c` that must succeed, in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stitchkit_django.core import Applied, Conflict, Duplicate, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stitchkit_django.core import (
        AgentStore,
        ConflictReason,
        MemoryDriver,
        Outcome,
        Part,
        PlacedMessage,
        Run,
        RunView,
    )
    from stitchkit_django.core.driver import ConversationRows


def run_of(outcome: Outcome) -> Run:
    """Give the run of an operation that was applied."""
    assert isinstance(outcome, Applied), outcome
    assert outcome.run is not None
    return outcome.run


def duplicate(outcome: Outcome) -> Duplicate:
    """Give the outcome of an input whose key was known."""
    assert isinstance(outcome, Duplicate), outcome
    return outcome


def reason_of(outcome: Outcome) -> ConflictReason:
    """Give the reason of a conflict."""
    assert isinstance(outcome, Conflict), outcome
    return outcome.reason


def admit(
    store: AgentStore, key: str = "1", parts: str | Sequence[Part] = "Hello?", **fields: Any
) -> Run:
    """Admit input `i-…` for run `r…`, whose answer will be `a-r…`; give the run."""
    ids = {
        "input_message_id": f"i-{key}",
        "run_id": f"r{key}",
        "assistant_message_id": f"a-r{key}",
    }
    return run_of(store.accept_input("c", key, parts, **(ids | fields)))


def acquire(store: AgentStore, run: Run, owner_id: str = "worker", **fields: Any) -> Run:
    """Let a worker take a run; give it as acquired."""
    return run_of(
        store.acquire_run("c", run.id, expected_revision=run.revision, owner_id=owner_id, **fields)
    )


def checkpoint(store: AgentStore, run: Run, parts: str | Sequence[Part], **fields: Any) -> Run:
    """Let a run's owner keep what it has; give the run."""
    return run_of(store.checkpoint_run("c", run.id, **owned(run), parts=parts, **fields))


def end(
    store: AgentStore,
    run: Run,
    parts: str | Sequence[Part] = "Hello!",
    reason: str = "success",
    **fields: Any,
) -> Run:
    """Let a run's owner end it; give the run."""
    return run_of(
        store.commit_terminal("c", run.id, **owned(run), parts=parts, reason=reason, **fields)
    )


def requeue(store: AgentStore, run: Run) -> Run:
    """Let a run be queued again; give it."""
    return run_of(
        store.recover_run(
            "c", run.id, expected_revision=run.revision, action="requeue", replay_safe=True
        )
    )


def abandon(store: AgentStore, run: Run, **fields: Any) -> Run:
    """Let a run be given up; give it."""
    return run_of(
        store.recover_run("c", run.id, expected_revision=run.revision, action="abandon", **fields)
    )


def answered(store: AgentStore, key: str = "1") -> Run:
    """Admit an input and answer it; give the ended run."""
    return end(store, acquire(store, admit(store, key)))


def compact(store: AgentStore, *message_ids: str, summary_id: str = "s") -> Message:
    """Let a summary stand for messages; give it."""
    version = store.load_snapshot("c").version
    outcome = store.compact_history(
        "c",
        expected_version=version,
        message_ids=message_ids,
        summary_parts="In short.",
        summary_id=summary_id,
    )
    assert isinstance(outcome, Applied), outcome
    assert outcome.summary is not None
    return outcome.summary


def owned(run: Run) -> dict[str, Any]:
    """Give the arguments that prove that the caller owns a run."""
    return {
        "expected_revision": run.revision,
        "owner_id": run.owner_id,
        "fencing_token": run.fencing_token,
    }


def view(store: AgentStore, run_id: str = "r1") -> RunView:
    """Read a run that is there."""
    found = store.load_run("c", run_id)
    assert found is not None
    return found


def answer(store: AgentStore, run_id: str = "r1") -> Message:
    """Read the answer of a run that has ended with one."""
    found = view(store, run_id).assistant
    assert found is not None
    return found


def history(store: AgentStore) -> list[str]:
    """Give the ids of the active history, in causal order."""
    return [message.id for message in store.load_snapshot("c").messages]


def message(store: AgentStore, message_id: str) -> Message:
    """Read a message of the active history."""
    (found,) = [one for one in store.load_snapshot("c").messages if one.id == message_id]
    return found


def rows(driver: MemoryDriver) -> ConversationRows:
    """Read all rows of the conversation, which is there."""
    found = driver.rows("c")
    assert found is not None
    return found


def row(driver: MemoryDriver, message_id: str) -> PlacedMessage:
    """Read a message's row, archived or not."""
    (found,) = [one for one in rows(driver).messages if one.message.id == message_id]
    return found
