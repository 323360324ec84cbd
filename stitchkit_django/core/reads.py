"""What can be read of conversations: whole, by run, by page; no write and no decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core import paging, values
from stitchkit_django.core.records import (
    HistoryPage,
    RecoverablePage,
    Run,
    RunView,
    Snapshot,
)
from stitchkit_django.core.reducer import check_not_purged

if TYPE_CHECKING:
    from stitchkit_django.core.driver import Driver


class StoreReads:
    """The reads of a store; each is one statement of its driver, without a transaction."""

    _driver: Driver

    @property
    def driver(self) -> Driver:
        """Where conversations are kept: for what works on the ports, as checks of a driver do."""
        return self._driver

    def load_snapshot(self, conversation_id: str) -> Snapshot:
        """Read a whole conversation as of one version, never torn by a writer.

        Its cost grows with the active history: compaction bounds it, and `load_history` pages.

        Returns:
            The snapshot; version 0 and nothing in it for an unknown conversation.

        Raises:
            InvalidIdentifierError: the id breaks the rule.
        """
        values.identifier("conversation_id", conversation_id)
        view = self._driver.snapshot(conversation_id)
        check_not_purged(conversation_id, view.head)
        return Snapshot(
            conversation_id=conversation_id,
            version=0 if view.head is None else view.head.version,
            messages=tuple([placed.message for placed in view.messages]),
            turns=tuple([placed.place.turn for placed in view.messages]),
            runs=view.runs,
        )

    def load_run(self, conversation_id: str, run_id: str) -> RunView | None:
        """Read one run without its conversation; its cost doesn't grow with anything.

        Returns:
            The run, with its answer once it has ended with one; None when there is no such run.

        Raises:
            InvalidIdentifierError: an id breaks the rule.
        """
        values.identifier("conversation_id", conversation_id)
        values.identifier("run_id", run_id)
        facts = self._driver.run(conversation_id, run_id)
        check_not_purged(conversation_id, facts.head)
        if facts.head is None or facts.run is None:
            return None
        return RunView(
            snapshot_version=facts.head.version,
            run=facts.run.run,
            assistant=facts.run.terminal_assistant,
        )

    def list_active_runs(self, conversation_id: str) -> tuple[Run, ...]:
        """Read the runs of a conversation that have not ended, by turn.

        Raises:
            InvalidIdentifierError: the id breaks the rule.
        """
        values.identifier("conversation_id", conversation_id)
        active = self._driver.active_runs(conversation_id)
        check_not_purged(conversation_id, active.head)
        return active.runs

    def load_history(
        self,
        conversation_id: str,
        *,
        before: str | None = None,
        limit: int = paging.DEFAULT_LIMIT,
    ) -> HistoryPage:
        """Read a page of the active history, the newest first page by default.

        Pages stay whole while the history is compacted. An absorption moves an input to an
        earlier turn, so an older page can show it again.

        Args:
            conversation_id: whose history it is.
            before: a page's `before`, for the page older than that one.
            limit: how many messages at the most, 1 to 1,000.

        Raises:
            InvalidValueError: the cursor or the limit is not one of this read.
            InvalidIdentifierError: the id breaks the rule.
        """
        values.identifier("conversation_id", conversation_id)
        paging.check_limit(limit)
        place = paging.history_place(conversation_id, before)
        page = self._driver.messages(conversation_id, place, limit + 1)
        check_not_purged(conversation_id, page.head)
        shown = page.messages[-limit:]
        older = len(page.messages) > limit
        return HistoryPage(
            version=0 if page.head is None else page.head.version,
            messages=tuple([placed.message for placed in shown]),
            before=paging.history_cursor(conversation_id, shown[0].place) if older else None,
        )

    def scan_recoverable(
        self, *, cursor: str | None = None, limit: int = paging.DEFAULT_LIMIT
    ) -> RecoverablePage:
        """Read a page of the active runs of all conversations.

        A run whose admission commits late, behind the cursor, is found by the next pass.

        Args:
            cursor: a page's `next_cursor`, for the page after that one; it survives the run
                that it names.
            limit: how many runs at the most, 1 to 1,000.

        Raises:
            InvalidValueError: the cursor or the limit is not one of this read.
            CorruptRecordError: the next run's row contradicts itself; the error's `next_cursor`
                leads on behind it.
            UnsupportedSchemaVersionError: likewise, this release can't read the row.
        """
        paging.check_limit(limit)
        page = self._driver.scan_active(paging.recoverable_key(cursor), limit + 1)
        if page.unreadable is not None and not page.runs:
            # Told once, with the way on: one bad row must not hide the runs behind it.
            page.unreadable.error.next_cursor = paging.recoverable_cursor(page.unreadable.key)
            raise page.unreadable.error
        shown = page.runs[:limit]
        more = len(page.runs) > limit or page.unreadable is not None
        return RecoverablePage(
            moment=page.moment,
            items=tuple([keyed.run for keyed in shown]),
            next_cursor=paging.recoverable_cursor(shown[-1].key) if more else None,
        )
