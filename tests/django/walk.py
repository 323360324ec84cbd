"""One walk through every operation and bounded read of a conversation, for tests that measure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from stitchkit_django.core import Absorption, IdentityTakenError
from tests.core.steps import owned, run_of

if TYPE_CHECKING:
    from stitchkit_django.core import AgentStore, Run

Step: TypeAlias = Callable[[str, Callable[[], Any]], Any]
"""Takes a step's name and what it does, does it and gives what it gave."""

PAGE = 4


def walk(store: AgentStore, conversation_id: str, step: Step) -> None:
    """Take each step in a conversation that has no active run and at least four messages.

    Every id is the conversation's own: a database may look an id up in all conversations.
    """
    name = conversation_id
    lease = timedelta(minutes=1)

    def admit(told: str, run: str, **fields: Any) -> Run:
        ids = {
            "input_message_id": f"{name}-new-{run}",
            "run_id": f"{name}-{run}",
            "assistant_message_id": f"{name}-answer-{run}",
        }
        return run_of(
            step(told, lambda: store.accept_input(name, f"{name}-key-{run}", "?", **(ids | fields)))
        )

    def acquire(told: str, run: Run) -> Run:
        seen = run.revision
        return run_of(
            step(
                told,
                lambda: store.acquire_run(
                    name, run.id, expected_revision=seen, owner_id="worker", lease=lease
                ),
            )
        )

    def recover(told: str, run: Run, action: str) -> Run:
        seen = run.revision
        return run_of(
            step(
                told,
                lambda: store.recover_run(
                    name, run.id, expected_revision=seen, action=action, replay_safe=True
                ),
            )
        )

    def checkpoint(told: str, run: Run) -> Run:
        proof = owned(run)
        return run_of(step(told, lambda: store.checkpoint_run(name, run.id, parts="…", **proof)))

    def end(told: str, run: Run, **fields: Any) -> Run:
        given = {"parts": "!", "reason": "success", **owned(run), **fields}
        return run_of(step(told, lambda: store.commit_terminal(name, run.id, **given)))

    first = admit("accept", "first")
    step("accept again", lambda: store.accept_input(name, f"{name}-key-first", "?"))
    step("accept, an id taken", lambda: _refused(store, name, first))
    joined = admit("accept another", "joined")
    joined = admit("join", "more", coalesce_into=joined.id)
    last = admit("accept a third", "last")

    step("acquire, not first", lambda: _acquire(store, last))
    running = acquire("acquire", first)
    running = checkpoint("checkpoint", running)
    running = checkpoint("checkpoint again", running)
    step(
        "renew",
        lambda: store.renew_lease(name, first.id, owner_id="worker", fencing_token=1, lease=lease),
    )
    stopping = run_of(step("interrupt", lambda: store.request_interrupt(name, first.id)))
    queued = recover("requeue", stopping, "requeue")
    running = acquire("acquire again", queued)
    absorption = Absorption(run_id=joined.id, input_message_ids=joined.input_message_ids)
    end("end, absorbing", running, absorb=[absorption])
    step("accept again, absorbed", lambda: store.accept_input(name, f"{name}-key-joined", "?"))

    step("cancel", lambda: store.cancel_run(name, last.id))
    step("cancel, ended", lambda: store.cancel_run(name, last.id))
    step("cancel, unknown", lambda: store.cancel_run(name, f"{name}-unknown"))
    lost = acquire("acquire a lost one", admit("accept a fourth", "lost"))
    recover("abandon", lost, "abandon")
    plain = acquire("acquire a fifth", admit("accept a fifth", "plain"))
    end("end", checkpoint("checkpoint a fifth", plain))
    admit("accept a sixth", "waiting")

    step("load a run", lambda: store.load_run(name, first.id))
    step("list active runs", lambda: store.list_active_runs(name))
    step("scan recoverable runs", lambda: store.scan_recoverable(limit=1))
    page = step("load the newest page", lambda: store.load_history(name, limit=PAGE))
    older = step(
        "load an older page", lambda: store.load_history(name, limit=PAGE, before=page.before)
    )
    range_of_messages: dict[str, Any] = {
        "expected_version": older.version,
        "message_ids": [message.id for message in older.messages],
        "summary_parts": "In short.",
        "summary_id": f"{name}-summary",
    }
    step("compact", lambda: store.compact_history(name, **range_of_messages))
    waiting = store.list_active_runs(name)[0]
    step("cancel the last", lambda: store.cancel_run(name, waiting.id))


def _acquire(store: AgentStore, run: Run) -> object:
    return store.acquire_run(
        run.conversation_id, run.id, expected_revision=run.revision, owner_id="worker"
    )


def _refused(store: AgentStore, conversation_id: str, run: Run) -> object:
    try:
        return store.accept_input(
            conversation_id, f"{conversation_id}-key-refused", "?", run_id=run.id
        )
    except IdentityTakenError as refused:
        return refused
