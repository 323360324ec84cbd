"""The conversation under test, on every driver at once: makes each call on all, and compares."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from stitchkit_django.core import Absorption, Applied, MemoryDriver, Run, RunState
from tests.model.choices import OWNERS, UNKNOWN
from tests.model.invariants import check_snapshot
from tests.model.kinds import kind
from tests.model.views import Subject, masked, pages, ranked, recoverable, told

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from stitchkit_django.core import AgentStore
    from stitchkit_django.core.driver import ConversationRows
    from tests.model.choices import Claim


class Conversation:
    """One conversation, kept by a memory driver and by others, which must agree with it."""

    def __init__(
        self, others: Sequence[Subject], reached: Counter[tuple[str, str]], *, archives: bool
    ) -> None:
        """Begin a new one.

        Args:
            others: to be compared with the memory driver.
            reached: counts the kinds of step.
            archives: whether what is compacted is kept.
        """
        self.id = str(uuid.uuid4())
        self.model = Subject.of("memory", MemoryDriver())
        self.subjects = (self.model, *others)
        self.reached = reached
        self.archives = archives
        self.steps = 0
        self.rows: ConversationRows | None = None
        """All rows, as the memory driver has them."""
        self.runs: list[Run] = []
        self.version = 0
        self.receipts: dict[str, Sequence[object]] = {}

    def do(self, operation: str, method: str, **arguments: Any) -> object:
        """Make a call on every store; what comes of it must be the same, and all that is kept.

        Returns:
            The outcome, or the error that was raised.
        """
        given = {"conversation_id": self.id, **arguments}
        outcome, expected = self._told(self.model, method, given)
        for subject in self.subjects[1:]:
            _, found = self._told(subject, method, given)
            assert found == expected, f"{operation} on {subject.name}: {found}, and not {expected}"
        self.steps += 1
        self.reached[operation, kind(outcome)] += 1

        before = self.version
        self._look()
        wrote = isinstance(outcome, Applied) and operation != "renew"
        assert self.version == before + wrote, f"{operation}: from {before} to {self.version}"
        return outcome

    def close(self) -> None:
        """Compare what a scan of all conversations finds of this one."""
        expected = recoverable(self.model.archiving, self.id)
        for subject in self.subjects[1:]:
            assert recoverable(subject.archiving, self.id) == expected, subject.name

    # ------------------------------------------------------------ what there is to name

    def run(self, which: int | str | None, *states: RunState) -> Run | None:
        """Choose a run: the first in one of the states where there is one, or any, or none."""
        if isinstance(which, str) or not self.runs:
            return None
        if which is not None:
            return self.runs[which % len(self.runs)]
        fitting = [run for run in self.runs if run.state in states]
        return fitting[0] if fitting else self.runs[-1]

    def claimed(self, claim: Claim, *states: RunState) -> dict[str, Any]:
        """Choose a run and give the arguments that name it and prove whose it is."""
        run = self.run(claim.which, *states)
        token = 1 if run is None or run.fencing_token is None else run.fencing_token
        fences = {"right": token, "none": None, "wrong": token + 1}
        return {
            "run_id": UNKNOWN if run is None else run.id,
            "expected_revision": 0 if run is None else run.revision + claim.offset,
            "owner_id": claim.owner or (run and run.owner_id) or OWNERS[0],
            "fencing_token": fences[claim.fence],
        }

    def ids(self) -> list[str]:
        """Give every id that something has."""
        if self.rows is None:
            return []
        runs = [identity for run in self.runs for identity in (run.id, run.assistant_message_id)]
        messages = [placed.message.id for placed in self.rows.messages]
        inputs = [receipt.input.id for receipt in self.rows.receipts]
        return sorted({*runs, *messages, *inputs})

    def history(self) -> list[str]:
        """Give the ids of the active history."""
        placed = [] if self.rows is None else self.rows.messages
        return [one.message.id for one in placed if one.archived_at is None]

    def messages(self, start: int, length: int, shape: str) -> list[str]:
        """Name messages to compact: a range, or what is none."""
        active = self.history() or [UNKNOWN]
        first = start % len(active)
        chosen = active[first : first + length]
        match shape:
            case "backwards":
                return chosen[::-1]
            case "gap":
                return chosen[:1] + chosen[2:]
            case "gone":
                return [*chosen, next((one for one in self.ids() if one not in active), UNKNOWN)]
            case "twice":
                return [*chosen, chosen[0]]
            case _:
                return chosen

    def absorptions(self, shape: str, run_id: str) -> list[Absorption]:
        """Name runs for a run to absorb: the queued ones, or what can't be."""
        queued = [
            Absorption(run_id=run.id, input_message_ids=run.input_message_ids)
            for run in self.runs
            if run.state is RunState.QUEUED and run.id != run_id
        ]
        unknown = Absorption(run_id=UNKNOWN, input_message_ids=("input-1",))
        match shape:
            case "queued":
                return queued
            case "other":
                moved = [Absorption(run_id=one.run_id, input_message_ids=()) for one in queued[:1]]
                return [*moved, unknown, *queued[1:]]
            case "self":
                return [*queued, Absorption(run_id=run_id, input_message_ids=("input-1",))]
            case "twice":
                return [unknown, *queued, unknown]
            case _:
                return []

    # ------------------------------------------------------------ comparing

    def _told(
        self, subject: Subject, method: str, arguments: dict[str, Any]
    ) -> tuple[object, object]:
        store = subject.store(archives=self.archives)
        return told(lambda: getattr(store, method)(**arguments))

    def _look(self) -> None:
        self.rows = self.model.driver.rows(self.id)
        self.runs = [] if self.rows is None else [stored.run for stored in self.rows.runs]
        self.version = 0 if self.rows is None else self.rows.head.version
        for name, view in self._views():
            expected = view(self.model.archiving)
            for subject in self.subjects[1:]:
                found = view(subject.archiving)
                assert found == expected, f"{name} on {subject.name}: {found}, and not {expected}"
        expected = ranked(self.rows)
        for subject in self.subjects:
            rows = subject.driver.rows(self.id)
            found = ranked(rows)
            assert found == expected, f"rows on {subject.name}: {found}, and not {expected}"
            self._check_receipts(subject.name, rows)
        if self.rows is None or self.rows.head.purged_at is None:
            check_snapshot(self.model.archiving.load_snapshot(self.id))

    def _views(self) -> list[tuple[str, Callable[[AgentStore], object]]]:
        def view(read: Callable[[AgentStore], object]) -> Callable[[AgentStore], object]:
            return lambda store: told(lambda: masked(read(store)))[1]

        def run(run_id: str) -> Callable[[AgentStore], object]:
            return view(lambda store: store.load_run(self.id, run_id))

        return [
            ("snapshot", view(lambda store: store.load_snapshot(self.id))),
            ("active runs", view(lambda store: store.list_active_runs(self.id))),
            ("history", view(lambda store: list(pages(store, self.id)))),
            *[(f"run {one.id}", run(one.id)) for one in self.runs],
        ]

    def _check_receipts(self, name: str, rows: ConversationRows | None) -> None:
        # Moments and all, on each database by itself.
        if rows is None or rows.head.purged_at is not None:
            return
        earlier = self.receipts.get(name, ())
        kept = [receipt for receipt in rows.receipts if receipt in earlier]
        assert kept == list(earlier), f"{name} changed a receipt"
        self.receipts[name] = rows.receipts
