"""Laws that only threads can break; for a driver that several threads may use at once.

Each thread calls `release` before it ends, so that a driver that keeps a connection for each of
them can close it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, BrokenBarrierError
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from stitchkit_django.core import AgentStore, Applied, Conflict, Duplicate, MemoryDriver, TextPart
from stitchkit_django.testing.claims import expect
from stitchkit_django.testing.conversation import Conversation, opened, owned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stitchkit_django.core import Outcome, Snapshot
    from stitchkit_django.testing.conversation import MakeStore

T = TypeVar("T")

THREADS: Final = 4
TURNS: Final = 8
"""How many turns are written while snapshots are read."""
WRITES_A_TURN: Final = 4
READS: Final = 5
"""How many snapshots are read in each turn."""
SECONDS: Final = 60
"""How long a thread is waited for."""


class Race(Protocol):
    """A check that uses threads."""

    def __call__(self, make_store: MakeStore, *, release: Callable[[], object] = ...) -> None:
        """Raise AssertionError, or what the store raises, when a driver breaks the law.

        Args:
            make_store: makes a store that several threads may use at once.
            release: called by each thread of the check before it ends.
        """
        ...


def _nothing() -> None:
    pass


def check_of_racing_admissions_of_one_key_one_is_applied(
    make_store: MakeStore, *, release: Callable[[], object] = _nothing
) -> None:
    """Of many that send a new conversation the same key one is applied, the others are told."""
    with opened(make_store) as conversation:
        send = partial(conversation.store.accept_input, conversation.id, "1", "Hello?")

        outcomes = _raced([send] * THREADS, release)

        won = [one.run for one in outcomes if isinstance(one, Applied)]
        lost = [one.run for one in outcomes if isinstance(one, Duplicate)]
        expect("applied and duplicates", (len(won), len(lost)), (1, THREADS - 1))
        expect("runs of the duplicates", lost, won * len(lost))
        expect("version", conversation.version, 1)


def check_racing_admissions_are_all_applied(
    make_store: MakeStore, *, release: Callable[[], object] = _nothing
) -> None:
    """Inputs that reach a new conversation at once are all admitted, in one order."""
    with opened(make_store) as conversation:
        sends = [partial(conversation.send, str(number)) for number in range(THREADS)]

        outcomes = _raced(sends, release)

        versions = [one.version for one in outcomes if isinstance(one, Applied)]
        expect("versions", sorted(versions), list(range(1, THREADS + 1)))
        turns = [run.turn for run in conversation.store.list_active_runs(conversation.id)]
        expect("turns", turns, sorted(versions))
        expect("messages", len(conversation.history()), THREADS)


def check_of_racing_acquisitions_one_is_applied(
    make_store: MakeStore, *, release: Callable[[], object] = _nothing
) -> None:
    """Of many that want a run one owns it, and the others are told who."""
    with opened(make_store) as conversation:
        run = conversation.admit()
        acquire = partial(
            conversation.store.acquire_run, conversation.id, run.id, expected_revision=0
        )

        outcomes = _raced(
            [partial(acquire, owner_id=f"worker-{one}") for one in range(THREADS)], release
        )

        _check_one_won(conversation, outcomes)
        expect("fence", conversation.view().run.fencing_token, 1)


def check_of_racing_ends_one_is_applied(
    make_store: MakeStore, *, release: Callable[[], object] = _nothing
) -> None:
    """Of two ends of one run one is applied, with its answer; the other is told."""
    with opened(make_store) as conversation:
        run = conversation.acquire(conversation.admit())
        end = partial(conversation.store.commit_terminal, conversation.id, run.id, **owned(run))

        outcomes = _raced(
            [partial(end, parts=reason, reason=reason) for reason in ("success", "timeout")],
            release,
        )

        _check_one_won(conversation, outcomes)
        view = conversation.view()
        assert view.assistant is not None, "the run has no answer"
        answer = (TextPart(text=str(view.run.terminal_reason)),)
        expect("answer", view.assistant.parts, answer)
        expect("message in the history", conversation.message("a-r1"), view.assistant)


def check_a_snapshot_is_never_torn(
    make_store: MakeStore, *, release: Callable[[], object] = _nothing
) -> None:
    """A snapshot that is read while another thread writes is the conversation of its version."""
    with opened(make_store) as conversation:
        expected = _expected()
        # In rounds, so that there is something to read beside each turn.
        begin = Barrier(2)

        def write() -> None:
            try:
                for version, _ in enumerate(_course(conversation)):
                    if version % WRITES_A_TURN == 0:
                        begin.wait(SECONDS)
            except BaseException:
                begin.abort()
                raise

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(_released, write, release)
            try:
                for _ in range(TURNS):
                    begin.wait(SECONDS)
                    for _ in range(READS):
                        _check_snapshot(conversation, expected)
            except BrokenBarrierError:
                # The writer has failed, and says why.
                writing.result(SECONDS)
                raise
            except BaseException:
                begin.abort()
                raise
            writing.result(SECONDS)

        _check_snapshot(conversation, {max(expected): expected[max(expected)]})


def _check_snapshot(conversation: Conversation, expected: dict[int, object]) -> None:
    snapshot = conversation.store.load_snapshot(conversation.id)
    found, version = _outline(snapshot), snapshot.version
    expect(f"snapshot of version {version}", found, expected.get(version))


def _raced(works: Sequence[Callable[[], T]], release: Callable[[], object]) -> list[T]:
    ready = Barrier(len(works))

    def run(work: Callable[[], T]) -> T:
        ready.wait(SECONDS)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(_released, partial(run, work), release) for work in works]
        return [future.result(SECONDS) for future in futures]


def _released(work: Callable[[], T], release: Callable[[], object]) -> T:
    try:
        return work()
    finally:
        release()


def _check_one_won(conversation: Conversation, outcomes: Sequence[Outcome]) -> None:
    won = [one for one in outcomes if isinstance(one, Applied)]
    lost = [one for one in outcomes if isinstance(one, Conflict)]
    expect("won and lost", (len(won), len(lost)), (1, len(outcomes) - 1))
    kept = conversation.view()
    expect("run that is kept", kept.run, won[0].run)
    for conflict in lost:
        expect("run that a loser is told", conflict.run, kept.run)
    expect("version", kept.snapshot_version, won[0].version)


def _course(conversation: Conversation) -> Iterator[None]:
    for number in range(1, TURNS + 1):
        key = str(number)
        run = conversation.admit(key)
        yield
        run = conversation.acquire(run)
        yield
        run = conversation.checkpoint(run)
        yield
        conversation.end(run)
        yield


def _expected() -> dict[int, object]:
    model = Conversation(AgentStore(MemoryDriver()), "c")
    snapshots = [model.store.load_snapshot("c")]
    snapshots += [model.store.load_snapshot("c") for _ in _course(model)]
    return {snapshot.version: _outline(snapshot) for snapshot in snapshots}


def _outline(snapshot: Snapshot) -> object:
    messages = [(one.id, one.status) for one in snapshot.messages]
    runs = [(run.id, run.state, run.revision) for run in snapshot.runs]
    return messages, snapshot.turns, runs
