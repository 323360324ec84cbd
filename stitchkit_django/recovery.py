"""A pass of recovery over a store: what a policy decides of each active run is carried out.

It decides nothing itself, needs no worker, and may run at any time and beside itself: each run is
judged as it was read, and written only if it is still so. What loses that race is left alone.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from stitchkit_django.core.checked import Record
from stitchkit_django.core.driver import ReadSet
from stitchkit_django.core.errors import (
    ConversationPurgedError,
    CorruptRecordError,
    ReplayNotSafeError,
    StitchkitError,
    StoreUnavailableError,
    UnsupportedSchemaVersionError,
    shown,
)
from stitchkit_django.core.lifecycle import RecoveryAction, RunState
from stitchkit_django.core.outcomes import Applied, Conflict, ConflictReason, NotFound
from stitchkit_django.core.paging import DEFAULT_LIMIT, check_limit
from stitchkit_django.core.records import Run, is_lapsed
from stitchkit_django.core.recovery import Abandon, Decision, Dispatch, Requeue, Skip
from stitchkit_django.reconnection import again, moment_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from stitchkit_django.core.driver import Dispatcher
    from stitchkit_django.core.recovery import Policy
    from stitchkit_django.core.store import AgentStore

logger = logging.getLogger("stitchkit_django.recovery")

NO_DISPATCHER: Final = "it waits for a worker, and no dispatcher is configured"
NOT_FIRST: Final = "it is not the first of its queue"
RENEWED: Final = "its lease was renewed meanwhile"


class Result(StrEnum):
    """What became of a run in a pass."""

    DISPATCHED = "dispatched"
    REQUEUED = "requeued"
    ABANDONED = "abandoned"
    REPORTED = "reported"
    """It is the first of its queue, and there is no dispatcher to tell."""
    SKIPPED = "skipped"
    FAILED = "failed"


ACTED: Final = frozenset(Result) - {Result.SKIPPED, Result.FAILED}
"""What counts towards a pass's limit."""


class RunOutcome(Record, frozen=True, kw_only=True):
    """What became of one run; of a dry run, what would have."""

    result: Result
    run: Run | None = None
    """As it was judged; None: its row can't be read."""
    row: str
    """Which run, as `run id in conversation id`."""
    decision: Decision | None = None
    """The policy's; None: it came to none."""
    detail: str | None = None
    """Why it was skipped, reported or abandoned, or how it failed."""


def recover(  # noqa: PLR0913 - what a pass can be told
    store: AgentStore,
    policy: Policy,
    *,
    dispatcher: Dispatcher | None = None,
    page_size: int = DEFAULT_LIMIT,
    limit: int | None = None,
    conversation_id: str | None = None,
    dry_run: bool = False,
) -> Iterator[RunOutcome]:
    """Recover every active run once, in the order of admission, so each queue from its head.

    A run that fails is told as failed, and the rest go on. Nothing is read ahead of what the
    caller has taken but a page.

    Args:
        store: whose runs they are.
        policy: decides about each run, by the database's clock.
        dispatcher: is handed the queued runs that the policy dispatches; None: they are reported.
        page_size: how many runs are read at once, 1 to 1,000.
        limit: how many runs are acted on at the most; None: all. What is skipped or fails doesn't
            count, so it keeps nothing behind it from its turn.
        conversation_id: of the only conversation to recover; None: all.
        dry_run: decide all, and neither write nor dispatch.

    Yields:
        One outcome a run.

    Raises:
        InvalidValueError: the page size is not one of a scan.
        InvalidIdentifierError: the conversation's id breaks the rule.
        StoreUnavailableError: the database failed, and did so again; what was told is done.
    """
    check_limit(page_size)
    pages = _scanned(store, page_size) if conversation_id is None else _one(store, conversation_id)
    acted = 0
    for page in pages:
        if isinstance(page, RunOutcome):
            yield page
            continue
        moment, runs = page
        settling = _Page(store, policy, moment, dispatcher, dry_run=dry_run)
        for run in runs:
            if acted == limit:
                return
            outcome = settling.settle(run)
            acted += outcome.result in ACTED
            yield outcome


# ---------------------------------------------------------------- reading

_Runs = tuple["datetime", tuple[Run, ...]]


def _scanned(store: AgentStore, page_size: int) -> Iterator[_Runs | RunOutcome]:
    cursor: str | None = None
    while True:
        try:
            read = partial(store.scan_recoverable, cursor=cursor, limit=page_size)
            page = again(store.driver, read)
        except (CorruptRecordError, UnsupportedSchemaVersionError) as error:
            yield _unreadable(error)
            cursor = error.next_cursor
            continue
        yield page.moment, page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _one(store: AgentStore, conversation_id: str) -> Iterator[_Runs | RunOutcome]:
    # The moment first: by one from after the read, a lease could have lapsed that was renewed.
    moment = again(store.driver, partial(moment_of, store.driver))
    try:
        runs = again(store.driver, lambda: store.list_active_runs(conversation_id))
    except (CorruptRecordError, UnsupportedSchemaVersionError) as error:
        yield _unreadable(error)
        return
    yield moment, runs


def _unreadable(error: CorruptRecordError | UnsupportedSchemaVersionError) -> RunOutcome:
    return RunOutcome(result=Result.FAILED, row=error.row, detail=str(error))


# ---------------------------------------------------------------- carrying out


