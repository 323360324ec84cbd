"""`manage.py work`: one worker, one run."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from django.core.management.base import BaseCommand, CommandError, CommandParser

from example.agent import next_part
from example.worker import Agent, Worker
from stitchkit_django import get_store
from stitchkit_django.core import (
    Applied,
    Part,
    TerminalReason,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stitchkit_django.core import Message

END_OF_INPUT = 3
"""Exit status of a worker whose standard input has ended."""


class Command(BaseCommand):
    """Answers the first run of a conversation, and tells each step on a line of its own."""

    help = (
        "Answers the first run in the queue of a conversation with the example's agent. Prints a "
        "line for each write: the conversation's version, the run's revision, its fencing token "
        "and what was written, separated by tabs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Name the conversation, the worker, and how it is to fail."""
        parser.add_argument("conversation_id")
        parser.add_argument("--owner", default=f"worker-{os.getpid()}", help="the worker's name")
        parser.add_argument(
            "--lease", type=float, default=60, help="seconds that a step may take (default: 60)"
        )
        parser.add_argument(
            "--hang-after-results",
            type=int,
            metavar="N",
            help="let the model say nothing more once so many tools have answered",
        )
        parser.add_argument(
            "--end-with-stdin",
            action="store_true",
            help="end at once when standard input ends, as it does when the process behind it dies",
        )

    def handle(
        self,
        *_args: object,
        conversation_id: str,
        owner: str,
        lease: float,
        hang_after_results: int | None,
        end_with_stdin: bool,
        **_options: object,
    ) -> None:
        """Answer the run, or fail when there is none or it was lost."""
        if end_with_stdin:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        store = get_store()
        queue = store.list_active_runs(conversation_id)
        if not queue:
            raise CommandError(f"conversation {conversation_id!r} has no run to answer")
        worker = Worker(
            store=store,
            owner_id=owner,
            lease=timedelta(seconds=lease),
            agent=next_part if hang_after_results is None else _hanging(hang_after_results),
            listener=self._tell,
        )
        outcome = worker.answer(queue[0])
        if not isinstance(outcome, Applied):
            raise CommandError(f"{owner} has not got, or has lost, run {queue[0].id}: {outcome}")

    def _tell(self, applied: Applied, about: Part | TerminalReason | None) -> None:
        run = applied.run
        numbers = (applied.version, run and run.revision, run and run.fencing_token)
        self.stdout.write("\t".join(map(str, (*numbers, described(about)))))
        self.stdout.flush()


def described(about: Part | TerminalReason | None) -> str:
    """Say in a few words what a worker has written."""
    match about:
        case None:
            return "takes the run"
        case TextPart(text=text):
            return f'keeps: "{text}"'
        case ToolCallPart(tool_name=tool, call_id=call):
            return f"keeps: call of {tool}({call})"
        case ToolResultPart(tool_name=tool, call_id=call, outcome=outcome):
            return f"keeps: result of {tool}({call}), {outcome}"
        case TerminalReason():
            return f"ends the run: {about}"
        case _:
            return f"keeps: {type(about).__name__}"


def _hanging(results: int) -> Agent:
    """Give an agent whose model says nothing more once so many tools have answered."""

    def agent(prompt: Sequence[Message], so_far: tuple[Part, ...]) -> Part | None:
        if sum(isinstance(part, ToolResultPart) for part in so_far) >= results:
            threading.Event().wait()
        return next_part(prompt, so_far)

    return agent


def _end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os._exit(END_OF_INPUT)
