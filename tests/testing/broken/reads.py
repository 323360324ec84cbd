"""Drivers that break laws of the reads, the scans and of isolation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stitchkit_django.core.driver import ActiveRuns, MessagePage, Place, RunScan
from stitchkit_django.core.lifecycle import RunState
from tests.testing.broken.defect import BrokenDriver, breaks

if TYPE_CHECKING:
    from datetime import datetime

    from stitchkit_django.core import Facts, ReadSet
    from stitchkit_django.core.driver import ConversationRows, ConversationView, RunFacts
    from stitchkit_django.core.memory import MemoryTransaction


@breaks(
    "a_live_run_is_loaded_without_an_answer",
    "a_renewal_moves_the_lease_alone",
)
class TellsTheVersionOfTheAdmission(BrokenDriver):
    """Reads the version from an active run instead of the head."""

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        facts = super().run(conversation_id, run_id)
        if facts.head is None or facts.run is None or not facts.run.run.is_active:
            return facts
        return replace(facts, head=replace(facts.head, version=facts.run.run.turn))


@breaks(
    "an_ended_run_is_loaded_with_its_answer",
    "every_end_is_read_back",
)
class ReadsNoDetailOfASuccess(BrokenDriver):
    """Takes the detail for one of failures."""

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        facts = super().run(conversation_id, run_id)
        if facts.run is None or facts.run.run.state is not RunState.COMPLETED:
            return facts
        run = replace(facts.run.run, terminal_detail=None)
        return replace(facts, run=replace(facts.run, run=run))


@breaks(
    "an_unknown_run_is_not_loaded",
    "a_run_is_forgotten_with_its_receipts",
    "a_run_is_of_one_conversation",
    "ids_are_compared_byte_for_byte",
    "ids_of_any_characters_are_kept",
)
class LoadsTheLatestRun(BrokenDriver):
    """Takes an unknown run for the latest one."""

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        found = self._conversations.get(conversation_id)
        if found is not None and found.runs and run_id not in found.runs:
            run_id = list(found.runs)[-1]
        return super().run(conversation_id, run_id)


@breaks("a_run_is_of_one_conversation")
class FindsARunByItsIdAlone(BrokenDriver):
    """Looks for a run in all conversations but those that nobody has written to."""

    def run(self, conversation_id: str, run_id: str) -> RunFacts:
        facts = super().run(conversation_id, run_id)
        if facts.run is not None or facts.head is None:
            return facts
        for where in self._conversations:
            other = super().run(where, run_id)
            if other.run is not None:
                return other
        return facts


@breaks("active_runs_are_listed_by_turn")
class ListsActiveRunsById(BrokenDriver):
    """Orders active runs by their ids."""

    def active_runs(self, conversation_id: str) -> ActiveRuns:
        active = super().active_runs(conversation_id)
        return replace(active, runs=tuple(sorted(active.runs, key=lambda run: run.id)))


@breaks(
    "pages_make_up_the_history",
    "pages_are_stable_under_compaction",
)
class PagesByTurn(BrokenDriver):
    """Begins a page before the turn of its cursor."""

    def messages(self, conversation_id: str, before: Place | None, limit: int) -> MessagePage:
        whole_turn = None if before is None else Place(before.turn, 0)
        return super().messages(conversation_id, whole_turn, limit)


@breaks("pages_are_stable_under_compaction")
class CountsArchivedMessagesIntoAPage(BrokenDriver):
    """Leaves archived messages out of a page after its limit was reached."""

    def messages(self, conversation_id: str, before: Place | None, limit: int) -> MessagePage:
        found = self._conversations.get(conversation_id)
        if found is None:
            return super().messages(conversation_id, before, limit)
        every = sorted(found.messages.values(), key=lambda one: one.place)
        page = [one for one in every if before is None or one.place < before][-limit:]
        active = tuple(one for one in page if one.archived_at is None)
        return MessagePage(head=found.head, messages=active)


@breaks(
    "a_snapshot_is_of_the_latest_version",
    "a_conversation_is_restored_whole",
    "an_absorption_is_whole",
    "rows_are_a_whole_conversation",
)
class TellsEveryRun(BrokenDriver):
    """Tells the runs whose messages were compacted, too."""

    def snapshot(self, conversation_id: str) -> ConversationView:
        view = super().snapshot(conversation_id)
        found = self._conversations.get(conversation_id)
        every = [stored.run for stored in found.runs.values()] if found else []
        return replace(view, runs=tuple(sorted(every, key=lambda run: run.turn)))


# ---------------------------------------------------------------- scans


@breaks(
    "a_scan_finds_every_active_run_once",
    "restored_runs_are_scanned",
)
class LimitsAScanTooEarly(BrokenDriver):
    """Leaves ended runs out of a page after its limit was reached."""

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        page = self._scan(cursor, limit, lambda _run: True)
        return replace(page, runs=tuple(one for one in page.runs if one.run.is_active))


@breaks("a_cursor_survives_its_run")
class LooksForTheRunOfTheCursor(BrokenDriver):
    """Finds nothing behind a run that has ended."""

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        page = super().scan_active(cursor, limit)
        active = {one.key for one in super().scan_active(0, 1_000).runs}
        return page if cursor in {0, *active} else replace(page, runs=())


@breaks("a_run_that_comes_during_a_scan_is_found")
class HoldsAScanOpen(BrokenDriver):
    """Reads all pages of a scan from what was there at its beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.held = RunScan(moment=self._clock())

    def scan_active(self, cursor: int, limit: int) -> RunScan:
        if cursor == 0:
            self.held = super().scan_active(0, 1_000)
        rest = [one for one in self.held.runs if one.key > cursor]
        return replace(self.held, runs=tuple(rest[:limit]))


