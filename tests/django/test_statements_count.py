"""An operation takes few statements, and always the same number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stitchkit_django import get_store
from tests.django.hooks import counted
from tests.django.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

# What each step of the walk takes at the most, whatever the database.
MOST = {
    "accept": 6,
    "accept again": 6,
    "accept, an id taken": 6,
    "accept another": 6,
    "join": 6,
    "accept a third": 6,
    "acquire, not first": 4,
    "acquire": 4,
    "checkpoint": 5,
    "checkpoint again": 5,
    "renew": 2,
    "interrupt": 4,
    "requeue": 5,
    "acquire again": 4,
    "accept again, absorbed": 6,
    "cancel": 5,
    "cancel, ended": 5,
    "cancel, unknown": 5,
    "accept a fourth": 6,
    "acquire a lost one": 4,
    "abandon": 5,
    "accept a fifth": 6,
    "acquire a fifth": 4,
    "checkpoint a fifth": 5,
    "end": 5,
    "accept a sixth": 6,
    "load a run": 1,
    "list active runs": 1,
    "scan recoverable runs": 1,
    "load the newest page": 1,
    "load an older page": 1,
    "cancel the last": 5,
}


def counts(alias: str) -> dict[str, int]:
    """Count the statements of each step of the walk."""
    found: dict[str, int] = {}

    def step(name: str, act: Callable[[], Any]) -> Any:
        with counted(alias) as sent:
            outcome = act()
        found[name] = len(sent)
        return outcome

    walk(get_store(alias), "c", step)
    return found


def begin(alias: str) -> None:
    """Make a conversation of four messages."""
    store = get_store(alias)
    for key in ("k1", "k2"):
        store.accept_input("c", key, "?", run_id=f"r-{key}")
        store.cancel_run("c", f"r-{key}")


def test_an_operation_takes_few_statements(alias: str) -> None:
    begin(alias)

    found = counts(alias)

    assert found.keys() >= MOST.keys()
    over = {name: found[name] for name, most in MOST.items() if found[name] > most}
    assert over == {}


def test_a_whole_write_is_one_statement_on_postgresql(postgres_alias: str) -> None:
    begin(postgres_alias)

    found = counts(postgres_alias)

    # Lock, read, write.
    three = ("accept", "join", "acquire", "checkpoint", "checkpoint again", "interrupt", "requeue")
    assert {found[name] for name in (*three, "cancel", "abandon", "end")} == {3}
    # Lock and read.
    assert {found[name] for name in ("acquire, not first", "cancel, ended")} == {2}


def test_the_first_input_of_a_conversation_takes_one_statement_more(alias: str) -> None:
    store = get_store(alias)

    with counted(alias) as first:
        store.accept_input("c", "k1", "?")
    with counted(alias) as second:
        store.accept_input("c", "k2", "?")

    assert len(first) == len(second) + 1 <= 7


def test_a_conversation_is_read_whole_in_one_statement(alias: str) -> None:
    begin(alias)

    with counted(alias) as sent:
        get_store(alias).load_snapshot("c")

    assert len(sent) == 1


def test_an_operation_on_an_unknown_conversation_takes_one_statement(alias: str) -> None:
    with counted(alias) as sent:
        get_store(alias).cancel_run("nowhere", "r")

    assert len(sent) == 1
