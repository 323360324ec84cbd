"""What retention reads and deletes in Django's tables: keys alone, each by an index."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.db.models import BigIntegerField, Count, IntegerField, Min, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce

from stitchkit_django.core.keys import KeyPage, Receipts, RunKey, Tie
from stitchkit_django.core.records import SCHEMA_VERSION
from stitchkit_django.core.retention import RetainedRun
from stitchkit_django.hosts import hosts
from stitchkit_django.models import AdmissionReceipt, Run
from stitchkit_django.transaction import IDS_A_STATEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from django.db.models import QuerySet

    from stitchkit_django.core.driver import Transaction

T = TypeVar("T")

LOOKUPS_A_STATEMENT: Final = 100
"""Each takes several variables, of which SQLite's lowest limit is 999, and is a part of a plan."""

_KEY: Final = ("id", "conversation_id", "run_id", "created_at", "ended_at", "schema_version")


class DjangoKeys:
    """Reads and deletes by keys in the database behind an alias."""

    def __init__(self, using: str) -> None:
        """Take the alias."""
        self._using = using
        self._message = hosts()["message"]
        self._head = hosts()["head"]

    def runs(self, cursor: int, limit: int) -> KeyPage:
        """Read `limit` runs, active ones too, whose key is over the cursor."""
        rows = self._runs().filter(id__gt=cursor).order_by("id").values_list(*_KEY)[:limit]
        runs = tuple(_run_key(row) for row in rows)
        return KeyPage(runs, runs[-1].key if len(runs) == limit else None)

    def ties(self, runs: Sequence[RunKey]) -> list[Tie]:
        """Read what holds these runs; one that is gone is left out."""
        held: dict[int | None, dict[str, Any]] = {}
        for some in _parts(_surrogates(runs)):
            rows = (
                self._runs()
                .filter(id__in=some)
                .annotate(receipts=self._receipt_count(), in_history=self._answer_in_history())
            )
            for row in rows.values("id", "in_history", "input_message_ids", "receipts"):
                held[row["id"]] = {**row}
        return [self._tie(run, held[run.key]) for run in runs if run.key in held]

    def receipts(self, runs: Sequence[RunKey]) -> dict[RunKey, Receipts]:
        """Find the receipts of those that are there."""
        found: dict[int | None, Receipts] = {}
        for some in _parts(_surrogates(runs)):
            # Ended ones: an active run is not deleted, whatever a caller believes of it.
            rows = self._runs().filter(id__in=some, active=None)
            for key, *receipts in rows.annotate(
                number=self._receipt_count(), first=self._first_receipt()
            ).values_list("id", "number", "first"):
                found[key] = Receipts(*receipts)
        return {run: found[run.key] for run in runs if run.key in found}

    def delete(self, transaction: Transaction, runs: Mapping[RunKey, Receipts]) -> None:  # noqa: ARG002 - it is the connection's
        """Delete ended runs of one conversation, whose head is locked, with all their receipts."""
        lone = [one.first for one in runs.values() if one.number == 1 and one.first is not None]
        for keys in _parts(lone):
            self._receipts().filter(id__in=keys).only("id").delete()
        for run, receipts in runs.items():
            if receipts.number > 1:
                # Each by itself: for several at once PostgreSQL may rather read all receipts of a
                # conversation that it takes for short.
                self._receipts().filter(
                    conversation_id=run.conversation_id, run_id=run.run_id
                ).only("id").delete()
        for keys in _parts(_surrogates(list(runs))):
            self._runs().filter(id__in=keys).only("id").delete()

    def archived(self, before: datetime, after: str, limit: int) -> list[tuple[str, int]]:
        """Count the messages that were archived before a moment, conversation by conversation.

        Args:
            before: the moment.
            after: the id of a conversation, "" for the first page.
            limit: how many conversations at the most, those with no such message included.
        """
        (where,) = self._head.own("conversation_id")
        own, active, archived_at = self._message.own("conversation_id", "active", "archived_at")
        old = self._message.rows(self._using).filter(
            **{own: OuterRef(where), active: None, f"{archived_at}__lt": before}
        )
        heads = self._head.rows(self._using).filter(**{f"{where}__gt": after}).order_by(where)
        counted = heads.annotate(archived=_count(old, own)).values_list(where, "archived")
        return list(counted[:limit])

    def _tie(self, run: RunKey, held: dict[str, Any]) -> Tie:
        inputs, receipts = held["input_message_ids"], held["receipts"]
        # Each input that came to it by itself has a receipt of its own; more came with others.
        absorbed = self._absorbed(run, inputs) if len(inputs) > receipts else ()
        facts = RetainedRun(
            created_at=run.created_at,
            ended_at=run.ended_at,
            in_history=held["in_history"] is not None,
            # A run that was absorbed has no answer that could stand in the history.
            absorbed=tuple(
                RetainedRun(created_at=one.created_at, ended_at=one.ended_at) for one in absorbed
            ),
        )
        return Tie(run, facts, receipts, absorbed)

    def _absorbed(self, run: RunKey, inputs: Sequence[str]) -> tuple[RunKey, ...]:
        # By the receipts of their inputs, since there is no index of whom a run was absorbed into.
        receipts = self._receipts().filter(conversation_id=run.conversation_id).order_by()
        asked_for = receipts.values_list("run_id")
        run_ids = _each([asked_for.filter(input_message_id=one) for one in inputs])
        queue = self._runs().filter(conversation_id=run.conversation_id).order_by()
        absorbed = queue.filter(absorbed_into_run_id=run.run_id).values_list(*_KEY)
        rows = _each([absorbed.filter(run_id=one) for (one,) in dict.fromkeys(run_ids)])
        # In the order that they came in: a union has none.
        return tuple(_run_key(row) for row in sorted(rows, key=itemgetter(0)))

    def _answer_in_history(self) -> Subquery:
        where, identity, archived_at = self._message.own(
            "conversation_id", "message_id", "archived_at"
        )
        answer = {
            where: OuterRef("conversation_id"),
            identity: OuterRef("assistant_message_id"),
            # Not `active`, which would let the index of the places seem as good as that of the ids.
            f"{archived_at}__isnull": True,
        }
        # Not EXISTS, for which PostgreSQL may read the ids of all messages first.
        found = self._message.rows(self._using).filter(**answer).order_by()
        return Subquery(found.values(found=Value(1))[:1], output_field=IntegerField())

    def _receipt_count(self) -> Coalesce:
        return _count(self._receipts_of_it(), "run_id")

    def _first_receipt(self) -> Subquery:
        # Grouped, so that no database looks for it by walking the keys.
        grouped = self._receipts_of_it().order_by().values("run_id").annotate(first=Min("id"))
        return Subquery(grouped.values("first"), output_field=BigIntegerField())

    def _receipts_of_it(self) -> QuerySet[AdmissionReceipt]:
        own = {"conversation_id": OuterRef("conversation_id"), "run_id": OuterRef("run_id")}
        return self._receipts().filter(**own)

    def _runs(self) -> QuerySet[Run]:
        return Run.objects.using(self._using)

    def _receipts(self) -> QuerySet[AdmissionReceipt]:
        return AdmissionReceipt.objects.using(self._using)


def _run_key(row: tuple[Any, ...]) -> RunKey:
    key, conversation_id, run_id, created_at, ended_at, schema_version = row
    # What another release has written may mean other things: as far as this one knows, it has not
    # ended, and it stays.
    known = ended_at if schema_version == SCHEMA_VERSION else None
    return RunKey(key, conversation_id, run_id, created_at, known)


def _surrogates(runs: Sequence[RunKey]) -> list[int]:
    return [run.key for run in runs if run.key is not None]


def _count(rows: QuerySet[Any], by: str) -> Coalesce:
    counted = rows.order_by().values(by).annotate(number=Count("*")).values("number")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


def _each(lookups: Sequence[QuerySet[Any, Any]]) -> Iterator[tuple[Any, ...]]:
    # One union of lookups of one row each, not one lookup of several: as for the receipts above.
    for some in _parts(lookups, LOOKUPS_A_STATEMENT):
        first, *rest = some
        yield from first.union(*rest, all=True)


def _parts(keys: Sequence[T], size: int = IDS_A_STATEMENT) -> Iterator[Sequence[T]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
