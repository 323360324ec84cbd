"""A mutation locks the head before it reads anything; only an admission makes one."""

from __future__ import annotations

import re
import unittest
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction
from django.test import TestCase

from stitchkit_django import get_store
from stitchkit_django.core import Applied, Conflict, ConflictReason, IdentityTakenError, NotFound
from stitchkit_django.models import Conversation
from tests.django.hooks import counted, tables
from tests.django.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from stitchkit_django.core import AgentStore

HEAD = Conversation._meta.db_table
BESIDE_THE_HEAD = "renew"
READS = {
    "load a run",
    "list active runs",
    "scan recoverable runs",
    "load the newest page",
    "load an older page",
}


@pytest.fixture
def store(alias: str) -> AgentStore:
    """Give a store with one conversation of four messages."""
    return with_messages(alias)


def with_messages(alias: str) -> AgentStore:
    found = get_store(alias)
    for key in ("k1", "k2"):
        found.accept_input("c", key, "Hello?", run_id=f"r-{key}")
        found.cancel_run("c", f"r-{key}")
    return found


def sent_by_each(alias: str, store: AgentStore) -> dict[str, list[str]]:
    """Give the statements of each step of the walk."""
    found: dict[str, list[str]] = {}

    def step(name: str, act: Callable[[], Any]) -> Any:
        with counted(alias) as sent:
            outcome = act()
        found[name] = list(sent)
        return outcome

    walk(store, "c", step)
    return found


