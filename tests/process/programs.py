"""What the processes of the tests do; nothing here runs in the test's own process.

Each says on a line of its own what it has come to, and goes on when it is told to.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, transaction

from stitchkit_django import get_store
from stitchkit_django.core import TextPart, ToolCallPart
from tests.core.steps import acquire, checkpoint, view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stitchkit_django.core import AgentStore

CALL: Final = ToolCallPart(call_id="call-1", tool_name="search", input={"q": "capital"})


def say(words: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def wait_to_be_told() -> None:
    """Wait for the test, which may end this process instead."""
    sys.stdin.readline()


def admit_many(using: str, name: str, count: str) -> None:
    """Admit so many inputs, and say what came of them, and at which versions."""
    store = get_store(using)
    store.load_snapshot("c")
    say("ready")
    wait_to_be_told()
    outcomes = [store.accept_input("c", f"{name}-{one}", "Hello?") for one in range(int(count))]
    versions = [getattr(outcome, "version", None) for outcome in outcomes]
    say(json.dumps([versions, Counter(outcome.outcome for outcome in outcomes)]))


def work(using: str) -> None:
    """Take run `r1`, answer in part, and go no further."""
    _begin(get_store(using))
    say("working")
    wait_to_be_told()


def work_uncommitted(using: str) -> None:
    """Take run `r1`, answer in part, and go no further, with all of it in one transaction."""
    with transaction.atomic(using=using):
        _begin(get_store(using))
        say("working")
        wait_to_be_told()


def admit_unanswered(using: str) -> None:
    """Admit an input, and go no further than its commit: the caller never hears of it."""

    def stop() -> None:
        say("committed")
        wait_to_be_told()

    def hook(execute: Callable[..., object], *call: Any) -> object:
        connection = connections[using]
        if connection.in_atomic_block and not connection.run_on_commit:
            transaction.on_commit(stop, using=using)
        return execute(*call)

    with connections[using].execute_wrapper(hook):
        get_store(using).accept_input("c", "key", "Hello?")
    say("returned")


def _begin(store: AgentStore) -> None:
    # The lease has lapsed at once, so that no test waits for it.
    run = acquire(store, view(store).run, lease=timedelta(microseconds=1))
    checkpoint(store, run, [TextPart(text="So far"), CALL])


PROGRAMS: Final[Mapping[str, Callable[..., None]]] = {
    "admit_many": admit_many,
    "work": work,
    "work_uncommitted": work_uncommitted,
    "admit_unanswered": admit_unanswered,
}
