"""`manage.py purge_conversation`: deletes all that a conversation holds, for good."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, assert_never

from stitchkit_django.core.errors import (
    ConversationPurgedError,
    StitchkitError,
    StoreUnavailableError,
)
from stitchkit_django.core.outcomes import Applied, Conflict, ConflictReason, NotFound
from stitchkit_django.management import options
from stitchkit_django.management.operation import OperationCommand
from stitchkit_django.management.output import counted
from stitchkit_django.reconnection import moment_of
from stitchkit_django.retention import purge_conversation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.core.management.base import CommandParser

    from stitchkit_django.management.operation import Operation


SHOWN_RUNS: Final = 5
"""How many of the active runs that are in the way are named."""


class Purge(NamedTuple):
    """What became of one conversation."""

    conversation_id: str
    result: str
    """purged, unchanged (it was purged before) or failed."""
    detail: str | None = None


class Command(OperationCommand):
    """Purges conversations that are named."""

    help = (
        "Deletes the messages, runs and receipts of the conversations that you name. Their ids "
        "stay reserved, and every later call on them is refused. A conversation with active runs "
        "is refused: end them first. Exit status: 0 done, 1 a conversation was refused, 2 it could "
        "not run, 130 or 143 a signal has ended it after the conversation in hand."
    )
    batch_help: ClassVar[str] = "taken as by the other commands; a conversation is one transaction"
    limit_help: ClassVar[str] = "conversations that are purged at the most; without it all"

    def add_arguments(self, parser: CommandParser) -> None:
        """Add which conversations."""
        super().add_arguments(parser)
        parser.add_argument("conversations", nargs="+", metavar="ID", help="of a conversation")
        parser.add_argument(
            "--expected-version",
            metavar="N",
            help="the version that you have seen: refuse, if it has moved (for one conversation)",
        )

    def handle(
        self,
        *_args: object,
        conversations: Sequence[str],
        expected_version: object,
        **shared: object,
    ) -> None:
        """Purge.

        Raises:
            CommandError: with the exit status, unless that is 0.
        """
        with self.operation("conversations", shared) as operation:
            version = options.optional_number("--expected-version", expected_version, least=0)
            if version is not None and len(conversations) > 1:
                raise options.refused("--expected-version", "is for one conversation alone")
            named = [options.conversation_id("ID", one) for one in dict.fromkeys(conversations)]
            _purge(operation, islice(_purges(operation, named, version), operation.limit))


def _purge(operation: Operation, purges: Iterator[Purge]) -> None:
    done = 0
    for purge in operation.followed(purges):
        document: dict[str, Any] = purge._asdict()
        document["conversationId"] = document.pop("conversation_id")
        why = "" if purge.detail is None else f": {purge.detail}"
        if purge.result == "failed":
            operation.fail(f"failed: conversation {purge.conversation_id}{why}", document)
            continue
        done += purge.result == "purged"
        would = "would be " if operation.dry_run and purge.result == "purged" else ""
        operation.tell(
            f"{would}{purge.result}: conversation {purge.conversation_id}{why}", document
        )
    would = "Would purge" if operation.dry_run else "Purged"
    operation.sum_up(f"{would} {counted(done, 'conversation')}", {"conversations": done})


def _purges(
    operation: Operation, conversations: Sequence[str], version: int | None
) -> Iterator[Purge]:
    for conversation_id in conversations:
        try:
            outcome = purge_conversation(
                operation.store,
                conversation_id,
                expected_version=version,
                dry_run=operation.dry_run,
            )
            yield _told(conversation_id, outcome)
        except ConversationPurgedError:
            yield Purge(conversation_id, "unchanged", "it was purged before")
        except StoreUnavailableError as error:
            # Raises where the database is gone: then the command ends.
            moment_of(operation.store.driver)
            yield Purge(conversation_id, "failed", str(error))
        except StitchkitError as error:
            yield Purge(conversation_id, "failed", str(error))


def _told(conversation_id: str, outcome: Applied | Conflict | NotFound) -> Purge:
    match outcome:
        case Applied():
            return Purge(conversation_id, "purged")
        case Conflict(reason=ConflictReason.VERSION):
            return Purge(conversation_id, "failed", f"it is at version {outcome.version}")
        case Conflict():
            return Purge(conversation_id, "failed", _active(outcome))
        case NotFound():
            return Purge(conversation_id, "failed", "there is no such conversation")
        case _:
            assert_never(outcome)


def _active(conflict: Conflict) -> str:
    first = ", ".join(run.id for run in conflict.runs[:SHOWN_RUNS])
    more = len(conflict.runs) - SHOWN_RUNS
    rest = f" and {more} more" if more > 0 else ""
    return f"it has active runs, which end first ({first}{rest})"
