"""Passes of retention over a store: what is past its horizon goes, in bounded transactions.

What may go is decided by the rule of `core.retention`, which a dry run asks just so. Nothing here
moves a version: a snapshot says the same before and after.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from stitchkit_django.core import reducer
from stitchkit_django.core.driver import ReadSet, WriteSet
from stitchkit_django.core.errors import (
    CorruptRecordError,
    InvalidValueError,
    StitchkitError,
    StoreUnavailableError,
    shown,
)
from stitchkit_django.core.keys import PortKeys
from stitchkit_django.core.operations import PurgeConversation
from stitchkit_django.core.outcomes import Duplicate
from stitchkit_django.core.retention import RetainedRun, kept_because
from stitchkit_django.core.wanted import wanted
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.keys import DjangoKeys
from stitchkit_django.reconnection import again, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from stitchkit_django.core.driver import Driver, Transaction
    from stitchkit_django.core.keys import Keys, Receipts, RunKey, Tie
    from stitchkit_django.core.outcomes import Applied, Conflict, NotFound, Outcome
    from stitchkit_django.core.retention import Kept
    from stitchkit_django.core.store import AgentStore

T = TypeVar("T")

BATCH_SIZE: Final = 500
KEYS_AT_ONCE: Final = 1_000
"""How many keys are read before what they name is purged: all that a pass keeps in memory."""


class RunStep(NamedTuple):
    """A step of a purge of runs: a look at more keys, or one transaction that deletes."""

    looked_at: int = 0
    runs: int = 0
    """That went; of a dry run, that would have."""
    receipts: int = 0
    kept: Mapping[Kept, int] = {}
    conversation_id: str | None = None
    """In which they went, or in which it failed."""
    error: str | None = None


class MessageStep(NamedTuple):
    """A step of a purge of archived messages: a look at more conversations, or a transaction."""

    looked_at: int = 0
    messages: int = 0
    """That went; of a dry run, that would have."""
    conversation_id: str | None = None
    error: str | None = None


def purge_runs(
    store: AgentStore,
    older_than: timedelta,
    *,
    batch_size: int = BATCH_SIZE,
    limit: int | None = None,
    dry_run: bool = False,
) -> Iterator[RunStep]:
    """Purge ended runs with their receipts: past the horizon a retry's key is new.

    A conversation that fails is told as failed, and the rest go on.

    Args:
        store: whose runs they are.
        older_than: the horizon; runs that ended longer ago go, by the database's clock.
        batch_size: how many rows a transaction deletes at the most, 2 at least: a run goes in one
            with its last receipt.
        limit: how many runs go at the most; None: all.
        dry_run: count by the same rules, and delete nothing.

    Yields:
        What each step did. The next step is taken when it is asked for.

    Raises:
        StoreUnavailableError: the database failed, and did so again; what was told is done.
    """
    driver = store.driver
    before = again(driver, partial(moment_of, driver)) - older_than
    purge = _RunPurge(driver, before, batch_size)
    left = limit
    cursor: int | None = 0
    while cursor is not None and left != 0:
        looked_at, kept, ties, cursor = purge.look(cursor)
        yield RunStep(looked_at=looked_at, kept=kept)
        for step in _would_go(ties[:left]) if dry_run else purge.steps(ties, left):
            left = None if left is None else left - step.runs
            yield step


def purge_archived(
    store: AgentStore,
    older_than: timedelta,
    *,
    batch_size: int = BATCH_SIZE,
    limit: int | None = None,
    dry_run: bool = False,
) -> Iterator[MessageStep]:
    """Purge messages that a summary has replaced, once they were archived long enough ago.

    Args:
        store: over a database of Django's.
        older_than: what was archived longer ago goes, by the database's clock.
        batch_size: how many messages a transaction deletes at the most.
        limit: how many go at the most; None: all.
        dry_run: count them, and delete nothing.

    Yields:
        What each step did. The next step is taken when it is asked for.

    Raises:
        StoreUnavailableError: the database failed, and did so again; what was told is done.
        InvalidValueError: the store is over another driver, whose ports don't tell where archived
            messages are.
    """
    driver = store.driver
    if not isinstance(driver, DjangoDriver):
        raise InvalidValueError("$.store", f"is over {shown(driver)}, not over Django's driver")
    before = again(driver, partial(moment_of, driver)) - older_than
    keys, after, left = DjangoKeys(driver.using), "", limit
    while left != 0:
        look = partial(keys.archived, before, after, KEYS_AT_ONCE)
        page = _transacted(driver, look)
        yield MessageStep(looked_at=len(page))
        for conversation_id, archived in page:
            wanted = archived if left is None else min(archived, left)
            if dry_run:
                steps = iter([MessageStep(messages=wanted, conversation_id=conversation_id)])
            else:
                steps = _forgotten(driver, conversation_id, before, wanted, batch_size)
            for step in steps if wanted else ():
                left = None if left is None else left - step.messages
                yield step
        if len(page) < KEYS_AT_ONCE:
            return
        after = page[-1][0]


def purge_conversation(
    store: AgentStore,
    conversation_id: str,
    *,
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Applied | Conflict | NotFound:
    """Purge a conversation as the store does; of a dry run, tell what it would answer.

    Raises:
        ConversationPurgedError: it was purged before.
    """
    if not dry_run:
        return store.purge_conversation(conversation_id, expected_version=expected_version)
    request = PurgeConversation(conversation_id=conversation_id, expected_version=expected_version)

    def work(transaction: Transaction) -> Outcome:
        decision = reducer.decide(transaction.read(wanted(request)), request)
        return reducer.applied(decision) if isinstance(decision, WriteSet) else decision

    outcome = store.driver.transaction(work)
    assert not isinstance(outcome, Duplicate)  # noqa: S101 - only an admission has a key
    return outcome


# ---------------------------------------------------------------- runs


class _RunPurge:
    """What the steps of one purge have in common."""

    def __init__(self, driver: Driver, before: datetime, batch_size: int) -> None:
        self._driver = driver
        self._before = before
        self._batch_size = batch_size
        self._keys: Keys = (
            DjangoKeys(driver.using) if isinstance(driver, DjangoDriver) else PortKeys(driver)
        )

    def look(self, cursor: int) -> tuple[int, Mapping[Kept, int], Sequence[Tie], int | None]:
        """Read a page of keys, and what holds those that are old enough.

        Returns:
            How many runs there were, how many stay and why, those that may go, and the next cursor.
        """
        page = _transacted(self._driver, partial(self._keys.runs, cursor, KEYS_AT_ONCE))
        causes = {
            run: kept_because(
                RetainedRun(created_at=run.created_at, ended_at=run.ended_at), self._before
            )
            for run in page.runs
        }
        old = [run for run, cause in causes.items() if cause is None]
        ties = _transacted(self._driver, partial(self._keys.ties, old)) if old else ()
        held = {tie.run: kept_because(tie.facts, self._before) for tie in ties}
        kept = Counter(cause for cause in (causes | held).values() if cause is not None)
        going = [tie for tie in ties if held[tie.run] is None]
        return len(page.runs), kept, going, page.next_cursor

    def steps(self, ties: Sequence[Tie], limit: int | None) -> Iterator[RunStep]:
        """Purge runs, conversation by conversation."""
        by_conversation = attrgetter("run.conversation_id")
        left = limit
        for conversation_id, some in groupby(sorted(ties, key=by_conversation), by_conversation):
            for step in self._conversation(conversation_id, list(some), left):
                left = None if left is None else left - step.runs
                yield step

    def _conversation(
        self, conversation_id: str, ties: Sequence[Tie], limit: int | None
    ) -> Iterator[RunStep]:
        # What was absorbed goes first: its receipts lead to the run that answers for it.
        runs = {run.run_id: run for tie in ties for run in (*tie.absorbed, tie.run)}
        rest = list(runs.values())[:limit]
        while rest:
            work = partial(self._forget, conversation_id=conversation_id, runs=rest)
            try:
                step, rest = again(self._driver, partial(self._driver.transaction, work))
            except StitchkitError as error:
                yield RunStep(conversation_id=conversation_id, error=_told(self._driver, error))
                return
            yield step

    def _forget(
        self, transaction: Transaction, conversation_id: str, runs: Sequence[RunKey]
    ) -> tuple[RunStep, list[RunKey]]:
        _lock(transaction, conversation_id)
        some, rest = runs[: self._batch_size], runs[self._batch_size :]
        there = self._keys.receipts(some)
        whole = _fitting(there, self._batch_size)
        if whole or not there:
            self._keys.delete(transaction, whole)
            gone, receipts = len(whole), sum(one.number for one in whole.values())
        else:
            gone, receipts = self._forget_part(transaction, *next(iter(there.items())))
            whole = dict(list(there.items())[:gone])
        step = RunStep(runs=gone, receipts=receipts, conversation_id=conversation_id)
        return step, [*(run for run in there if run not in whole), *rest]

    def _forget_part(
        self, transaction: Transaction, run: RunKey, receipts: Receipts
    ) -> tuple[int, int]:
        limit = max(1, self._batch_size - 1)
        transaction.forget(run.conversation_id, run.run_id, limit=limit)
        # With its last receipt the run has gone, too.
        return int(receipts.number <= limit), min(receipts.number, limit)


def _would_go(ties: Sequence[Tie]) -> Iterator[RunStep]:
    yield RunStep(runs=len(ties), receipts=sum(tie.receipts for tie in ties))


def _fitting(runs: Mapping[RunKey, Receipts], batch_size: int) -> dict[RunKey, Receipts]:
    """Give the first of the runs that go with all their receipts in one batch."""
    fitting: dict[RunKey, Receipts] = {}
    left = batch_size
    for run, receipts in runs.items():
        left -= receipts.number + 1
        if left < 0:
            break
        fitting[run] = receipts
    return fitting


# ---------------------------------------------------------------- messages


def _forgotten(
    driver: DjangoDriver, conversation_id: str, before: datetime, wanted: int, batch_size: int
) -> Iterator[MessageStep]:
    while wanted > 0:
        limit = min(wanted, batch_size)

        def work(transaction: Transaction, limit: int = limit) -> int:
            return transaction.forget_archived(conversation_id, before, limit=limit)

        try:
            gone = again(driver, partial(driver.transaction, work))
        except StitchkitError as error:
            yield MessageStep(conversation_id=conversation_id, error=_told(driver, error))
            return
        yield MessageStep(messages=gone, conversation_id=conversation_id)
        wanted = wanted - gone if gone == limit else 0


# ---------------------------------------------------------------- both


def _transacted(driver: Driver, read: Callable[[], T]) -> T:
    # A read in a transaction of its own: what the driver does about failures holds for it, too.
    return again(driver, partial(driver.transaction, lambda _: read()))


def _lock(transaction: Transaction, conversation_id: str) -> None:
    facts = transaction.read(ReadSet(conversation_id=conversation_id))
    if facts.head is None:
        row = f"conversation {shown(conversation_id)}"
        raise CorruptRecordError(row, "it has runs and no head, whose lock a purge needs")


def _told(driver: Driver, error: StitchkitError) -> str:
    if isinstance(error, StoreUnavailableError):
        # Raises where the database is gone: then the pass ends, and no conversation is blamed.
        moment_of(driver)
    return f"{type(error).__name__}: {error}"
