"""One conversation, step by step, with a check of what each step came to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from signal import SIGKILL
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from example.demo.processes import WorkerProcess
from example.demo.timeline import StepFailedError
from stitchkit_django.core import (
    AgentStore,
    Applied,
    Conflict,
    ConflictReason,
    Duplicate,
    Message,
    MessageRole,
    MessageStatus,
    NotFound,
    Part,
    Run,
    RunState,
    TerminalReason,
    TextPart,
    ToolOutcome,
    ToolResultPart,
)

if TYPE_CHECKING:
    from example.demo.timeline import Timeline

CONVERSATION: Final = "trip-1"
KEY: Final = "request-1"
QUESTION: Final = "Where is it warmest today, Lisbon or Oslo?"
ANSWER: Final = "Lisbon has 24 and Oslo has 11 degrees: it is warmest in Lisbon."
LEASE_SECONDS: Final = 1.5
DEADLINE_SECONDS: Final = 60.0
"""How long the demo waits for anything; only a hanging machine takes it."""
POLL_SECONDS: Final = 0.05

OutcomeT = TypeVar("OutcomeT", Applied, Conflict, Duplicate)
Outcome: TypeAlias = Applied | Conflict | Duplicate | NotFound


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What every step works with."""

    store: AgentStore
    url: str
    """Of the store's database, for other processes."""
    timeline: Timeline

    def tell(self, who: str, what: str, version: int, run: Run | None) -> None:
        """Print an event with the numbers of its run."""
        numbers = () if run is None else (run.revision, run.fencing_token)
        self.timeline.tell(who, what, version, *numbers)

    def worker(self, owner_id: str, *arguments: str) -> WorkerProcess:
        """Start a worker in a process of its own."""
        lease = ("--lease", str(LEASE_SECONDS))
        return WorkerProcess(self.url, CONVERSATION, "--owner", owner_id, *lease, *arguments)

    def run(self, run_id: str) -> Run:
        """Read a run."""
        view = self.store.load_run(CONVERSATION, run_id)
        if view is None:
            raise StepFailedError(f"run {run_id} is not to be found")
        return view.run

    def partial_answer(self, run: Run) -> Message | None:
        """Read the answer that a run has so far."""
        messages = self.store.load_snapshot(CONVERSATION).messages
        found = [message for message in messages if message.id == run.assistant_message_id]
        return found[0] if found else None


def walk_through(stage: Stage) -> None:
    """Take the conversation from its first request to a retry after its compaction.

    Raises:
        StepFailedError: a step is not as it must be.
    """
    run = admit(stage)
    retry(stage, run)
    killed, result = kill_a_worker(stage, run)
    recover(stage, killed, result)
    answer = finish(stage, killed, result)
    compact(stage)
    retry_in_the_end(stage, answer)


def admit(stage: Stage) -> Run:
    """Send a request; give the run that is to answer it."""
    with stage.timeline.step("A request is admitted"):
        admitted = expect(Applied, stage.store.accept_input(CONVERSATION, KEY, QUESTION))
        run = written(admitted)
        stage.tell("client", f'asks: "{QUESTION}"', admitted.version, run)
        holds = run.state is RunState.QUEUED
        stage.timeline.check("its run waits in the queue", holds=holds)
        return run


def retry(stage: Stage, run: Run) -> None:
    """Send the request again, and another one under its key."""
    with stage.timeline.step("The reply got lost, so the client asks again"):
        again = expect(Duplicate, stage.store.accept_input(CONVERSATION, KEY, QUESTION))
        stage.tell("client", "asks the same under the same key", again.version, again.run)
        holds = again.same_input and again.run == run and again.pending is not None
        stage.timeline.check("it is told of the run that it has already", holds=holds)

        other = expect(Duplicate, stage.store.accept_input(CONVERSATION, KEY, "Is it raining?"))
        stage.tell("client", "asks something else under that key", other.version, other.run)
        holds = not other.same_input and other.run == run
        stage.timeline.check("it is told that the key has another input", holds=holds)

        inputs = len(stage.store.load_snapshot(CONVERSATION).messages)
        queue = stage.store.list_active_runs(CONVERSATION)
        holds = (inputs, queue) == (1, (run,))
        stage.timeline.check("one input and one run were written", holds=holds)


def kill_a_worker(stage: Stage, run: Run) -> tuple[Run, ToolResultPart]:
    """Let a worker begin the answer, and kill it; give its run and the result that it kept."""
    with (
        stage.timeline.step("A worker is killed in mid-answer"),
        stage.worker("worker-1", "--hang-after-results", "1") as worker,
    ):
        result: ToolResultPart | None = None
        for event in worker.events(DEADLINE_SECONDS):
            stage.timeline.tell("worker-1", event.what, event.version, event.revision, event.fence)
            # The line is a hint, and the worker may be ahead of it. What counts is the database.
            partial = stage.partial_answer(run)
            result = finished_result(partial.parts if partial else ())
            if result is not None and event.revision == str(stage.run(run.id).revision):
                break
        if result is None:
            raise StepFailedError("the worker ended before a tool's result was kept")

        status = worker.kill()
        stage.timeline.tell("demo", f"sends SIGKILL to worker-1, process {worker.pid}")
        stage.timeline.check(f"the process ended by signal {SIGKILL}", holds=status == -SIGKILL)

        killed, partial = stage.run(run.id), stage.partial_answer(run)
        holds = (killed.state, killed.owner_id) == (RunState.RUNNING, "worker-1")
        stage.timeline.check("its run looks as if it were still running", holds=holds)
        holds = partial is not None and partial.status is MessageStatus.STREAMING
        stage.timeline.check("the half of the answer that it kept is there", holds=holds)
        return killed, result


