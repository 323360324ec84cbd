"""How retention sees runs: by their keys and what holds them, never by a body.

`PortKeys` reads all that from the ports of any driver, which is right for each and quick for none.
A driver of large tables brings its own.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from stitchkit_django.core.retention import RetainedRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stitchkit_django.core.driver import (
        ConversationRows,
        Driver,
        KeyedRun,
        Transaction,
    )

# What has ended at all has ended before it.
_END_OF_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)


class RunKey(NamedTuple):
    """A run, by all that names it."""

    key: int | None
    """The surrogate one, which no later run gets again; None where the ports don't tell it."""
    conversation_id: str
    run_id: str
    created_at: datetime
    ended_at: datetime | None


class KeyPage(NamedTuple):
    """Runs of all conversations by surrogate key."""

    runs: tuple[RunKey, ...]
    next_cursor: int | None
    """Where the next page begins; None: there is none."""


class Receipts(NamedTuple):
    """The receipts of one run."""

    number: int
    first: int | None = None
    """The surrogate key of the first one; None where the ports don't tell it."""


class Tie(NamedTuple):
    """A run with what the rule asks of it."""

    run: RunKey
    facts: RetainedRun
    receipts: int
    """How many."""
    absorbed: tuple[RunKey, ...] = ()
    """Those that it absorbed and that are there; they must go before it."""


class Keys(Protocol):
    """What retention asks of a driver's rows; each call inside a transaction of that driver."""

    def runs(self, cursor: int, limit: int) -> KeyPage:
        """Read `limit` runs, active ones too, whose key is over the cursor."""
        ...

    def ties(self, runs: Sequence[RunKey]) -> Sequence[Tie]:
        """Read what holds these runs; one that is gone is left out."""
        ...

    def receipts(self, runs: Sequence[RunKey]) -> Mapping[RunKey, Receipts]:
        """Find the receipts of those of one conversation's runs that are there."""
        ...

    def delete(self, transaction: Transaction, runs: Mapping[RunKey, Receipts]) -> None:
        """Delete ended runs of one conversation, whose head is locked, with all their receipts.

        Args:
            transaction: the current one.
            runs: that are there, and what receipts each has.
        """
        ...


class PortKeys:
    """Reads keys through a driver's ports."""

    def __init__(self, driver: Driver) -> None:
        """Take the driver."""
        self._driver = driver

    def runs(self, cursor: int, limit: int) -> KeyPage:
        """Read `limit` runs whose key is over the cursor; those that can't be read are left out."""
        scans = (
            self._driver.scan_active(cursor, limit),
            self._driver.scan_ended(_END_OF_TIME, cursor, limit),
        )
        blocked = [scan.unreadable.key for scan in scans if scan.unreadable is not None]
        # Behind a run that can't be read one of the scans knows of none.
        end = min(blocked, default=None)
        found = {keyed.key: _run_key(keyed) for scan in scans for keyed in scan.runs}
        keys = sorted(key for key in found if end is None or key < end)
        if len(keys) >= limit:
            keys, end = keys[:limit], keys[limit - 1]
        return KeyPage(tuple(found[key] for key in keys), end)

    def ties(self, runs: Sequence[RunKey]) -> list[Tie]:
        """Read what holds these runs, from all rows of their conversations."""
        rows = {one: self._driver.rows(one) for one in {run.conversation_id for run in runs}}
        found = ((run, rows[run.conversation_id]) for run in runs)
        return [_tie(run, held) for run, held in found if held is not None and _is_there(run, held)]

    def receipts(self, runs: Sequence[RunKey]) -> dict[RunKey, Receipts]:
        """Find the receipts of those that are there."""
        return {tie.run: Receipts(tie.receipts) for tie in self.ties(runs)}

    def delete(self, transaction: Transaction, runs: Mapping[RunKey, Receipts]) -> None:
        """Delete runs, one after another."""
        for run, receipts in runs.items():
            limit = max(1, receipts.number)
            transaction.forget(run.conversation_id, run.run_id, limit=limit)


def _run_key(keyed: KeyedRun) -> RunKey:
    run = keyed.run
    return RunKey(keyed.key, run.conversation_id, run.id, run.created_at, run.ended_at)


def _is_there(run: RunKey, rows: ConversationRows) -> bool:
    # Another run can have its id by now, but has not ended at the same moment.
    return any((one.run.id, one.run.ended_at) == (run.run_id, run.ended_at) for one in rows.runs)


def _tie(run: RunKey, rows: ConversationRows) -> Tie:
    named = {one.message.run_id for one in rows.messages if one.archived_at is None}
    receipts = Counter(one.run_id for one in rows.receipts)
    absorbed = [one.run for one in rows.runs if one.run.absorbed_into_run_id == run.run_id]
    facts = RetainedRun(
        created_at=run.created_at,
        ended_at=run.ended_at,
        in_history=run.run_id in named,
        absorbed=tuple(
            RetainedRun(
                created_at=one.created_at, ended_at=one.ended_at, in_history=one.id in named
            )
            for one in absorbed
        ),
    )
    keys = tuple(
        RunKey(None, one.conversation_id, one.id, one.created_at, one.ended_at) for one in absorbed
    )
    return Tie(run, facts, receipts[run.run_id], keys)
