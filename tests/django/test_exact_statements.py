"""How many statements each step of the walk sends, exactly; what is promised is less strict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from stitchkit_django import get_store
from stitchkit_django.core import Applied, Conflict
from tests.django.hooks import counted
from tests.django.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from stitchkit_django.core import AgentStore


class Sent(NamedTuple):
    """Statements, those that control a transaction not counted."""

    sqlite: int
    postgres: int
    """Fewer where something is written: all that can be goes as one statement."""

    def on(self, alias: str) -> int:
        """Give the number of one database."""
        return self.sqlite if alias == "default" else self.postgres


EXACTLY: Final = {
    "accept": Sent(sqlite=6, postgres=3),
    "accept again": Sent(sqlite=3, postgres=3),
    "accept, an id taken": Sent(sqlite=2, postgres=2),
    "accept another": Sent(sqlite=6, postgres=3),
    "join": Sent(sqlite=6, postgres=3),
    "accept a third": Sent(sqlite=6, postgres=3),
    "acquire, not first": Sent(sqlite=2, postgres=2),
    "acquire": Sent(sqlite=4, postgres=3),
    "checkpoint": Sent(sqlite=5, postgres=3),
    "checkpoint again": Sent(sqlite=5, postgres=3),
    "renew": Sent(sqlite=2, postgres=2),
    "interrupt": Sent(sqlite=4, postgres=3),
    "requeue": Sent(sqlite=4, postgres=3),
    "acquire again": Sent(sqlite=4, postgres=3),
    "end, absorbing": Sent(sqlite=10, postgres=7),
    "accept again, absorbed": Sent(sqlite=4, postgres=4),
    "cancel": Sent(sqlite=5, postgres=3),
    "cancel, ended": Sent(sqlite=2, postgres=2),
    "cancel, unknown": Sent(sqlite=2, postgres=2),
    "accept a fourth": Sent(sqlite=6, postgres=3),
    "acquire a lost one": Sent(sqlite=4, postgres=3),
    "abandon": Sent(sqlite=5, postgres=3),
    "accept a fifth": Sent(sqlite=6, postgres=3),
    "acquire a fifth": Sent(sqlite=4, postgres=3),
    "checkpoint a fifth": Sent(sqlite=5, postgres=3),
    "end": Sent(sqlite=5, postgres=3),
    "accept a sixth": Sent(sqlite=6, postgres=3),
    "load a run": Sent(sqlite=1, postgres=1),
    "list active runs": Sent(sqlite=1, postgres=1),
    "scan recoverable runs": Sent(sqlite=1, postgres=1),
    "load the newest page": Sent(sqlite=1, postgres=1),
    "load an older page": Sent(sqlite=1, postgres=1),
    "compact": Sent(sqlite=7, postgres=7),
    "cancel the last": Sent(sqlite=5, postgres=3),
}


def counts(store: AgentStore, alias: str) -> dict[str, int]:
    found: dict[str, int] = {}

    def step(name: str, act: Callable[[], Any]) -> Any:
        with counted(alias) as sent:
            outcome = act()
        found[name] = len(sent)
        return outcome

    walk(store, "c", step)
    return found


@pytest.fixture
def store(alias: str) -> AgentStore:
    """Give a store with one conversation of four messages."""
    found = get_store(alias)
    for key in ("k1", "k2"):
        found.accept_input("c", key, "?", run_id=f"r-{key}")
        found.cancel_run("c", f"r-{key}")
    return found


def test_each_step_sends_exactly_so_many_statements(alias: str, store: AgentStore) -> None:
    found = counts(store, alias)

    assert found == {name: sent.on(alias) for name, sent in EXACTLY.items()}


def test_an_admission_that_makes_the_head_sends_exactly_so_many(alias: str) -> None:
    with counted(alias) as sent:
        outcome = get_store(alias).accept_input("new", "k", "?")

    assert isinstance(outcome, Applied)
    assert len(sent) == Sent(sqlite=7, postgres=4).on(alias)


def test_an_admission_that_is_refused_on_a_new_conversation_sends_exactly_so_many(
    alias: str,
) -> None:
    with counted(alias) as sent:
        outcome = get_store(alias).accept_input("new", "k", "?", expected_version=3)

    assert isinstance(outcome, Conflict)
    # The lock, the head that is taken back, the facts.
    assert len(sent) == 3


def test_a_purge_sends_exactly_so_many(alias: str, store: AgentStore) -> None:
    with counted(alias) as sent:
        outcome = store.purge_conversation("c")

    assert isinstance(outcome, Applied)
    # The lock, the facts, the head, and what is deleted of three tables.
    assert len(sent) == 6
