"""Every exception of the core, split by whose fault it is; no rule about when one is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# How much of a refused value an error message shows.
SHOWN_CHARACTERS = 80


def shown(value: object) -> str:
    """Give a value as an error message shows it: its `repr`, printable and cut.

    Args:
        value: anything, a hostile id of 10,000 characters included.

    Returns:
        At most `SHOWN_CHARACTERS` characters and a mark where something was cut.
    """
    if isinstance(value, str):
        value = value[: SHOWN_CHARACTERS + 1]
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001 - a value whose repr fails must not hide the error about it
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


class StitchkitError(Exception):
    """The root of every error that this package raises itself."""


class InvalidValueError(StitchkitError):
    """The caller gave a value that can't be stored or has no meaning.

    Attributes:
        path: where the value stood, as a JSON path below the argument (`$.input.x[2]`).
        reason: what is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        """Name the place and the reason."""
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class InvalidIdentifierError(StitchkitError):
    """The caller gave an id, key, owner or policy name that breaks the rule for identifiers.

    Attributes:
        name: of the argument or field.
        value: as it was given.
        reason: which part of the rule it breaks.
    """

    def __init__(self, name: str, value: object, reason: str) -> None:
        """Name the argument, the value and the broken part of the rule."""
        super().__init__(f"{name} {shown(value)} {reason}")
        self.name = name
        self.value = value
        self.reason = reason


class IdentityTakenError(StitchkitError):
    """A new id is already the id of something else in the conversation.

    Attributes:
        conversation_id: where it is taken.
        identifier: the id.
    """

    def __init__(self, conversation_id: str, identifier: str) -> None:
        """Name the conversation and the id."""
        super().__init__(
            f"the id {shown(identifier)} is taken in conversation {shown(conversation_id)}: "
            "give a fresh one, or none to have it made"
        )
        self.conversation_id = conversation_id
        self.identifier = identifier


class ReplayNotSafeError(StitchkitError):
    """An acquired run was to be requeued without evidence that its work may be repeated.

    Attributes:
        run_id: of the run.
    """

    def __init__(self, run_id: str) -> None:
        """Name the run."""
        super().__init__(
            f"run {shown(run_id)} was acquired and may have acted: requeue it with "
            "replay_safe=True if its work may be repeated, or abandon it"
        )
        self.run_id = run_id


class InvalidAbsorptionError(StitchkitError):
    """A run was to absorb others and can't: wrong reason, itself, or one named twice.

    Attributes:
        run_id: of the run that was to absorb.
    """

    def __init__(self, run_id: str, reason: str) -> None:
        """Name the run and what is wrong."""
        super().__init__(f"run {shown(run_id)} can't absorb: {reason}")
        self.run_id = run_id


class InvalidCompactionError(StitchkitError):
    """The messages named can't be replaced by one summary.

    Attributes:
        message_ids: that were named.
    """

    def __init__(self, message_ids: Sequence[str], reason: str) -> None:
        """Keep the ids and name the reason."""
        super().__init__(f"can't compact {len(message_ids)} message(s): {reason}")
        self.message_ids = tuple(message_ids)


class ConversationPurgedError(StitchkitError):
    """The conversation was purged; its id stays reserved for good.

    Attributes:
        conversation_id: of the conversation.
    """

    def __init__(self, conversation_id: str) -> None:
        """Name the conversation."""
        super().__init__(
            f"conversation {shown(conversation_id)} was purged and its id can't be used again: "
            "start a new conversation under another id"
        )
        self.conversation_id = conversation_id


class CorruptRecordError(StitchkitError):
    """A stored row contradicts itself or another row.

    Attributes:
        row: which one, as `kind id in conversation id`.
        reason: what is wrong with it.
        next_cursor: of a scan that met the row: where it goes on behind it.
    """

    next_cursor: str | None = None

    def __init__(self, row: str, reason: str) -> None:
        """Name the row and what is wrong with it."""
        super().__init__(f"{row} is corrupt: {reason}")
        self.row = row
        self.reason = reason


class UnsupportedSchemaVersionError(StitchkitError):
    """A row or document was written by a version that this one can't read.

    Attributes:
        row: which one, as `kind id in conversation id`.
        schema_version: that it carries.
        next_cursor: of a scan that met the row: where it goes on behind it.
    """

    next_cursor: str | None = None

    def __init__(self, row: str, schema_version: object) -> None:
        """Name the row and the version that it carries."""
        super().__init__(
            f"{row} has schema version {shown(schema_version)}, which this release can't read: "
            "upgrade stitchkit_django"
        )
        self.row = row
        self.schema_version = schema_version


class StoreUnavailableError(StitchkitError):
    """The database failed, after the retries that were safe; nothing was decided.

    The database's own exception is the `__cause__`, where there is one.
    """
