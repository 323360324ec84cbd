"""The four tables. Rows are for reading: the store writes them, and nothing else does."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, ClassVar

from django.db import models
from django.db.models import Case, CheckConstraint, Index, Q, UniqueConstraint, Value, When
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from stitchkit_django.core.driver import LAST_SLOT
from stitchkit_django.core.lifecycle import (
    ACQUIRED_STATES,
    ACTIVE_STATES,
    ENDINGS,
    MessageRole,
    MessageStatus,
    RunState,
    TerminalReason,
)
from stitchkit_django.core.records import SCHEMA_VERSION
from stitchkit_django.core.usage import MAX_COST_DIGITS, MAX_COST_PLACES
from stitchkit_django.fields import IdentifierField, RecordField
from stitchkit_django.querysets import MessageQuerySet, RunQuerySet

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum


def _marker(condition: Q) -> models.GeneratedField:
    # 1 or NULL: a plain unique constraint over it binds the marked rows alone, on every database.
    return models.GeneratedField(
        expression=Case(When(condition, then=Value(1))),
        output_field=models.SmallIntegerField(),
        db_persist=True,
    )


def _one_of(values: Iterable[StrEnum]) -> list[str]:
    return sorted(str(value) for value in values)


def _schema_version() -> models.PositiveSmallIntegerField[int, int]:
    return models.PositiveSmallIntegerField(_("schema version"), default=SCHEMA_VERSION)


_ACTIVE = Q(state__in=_one_of(ACTIVE_STATES))
_ACQUIRED = Q(state__in=_one_of(ACQUIRED_STATES))


# In the constraints `IS NOT NULL` is said outright beside each comparison with a nullable column:
# with a null a bare comparison is unknown, and a check constraint accepts what is unknown.


def _endings() -> Q:
    active = _ACTIVE & Q(terminal_reason__isnull=True, ended_at__isnull=True)
    ended = Q(terminal_reason__isnull=False, ended_at__isnull=False)
    states = sorted({ending.state for ending in ENDINGS.values()})
    return reduce(
        or_,
        [
            ended
            & Q(
                state=str(state),
                terminal_reason__in=_one_of(
                    reason for reason, ending in ENDINGS.items() if ending.state is state
                ),
            )
            for state in states
        ],
        active,
    )


def _exactly_with(field: str, reason: TerminalReason) -> Q:
    given = Q(**{f"{field}__isnull": False})
    with_reason = Q(terminal_reason__isnull=False, terminal_reason=str(reason))
    without = Q(terminal_reason__isnull=True) | ~Q(terminal_reason=str(reason))
    return (given & with_reason) | (~given & without)


def head_constraints(prefix: str) -> list[models.BaseConstraint]:
    """Give the constraints of a table that hosts heads.

    Args:
        prefix: of their names, which a database wants to be its only ones; with what follows it,
            at most 30 characters.
    """
    return [CheckConstraint(condition=Q(version__gte=0), name=f"{prefix}_version")]


class AbstractConversation(models.Model):
    """The head of a conversation, as a column set of a product's own row.

    The product's row may be there before the conversation: with version 0 nobody has written.
    """

    conversation_id = IdentifierField(_("conversation"), unique=True)
    schema_version = _schema_version()
    version = models.BigIntegerField(_("version"), default=0)
    updated_at = models.DateTimeField(_("updated at"), default=timezone.now)
    purged_at = models.DateTimeField(_("purged at"), null=True, blank=True)

    class Meta:
        """A subclass adds `constraints = head_constraints("its_prefix")`."""

        abstract = True

    def __str__(self) -> str:
        """Name the conversation."""
        return str(self.conversation_id)


class Conversation(AbstractConversation):
    """The head of a conversation: constant in size, and its version orders all writes."""

    conversation_id = IdentifierField(_("conversation"), primary_key=True)

    class Meta:
        """One row a conversation, kept after its purge."""

        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        # Rows are for reading, so nobody can be allowed to add, change or delete one.
        default_permissions = ("view",)
        permissions: ClassVar = [("purge_conversation", "Can purge a conversation")]
        constraints: ClassVar = head_constraints("stitchkit_head")


class Run(models.Model):
    """A run, with the answer that is retained once it has ended."""

    id = models.BigAutoField(primary_key=True)
    conversation_id = IdentifierField(_("conversation"))
    run_id = IdentifierField(_("run"))
    schema_version = _schema_version()
    turn = models.BigIntegerField(_("turn"))
    input_message_ids = RecordField(_("inputs"), kind="identifiers")
    assistant_message_id = IdentifierField(_("answer"))
    state = models.CharField(_("state"), max_length=32)
    revision = models.BigIntegerField(_("revision"))
    owner_id = IdentifierField(_("owner"), null=True, blank=True)
    fencing_token = models.BigIntegerField(_("fencing token"), null=True, blank=True)
    lease_seconds = models.FloatField(_("lease in seconds"), null=True, blank=True)
    lease_expires_at = models.DateTimeField(_("lease expires at"), null=True, blank=True)
    terminal_reason = models.CharField(_("reason"), max_length=32, null=True, blank=True)  # noqa: DJ001 - null: not ended
    terminal_policy_name = IdentifierField(_("policy"), null=True, blank=True)
    terminal_detail = RecordField(_("detail"), kind="text", null=True, blank=True)
    absorbed_into_run_id = IdentifierField(_("absorbed into"), null=True, blank=True)
    usage = RecordField(_("usage"), kind="usage", null=True, blank=True)
    cost_amount = models.DecimalField(
        _("cost"),
        # One more: SQLite keeps a float, and 28 nines round up to a number of 29 digits.
        max_digits=MAX_COST_DIGITS + MAX_COST_PLACES + 1,
        decimal_places=MAX_COST_PLACES,
        null=True,
        blank=True,
    )
    cost_currency = models.CharField(_("currency"), max_length=3, null=True, blank=True)  # noqa: DJ001 - null: no cost
    terminal_assistant = RecordField(_("retained answer"), kind="message", null=True, blank=True)
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("updated at"))
    acquired_at = models.DateTimeField(_("acquired at"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended at"), null=True, blank=True)
    active = _marker(_ACTIVE)
    acquired = _marker(_ACQUIRED)

    objects = models.Manager.from_queryset(RunQuerySet)()

    class Meta:
        """Nothing that a checkpoint changes is indexed, so PostgreSQL updates the row in place."""

        verbose_name = _("run")
        verbose_name_plural = _("runs")
        default_permissions = ("view",)
        permissions: ClassVar = [
            ("interrupt_run", "Can request the interrupt of a run"),
            ("cancel_run", "Can cancel a queued run"),
            ("requeue_run", "Can queue a run again"),
            ("abandon_run", "Can abandon a run"),
        ]
        indexes: ClassVar = [
            # Scans of active runs, and of ended ones, over all conversations.
            Index(fields=["active", "id"], name="stitchkit_run_scan"),
            Index(fields=["run_id", "conversation_id"], name="stitchkit_run_id"),
            Index(fields=["terminal_reason", "id"], name="stitchkit_run_reason"),
            Index(fields=["state", "id"], name="stitchkit_run_state"),
        ]
        constraints: ClassVar = [
            UniqueConstraint(fields=["conversation_id", "run_id"], name="stitchkit_run_unique"),
            UniqueConstraint(
                fields=["conversation_id", "assistant_message_id"], name="stitchkit_run_answer"
            ),
            UniqueConstraint(fields=["conversation_id", "acquired"], name="stitchkit_run_owned"),
            # Also the index of the queue.
            UniqueConstraint(
                fields=["conversation_id", "active", "turn"], name="stitchkit_run_queue"
            ),
            CheckConstraint(condition=_endings(), name="stitchkit_run_end"),
            CheckConstraint(
                condition=(_ACQUIRED & Q(owner_id__isnull=False, fencing_token__isnull=False))
                | (~_ACQUIRED & Q(owner_id__isnull=True))
                | (
                    ~Q(state__in=_one_of([*ACQUIRED_STATES, RunState.QUEUED, RunState.ABANDONED]))
                    & Q(absorbed_into_run_id__isnull=True)
                ),
                name="stitchkit_run_owner",
            ),
            CheckConstraint(
                condition=Q(lease_seconds__isnull=True, lease_expires_at__isnull=True)
                | (
                    _ACQUIRED
                    & Q(lease_seconds__isnull=False, lease_seconds__gt=0)
                    & Q(lease_expires_at__isnull=False)
                ),
                name="stitchkit_run_lease",
            ),
            CheckConstraint(
                condition=Q(fencing_token__isnull=True, acquired_at__isnull=True)
                | Q(fencing_token__isnull=False, fencing_token__gte=1, acquired_at__isnull=False),
                name="stitchkit_run_fence",
            ),
            CheckConstraint(
                condition=_exactly_with("terminal_policy_name", TerminalReason.POLICY_STOP),
                name="stitchkit_run_policy",
            ),
            CheckConstraint(
                condition=_exactly_with("absorbed_into_run_id", TerminalReason.ABSORBED),
                name="stitchkit_run_absorbed",
            ),
            CheckConstraint(
                condition=(
                    Q(terminal_assistant__isnull=False, terminal_reason__isnull=False)
                    & ~Q(terminal_reason=str(TerminalReason.ABSORBED))
                )
                | (
                    Q(terminal_assistant__isnull=True)
                    & (
                        Q(terminal_reason__isnull=True)
                        | Q(terminal_reason=str(TerminalReason.ABSORBED))
                    )
                ),
                name="stitchkit_run_retained",
            ),
            CheckConstraint(condition=Q(turn__gte=1, revision__gte=0), name="stitchkit_run_counts"),
        ]

    def __str__(self) -> str:
        """Name the run."""
        return str(self.run_id)


class AdmissionReceipt(models.Model):
    """The proof that an input was accepted; never changed."""

    id = models.BigAutoField(primary_key=True)
    conversation_id = IdentifierField(_("conversation"))
    idempotency_key = IdentifierField(_("key"))
    schema_version = _schema_version()
    input = RecordField(_("input"), kind="message")
    input_message_id = IdentifierField(_("input message"))
    run_id = IdentifierField(_("run"))
    assistant_message_id = IdentifierField(_("answer"))
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        """One row for each conversation and key."""

        verbose_name = _("admission receipt")
        verbose_name_plural = _("admission receipts")
        default_permissions = ("view",)
        indexes: ClassVar = [
            Index(fields=["conversation_id", "run_id"], name="stitchkit_receipt_run"),
            Index(fields=["idempotency_key", "conversation_id"], name="stitchkit_receipt_any_key"),
        ]
        constraints: ClassVar = [
            UniqueConstraint(
                fields=["conversation_id", "idempotency_key"], name="stitchkit_receipt_key"
            ),
            UniqueConstraint(
                fields=["conversation_id", "input_message_id"], name="stitchkit_receipt_input"
            ),
        ]

    def __str__(self) -> str:
        """Name the key."""
        return str(self.idempotency_key)


def message_constraints(prefix: str) -> list[models.BaseConstraint]:
    """Give the constraints of a table that hosts messages; as `head_constraints`.

    The unique ones are also its indexes: active messages stand in causal order in one of them.
    """
    return [
        UniqueConstraint(fields=["conversation_id", "message_id"], name=f"{prefix}_unique"),
        UniqueConstraint(
            fields=["conversation_id", "active", "turn", "slot"], name=f"{prefix}_place"
        ),
        CheckConstraint(
            condition=Q(
                role=str(MessageRole.ASSISTANT),
                run_id__isnull=False,
                status__in=_one_of(set(MessageStatus) - {MessageStatus.COMMITTED}),
            )
            | Q(
                role__in=_one_of(set(MessageRole) - {MessageRole.ASSISTANT}),
                run_id__isnull=True,
                status=str(MessageStatus.COMMITTED),
            ),
            name=f"{prefix}_role",
        ),
        CheckConstraint(
            condition=Q(archived_at__isnull=True, replaced_by__isnull=True)
            | Q(archived_at__isnull=False, replaced_by__isnull=False),
            name=f"{prefix}_archived",
        ),
        CheckConstraint(
            condition=Q(turn__gte=1, slot__gte=0, slot__lte=LAST_SLOT), name=f"{prefix}_where"
        ),
    ]


class AbstractMessage(models.Model):
    """A message with its place, as a column set of a product's own row."""

    conversation_id = IdentifierField(_("conversation"))
    message_id = IdentifierField(_("message"))
    schema_version = _schema_version()
    turn = models.BigIntegerField(_("turn"))
    slot = models.IntegerField(_("slot"))
    run_id = IdentifierField(_("run"), null=True, blank=True)
    role = models.CharField(_("role"), max_length=16)
    status = models.CharField(_("status"), max_length=16)
    parts = RecordField(_("parts"), kind="parts")
    metadata = RecordField(_("metadata"), kind="metadata", null=True, blank=True)
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("updated at"))
    archived_at = models.DateTimeField(_("archived at"), null=True, blank=True)
    replaced_by = IdentifierField(_("replaced by"), null=True, blank=True)
    active = _marker(Q(archived_at__isnull=True))

    objects = models.Manager.from_queryset(MessageQuerySet)()

    class Meta:
        """A subclass adds `constraints = message_constraints("its_prefix")`."""

        abstract = True

    def __str__(self) -> str:
        """Name the message."""
        return str(self.message_id)


class Message(AbstractMessage):
    """A message with its place; archived once a summary has replaced it."""

    class Meta:
        """Active messages of a conversation stand in causal order in one index."""

        verbose_name = _("message")
        verbose_name_plural = _("messages")
        default_permissions = ("view",)
        indexes: ClassVar = [
            Index(fields=["message_id", "conversation_id"], name="stitchkit_message_id")
        ]
        constraints: ClassVar = message_constraints("stitchkit_message")