class _Page:
    """Runs that were read at one moment, settled one by one in their order."""

    def __init__(
        self,
        store: AgentStore,
        policy: Policy,
        moment: datetime,
        dispatcher: Dispatcher | None,
        *,
        dry_run: bool,
    ) -> None:
        self._store = store
        self._driver = store.driver
        self._policy = policy
        self._moment = moment
        self._dispatcher = dispatcher
        self._dry_run = dry_run
        # Conversations in which a run ahead of those still to come is known to stay: they need no
        # look of their own, so a long queue costs no more than its first two.
        self._led: set[str] = set()
        # What a dry run would have abandoned.
        self._gone: set[tuple[str, str | None]] = set()

    def settle(self, run: Run) -> RunOutcome:
        """Decide about a run and carry it out; whatever fails is told in the outcome."""
        decision: Decision | None = None
        try:
            decision = self._policy(run, self._moment)
            result, detail = self._carried_out(run, decision)
        except Exception as error:  # noqa: BLE001 - one run that fails hides no other
            result, detail = Result.FAILED, self._failure(run, error)
        if self._dry_run and result is not Result.ABANDONED:
            self._led.add(run.conversation_id)
        return RunOutcome(result=result, run=run, row=_row(run), decision=decision, detail=detail)

    def _failure(self, run: Run, error: Exception) -> str:
        if isinstance(error, StoreUnavailableError):
            # Raises where the database is gone: then the pass ends, and no run is blamed.
            moment_of(self._driver)
        if not isinstance(error, StitchkitError):
            # The project's own: a policy or a dispatcher, whose author wants to see where.
            logger.error(
                "recovery of %s failed",
                _row(run),
                exc_info=error,
                extra={"conversation_id": run.conversation_id, "run_id": run.id},
            )
        return f"{type(error).__name__}: {error}"

    def _carried_out(self, run: Run, decision: Decision) -> tuple[Result, str | None]:
        match decision:
            case Skip():
                return Result.SKIPPED, decision.reason
            case Dispatch():
                return self._dispatched(run)
            case Requeue() | Abandon():
                return self._recovered(run, decision)
            case _:
                # A policy is the project's own code, which no type checker may have seen.
                msg = f"the policy answered {shown(decision)}, which is no decision"
                raise TypeError(msg)

    def _dispatched(self, run: Run) -> tuple[Result, str | None]:
        in_the_way = self._in_the_way(run)
        if in_the_way is not None:
            return Result.SKIPPED, in_the_way
        if self._dispatcher is None:
            return Result.REPORTED, NO_DISPATCHER
        if not self._dry_run:
            self._dispatcher(run.conversation_id, run.id)
        return Result.DISPATCHED, None

    def _in_the_way(self, run: Run) -> str | None:
        if run.conversation_id in self._led:
            return NOT_FIRST
        wanted = ReadSet(conversation_id=run.conversation_id, run_id=run.id, first_active=True)
        facts = again(
            self._driver, lambda: self._driver.transaction(lambda current: current.read(wanted))
        )
        if facts.run is None or facts.run.state is not RunState.QUEUED:
            return "it is not queued"
        first = facts.first_active_id
        if first == run.id or (run.conversation_id, first) in self._gone:
            return None
        self._led.add(run.conversation_id)
        return NOT_FIRST

    def _recovered(self, run: Run, decision: Requeue | Abandon) -> tuple[Result, str | None]:
        detail = decision.detail if isinstance(decision, Abandon) else None
        result = Result.REQUEUED if isinstance(decision, Requeue) else Result.ABANDONED
        if self._dry_run:
            if isinstance(decision, Requeue) and run.is_acquired and not decision.replay_safe:
                raise ReplayNotSafeError(run.id)
            if result is Result.ABANDONED:
                self._gone.add((run.conversation_id, run.id))
            return result, detail
        lapsed = is_lapsed(run, self._moment)
        if run.is_acquired and not lapsed and self._lease_moved(run):
            # Its revision is the same, so the write itself would not notice.
            return Result.SKIPPED, RENEWED
        try:
            outcome = again(self._driver, lambda: self._write(run, decision, lapsed=lapsed))
        except ConversationPurgedError:
            return Result.SKIPPED, "its conversation was purged meanwhile"
        return (
            (result, detail) if isinstance(outcome, Applied) else (Result.SKIPPED, _lost(outcome))
        )

    def _lease_moved(self, run: Run) -> bool:
        view = self._store.load_run(run.conversation_id, run.id)
        return view is not None and view.run.lease_expires_at != run.lease_expires_at

    def _write(
        self, run: Run, decision: Requeue | Abandon, *, lapsed: bool
    ) -> Applied | Conflict | NotFound:
        write = partial(
            self._store.recover_run,
            run.conversation_id,
            run.id,
            expected_revision=run.revision,
            require_expired_lease=lapsed,
        )
        if isinstance(decision, Requeue):
            return write(action=RecoveryAction.REQUEUE, replay_safe=decision.replay_safe)
        return write(action=RecoveryAction.ABANDON, detail=decision.detail)


def _row(run: Run) -> str:
    return f"run {shown(run.id)} in conversation {shown(run.conversation_id)}"


def _lost(outcome: Conflict | NotFound) -> str:
    if isinstance(outcome, NotFound):
        return "it is gone"
    return RENEWED if outcome.reason is ConflictReason.LEASE else "it was written meanwhile"