@contextmanager
def ends(alias: str) -> Iterator[list[str]]:
    """Give how the transactions of a connection end, and the savepoints that are made in them."""
    connection: Any = connections[alias]
    found: list[str] = []

    def told(how: str, act: Callable[[], None]) -> Callable[[], None]:
        def end() -> None:
            found.append(how)
            act()

        return end

    def savepoint(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith("SAVEPOINT"):
            found.append("savepoint")
        return execute(sql, *rest)

    with pytest.MonkeyPatch.context() as patch, connection.execute_wrapper(savepoint):
        patch.setattr(connection, "_commit", told("commit", connection._commit))  # noqa: SLF001
        patch.setattr(connection, "_rollback", told("rollback", connection._rollback))  # noqa: SLF001
        yield found


# ---------------------------------------------------------------- the lock comes first


def test_on_postgresql_the_first_statement_of_a_mutation_locks_the_head(
    postgres_alias: str,
) -> None:
    sent = sent_by_each(postgres_alias, with_messages(postgres_alias))

    locks = re.compile(rf'SELECT [^(]* FROM "{HEAD}" WHERE [^(]* FOR NO KEY UPDATE')
    mutations = sent.keys() - READS - {BESIDE_THE_HEAD}
    assert len(mutations) >= 20
    for name in mutations:
        assert locks.fullmatch(sent[name][0]), name
        assert "JOIN" not in sent[name][0]
        assert not any("FOR NO KEY UPDATE" in statement for statement in sent[name][1:])


def test_on_sqlite_the_first_statement_of_a_mutation_takes_the_writers_place(
    sqlite_alias: str,
) -> None:
    sent = sent_by_each(sqlite_alias, with_messages(sqlite_alias))

    mutations = sent.keys() - READS - {BESIDE_THE_HEAD}
    assert len(mutations) >= 20
    for name in mutations:
        assert sent[name][0].startswith(f'UPDATE "{HEAD}"'), name
        assert "RETURNING" in sent[name][0]


def test_a_purge_locks_the_head_first_too(alias: str, store: AgentStore) -> None:
    with counted(alias) as sent:
        store.purge_conversation("c")

    assert HEAD in sent[0]
    assert re.search("FOR NO KEY UPDATE|RETURNING", sent[0])


def test_a_renewal_and_a_read_lock_nothing(alias: str, store: AgentStore) -> None:
    sent = sent_by_each(alias, store)

    for name in READS | {BESIDE_THE_HEAD}:
        assert not any("FOR NO KEY" in statement for statement in sent[name])
        assert not any(re.match(f'(UPDATE|INSERT INTO) "{HEAD}"', one) for one in sent[name])


def test_a_mutation_that_is_applied_raises_the_version_by_one(
    alias: str, store: AgentStore
) -> None:
    def version() -> int:
        return Conversation.objects.using(alias).get(conversation_id="c").version

    def step(name: str, act: Callable[[], Any]) -> Any:
        before = version()
        outcome = act()
        moved = isinstance(outcome, Applied) and name != BESIDE_THE_HEAD
        assert version() == before + moved, name
        if isinstance(outcome, Applied):
            assert outcome.version == version(), name
        return outcome

    walk(store, "c", step)


# ---------------------------------------------------------------- who makes a head

ON_AN_UNKNOWN_CONVERSATION: dict[str, Callable[[AgentStore], object]] = {
    "acquire": lambda store: store.acquire_run("new", "r", expected_revision=0, owner_id="w"),
    "checkpoint": lambda store: store.checkpoint_run(
        "new", "r", expected_revision=1, owner_id="w", parts="…"
    ),
    "renew": lambda store: store.renew_lease("new", "r", owner_id="w", fencing_token=1),
    "interrupt": lambda store: store.request_interrupt("new", "r"),
    "cancel": lambda store: store.cancel_run("new", "r"),
    "recover": lambda store: store.recover_run("new", "r", expected_revision=0, action="abandon"),
    "end": lambda store: store.commit_terminal(
        "new", "r", expected_revision=1, owner_id="w", parts="!", reason="success"
    ),
    "compact": lambda store: store.compact_history(
        "new", expected_version=0, message_ids=["m"], summary_parts="In short."
    ),
    "purge": lambda store: store.purge_conversation("new"),
    "join": lambda store: store.accept_input("new", "k", "?", coalesce_into="r"),
}


@pytest.mark.parametrize(
    "act", [pytest.param(act, id=name) for name, act in ON_AN_UNKNOWN_CONVERSATION.items()]
)
def test_only_an_admission_makes_a_head(alias: str, act: Callable[[AgentStore], object]) -> None:
    outcome = act(get_store(alias))

    assert isinstance(outcome, NotFound)
    assert not any(tables(alias).values())


def test_an_admission_that_expected_another_version_makes_no_head(alias: str) -> None:
    outcome = get_store(alias).accept_input("new", "k", "?", expected_version=3)

    assert isinstance(outcome, Conflict)
    assert (outcome.reason, outcome.version) == (ConflictReason.VERSION, 0)
    assert not any(tables(alias).values())


def test_an_admission_to_nothing_that_was_expected_to_be_nothing_is_applied(alias: str) -> None:
    outcome = get_store(alias).accept_input("new", "k", "?", expected_version=0)

    assert isinstance(outcome, Applied)
    assert outcome.version == 1


def test_an_admission_that_is_refused_inside_a_callers_transaction_makes_no_head(
    alias: str,
) -> None:
    store = get_store(alias)

    with transaction.atomic(using=alias):
        store.accept_input("before", "k", "?")
        assert isinstance(store.accept_input("new", "k", "?", expected_version=3), Conflict)
        assert isinstance(store.accept_input("new", "k", "?", coalesce_into="r"), NotFound)
        store.accept_input("after", "k", "?")

    heads = Conversation.objects.using(alias).values_list("conversation_id", flat=True)
    assert set(heads) == {"before", "after"}


def test_an_admission_whose_ids_are_not_distinct_sends_nothing(alias: str) -> None:
    with counted(alias) as sent, pytest.raises(IdentityTakenError):
        get_store(alias).accept_input("new", "k", "?", run_id="r", input_message_id="r")

    assert sent == []


# ---------------------------------------------------------------- how a transaction ends


def test_a_mutation_is_one_transaction_without_a_savepoint(alias: str, store: AgentStore) -> None:
    found: dict[str, list[str]] = {}

    def step(name: str, act: Callable[[], Any]) -> Any:
        with ends(alias) as how:
            outcome = act()
        found[name] = list(how)
        return outcome

    walk(store, "c", step)

    # A conflict, a duplicate and what is not found, too: a rollback would cost PostgreSQL the
    # statements that it has prepared. What raises is rolled back; a read has no transaction.
    raised = "accept, an id taken"
    assert found.pop(raised) == ["rollback"]
    assert [found.pop(name) for name in READS] == [[]] * len(READS)
    assert found.pop(BESIDE_THE_HEAD) == []
    assert {name: how for name, how in found.items() if how != ["commit"]} == {}


def test_a_head_made_in_vain_is_rolled_back(alias: str) -> None:
    with ends(alias) as how:
        get_store(alias).accept_input("new", "k", "?", expected_version=3)

    assert how == ["rollback"]


def test_inside_a_callers_transaction_a_mutation_is_a_savepoint(
    alias: str, store: AgentStore
) -> None:
    with transaction.atomic(using=alias), ends(alias) as how:
        store.accept_input("c", "k3", "?")

    assert how == ["savepoint"]


# ---------------------------------------------------------------- whose transaction it is

CALLERS: dict[str, Callable[[str], AbstractContextManager[object]]] = {
    "autocommit": lambda _alias: nullcontext(),
    "atomic": transaction.atomic,
    "durable": partial(transaction.atomic, durable=True),
}


def act_and_purge(store: AgentStore) -> None:
    walk(store, "c", lambda _name, act: act())
    assert isinstance(store.purge_conversation("c"), Applied)


@pytest.mark.parametrize("opened", [pytest.param(act, id=name) for name, act in CALLERS.items()])
def test_every_operation_works_in_a_callers_transaction_and_without_one(
    alias: str, store: AgentStore, opened: Callable[[str], AbstractContextManager[object]]
) -> None:
    with opened(alias):
        act_and_purge(store)

    (head,) = Conversation.objects.using(alias).all()
    assert head.purged_at is not None


def test_every_operation_works_in_a_test_case_of_django_which_takes_it_back(alias: str) -> None:
    class Inside(TestCase):
        databases = {alias}

        def test_walk(self) -> None:
            act_and_purge(with_messages(alias))

    result = unittest.TestResult()
    unittest.TestSuite([Inside("test_walk")]).run(result)

    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
    assert not any(tables(alias).values())