@breaks("restored_runs_are_scanned")
class GivesRestoredRunsNoKey(BrokenDriver):
    """Leaves the keys of restored runs at nought, which no scan comes to."""

    def restore(self, inner: MemoryTransaction, rows: ConversationRows) -> bool:
        restored = inner.restore(rows)
        where = rows.head.conversation_id
        found = inner.conversations[where]
        if restored:
            inner.conversations[where] = replace(found, keys=dict.fromkeys(found.keys, 0))
        return restored


@breaks("a_key_is_not_used_again")
class UsesKeysAgain(BrokenDriver):
    """Gives a new run the key after the highest one that is there."""

    def forget(self, inner: MemoryTransaction, where: str, run_id: str, limit: int) -> int:
        gone = inner.forget(where, run_id, limit=limit)
        keys = [key for found in inner.conversations.values() for key in found.keys.values()]
        inner.last_key = max(keys, default=0)
        return gone


@breaks("ended_runs_are_scanned_in_order")
class ScansRunsThatEndedAtTheMoment(BrokenDriver):
    """Gives runs that ended at the moment, too."""

    def scan_ended(self, before: datetime, cursor: int, limit: int) -> RunScan:
        return self._scan(
            cursor, limit, lambda run: run.ended_at is not None and run.ended_at <= before
        )


# ---------------------------------------------------------------- isolation


@breaks("conversations_are_isolated")
class ForgetsARunByItsIdAlone(BrokenDriver):
    """Forgets runs of an id in all conversations."""

    def forget(self, inner: MemoryTransaction, where: str, run_id: str, limit: int) -> int:
        for other in list(inner.conversations):
            if other != where:
                inner.forget(other, run_id, limit=limit)
        return inner.forget(where, run_id, limit=limit)


@breaks(
    "ids_are_taken_in_one_conversation_alone",
    "conversations_are_isolated",
)
class TakesReservedIdsEverywhere(BrokenDriver):
    """Has a constraint on the ids of cancelled runs that leaves the conversation out."""

    def read(self, inner: MemoryTransaction, wanted: ReadSet) -> Facts:
        facts = inner.read(wanted)
        cancelled = {
            stored.run.id
            for found in inner.conversations.values()
            for stored in found.runs.values()
            if stored.run.state is RunState.CANCELLED
        }
        return replace(facts, taken=facts.taken | cancelled.intersection([wanted.new_run_id]))