def recover(stage: Stage, killed: Run, result: ToolResultPart) -> None:
    """Give the killed worker's run back to the queue, once its lease has lapsed."""
    with stage.timeline.step("The lease lapses, and recovery takes over"):
        outcome = requeue(stage, killed)
        if isinstance(outcome, Conflict):
            holds = outcome.reason is ConflictReason.LEASE
            stage.tell("recovery", "wants the run too early", outcome.version, outcome.run)
            stage.timeline.check("it is refused, for the lease is running", holds=holds)
            wait_for_the_lease(stage, killed)
            outcome = requeue(stage, killed)

        requeued = expect(Applied, outcome)
        run = written(requeued)
        stage.tell("recovery", "puts the run back into the queue", requeued.version, run)
        expired_at = killed.lease_expires_at
        holds = expired_at is not None and run.updated_at >= expired_at
        stage.timeline.check("it did so after the lease's end", holds=holds)
        holds = (run.state, run.owner_id) == (RunState.QUEUED, None)
        stage.timeline.check("the run waits again, without an owner", holds=holds)
        partial = stage.partial_answer(run)
        holds = partial is not None and result in partial.parts
        stage.timeline.check("the tool's result is there for the next one", holds=holds)


def finish(stage: Stage, killed: Run, result: ToolResultPart) -> Message:
    """Let a second worker answer; give the answer."""
    with (
        stage.timeline.step("A second worker goes on from there"),
        stage.worker("worker-2") as worker,
    ):
        told = []
        for event in worker.events(DEADLINE_SECONDS):
            stage.timeline.tell("worker-2", event.what, event.version, event.revision, event.fence)
            told.append(event.what)
        holds = worker.wait(DEADLINE_SECONDS) == 0
        stage.timeline.check("it has done its work", holds=holds)

        view = stage.store.load_run(CONVERSATION, killed.id)
        if view is None or view.assistant is None:
            raise StepFailedError("there is no answer")
        run, answer = view.run, view.assistant
        ended = (run.state, run.terminal_reason, run.owner_id)
        holds = ended == (RunState.COMPLETED, TerminalReason.SUCCESS, "worker-2")
        stage.timeline.check("the run has ended, with success", holds=holds)
        fences = (killed.fencing_token, run.fencing_token)
        stage.timeline.check("its fencing token was a new one", holds=fences == (1, 2))

        # The result tells when it was measured: one of a second call would be another.
        tool = f"{result.tool_name}({result.call_id})"
        holds = result in answer.parts and not any(tool in what for what in told)
        stage.timeline.check(f"{tool} was not called again", holds=holds)
        holds = answer.parts[-1:] == (TextPart(text=ANSWER),)
        stage.timeline.check("the answer is the right one", holds=holds)
        return answer


def compact(stage: Stage) -> None:
    """Let a summary stand for the whole history."""
    with stage.timeline.step("The history is compacted"):
        before = stage.store.load_snapshot(CONVERSATION)
        compacted = expect(
            Applied,
            stage.store.compact_history(
                CONVERSATION,
                expected_version=before.version,
                message_ids=[message.id for message in before.messages],
                summary_parts="Lisbon is warmer than Oslo.",
            ),
        )
        what = f"lets a summary stand for {len(before.messages)} messages"
        stage.tell("compactor", what, compacted.version, None)
        after = stage.store.load_snapshot(CONVERSATION).messages
        holds = [message.role for message in after] == [MessageRole.SUMMARY]
        stage.timeline.check("the history is the summary", holds=holds)


def retry_in_the_end(stage: Stage, answer: Message) -> None:
    """Send the first request once more."""
    with stage.timeline.step("The client, long offline, asks once more"):
        again = expect(Duplicate, stage.store.accept_input(CONVERSATION, KEY, QUESTION))
        stage.tell("client", "asks the same under the same key", again.version, again.run)
        holds = again.same_input and again.assistant == answer
        stage.timeline.check(f'it gets the answer: "{ANSWER}"', holds=holds)


def requeue(stage: Stage, run: Run) -> Applied | Conflict | NotFound:
    """Put a run back into the queue if its lease has lapsed; its tools only read the weather."""
    return stage.store.recover_run(
        CONVERSATION,
        run.id,
        expected_revision=run.revision,
        action="requeue",
        replay_safe=True,
        require_expired_lease=True,
    )


def wait_for_the_lease(stage: Stage, run: Run) -> None:
    """Return once the lease has lapsed by the database's own clock."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        page = stage.store.scan_recoverable()
        for found in page.items:
            expires_at = found.lease_expires_at
            if found.id == run.id and expires_at is not None and expires_at < page.moment:
                stage.timeline.tell(
                    "recovery",
                    "finds it: its lease has lapsed",
                    None,
                    found.revision,
                    found.fencing_token,
                )
                return
        time.sleep(POLL_SECONDS)
    raise StepFailedError(f"the lease has not lapsed in {DEADLINE_SECONDS:.0f} s")


def finished_result(parts: tuple[Part, ...]) -> ToolResultPart | None:
    """Give the first result of a tool that did its work."""
    for part in parts:
        if isinstance(part, ToolResultPart) and part.outcome is ToolOutcome.SUCCESS:
            return part
    return None


def expect(kind: type[OutcomeT], outcome: Outcome) -> OutcomeT:
    """Give an outcome that must be of one kind.

    Raises:
        StepFailedError: it is of another kind.
    """
    if not isinstance(outcome, kind):
        raise StepFailedError(f"the outcome must be {kind.outcome}, and is {outcome}")
    return outcome


def written(applied: Applied) -> Run:
    """Give the run that an operation has written.

    Raises:
        StepFailedError: it has written none.
    """
    if applied.run is None:
        raise StepFailedError(f"no run was written: {applied}")
    return applied.run
