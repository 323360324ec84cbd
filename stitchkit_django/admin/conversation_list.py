"""The list of conversations, by their latest inputs: a head has no place in time, its runs have.

A page looks at so many runs, and lists the conversations that one of them is the latest run of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db.models import Exists, OuterRef, Q, Subquery

from stitchkit_django.admin.changelists import KeysetChangeList
from stitchkit_django.admin.filters import ActiveFilter
from stitchkit_django.admin.keyset import Kept, Page
from stitchkit_django.admin.reading import RUN_FIELDS, Stored, by
from stitchkit_django.admin.searches import conversations_found
from stitchkit_django.admin.timeline import shown_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet
    from django.http import HttpRequest

LOOKED_AT: Final = 500
"""How many runs a page looks at."""


class Latest(NamedTuple):
    """A run, and whether its conversation has a later one."""

    pk: int
    conversation_id: str
    has_later: bool


class ConversationChangeList(KeysetChangeList):
    """Conversations in the order of their latest runs."""

    looked_at: Page[Latest] | None = None
    _ends: tuple[int, int] | None = None

    def __init__(self, request: HttpRequest, *args: Any) -> None:  # noqa: ANN401 - the base's own
        """Note whether only those that wait for an answer are wanted."""
        self._waiting = ActiveFilter.parameter_name in request.GET
        super().__init__(request, *args)

    @property
    def dated(self) -> Stored:
        """The runs: a conversation's place is that of its latest."""
        return Stored("run")

    @property
    def ends(self) -> tuple[int, int] | None:
        """The keys of the newest and of the oldest run that was looked at for this page."""
        return self._ends

    def read_page(self) -> Page[Any]:
        """Read the page: those that a search found, or those of the next runs."""
        if self.query:
            heads = self._heads(conversations_found(self.query))
            return Page(heads, has_older=False, has_newer=False)
        self.looked_at = self.span.page(
            self._runs(), LOOKED_AT, _latest, kept=self.kept(), bounds=self.bounds()
        )
        shown = self._shown(self.looked_at)
        return shown._replace(rows=self._heads([one.conversation_id for one in shown.rows]))

    def kept(self) -> Kept | None:
        """Keep active runs, where only those conversations are wanted that wait."""
        return Kept("active", 1) if self._waiting else None

    def _runs(self) -> QuerySet[Any]:
        run = self.dated
        rows: QuerySet[Any] = run.rows()
        others = run.where(conversation_id=OuterRef("conversation_id"), turn__gt=OuterRef("turn"))
        later = Q(Exists(run.where(others, active=1)))
        if not self._waiting:
            later |= Q(Exists(run.where(others, active__isnull=True)))
        latest: QuerySet[Any] = rows.annotate(has_later=later)
        return latest

    def _shown(self, looked_at: Page[Latest]) -> Page[Latest]:
        # As many as a page has, from where the last page ended.
        rows = looked_at.rows
        found = [one for one in rows if not one.has_later]
        size = self.list_per_page
        if len(found) <= size:
            if rows:
                self._ends = (rows[0].pk, rows[-1].pk)
            return looked_at._replace(rows=found)
        if self.span.after is not None:
            kept = found[-size:]
            self._ends = (kept[0].pk, rows[-1].pk)
            return Page(kept, has_older=True, has_newer=True)
        kept = found[:size]
        self._ends = (rows[0].pk, kept[-1].pk)
        return Page(kept, has_older=True, has_newer=looked_at.has_newer)

    def _heads(self, conversation_ids: list[str]) -> list[Any]:
        head = Stored("head")
        wanted = head.where(self.queryset, conversation_id__in=conversation_ids)
        found = {}
        for row in wanted.annotate(**_standing(head.own("conversation_id"))):
            # Under our name, whatever a product calls it.
            row.conversation_id = getattr(row, head.own("conversation_id"))
            found[row.conversation_id] = row
        heads = [found[one] for one in conversation_ids if one in found]
        _with_runs(heads, self.own_admin.links)
        return heads


def _latest(rows: QuerySet[Any]) -> list[Latest]:
    return [Latest(*row) for row in rows.values_list("pk", "conversation_id", "has_later")]


def _standing(conversation_id: str) -> dict[str, Subquery]:
    # The run that says how a conversation stands: the first active one, else the last that ended.
    run = Stored("run")
    rows = run.where(conversation_id=OuterRef(conversation_id))
    active = run.where(rows, active=1).order_by("turn")
    ended = run.where(rows, active__isnull=True).order_by("-active", "-turn")
    return {
        "first_active": Subquery(active.values("pk")[:1]),
        "last_ended": Subquery(ended.values("pk")[:1]),
    }


def _with_runs(heads: Iterable[Any], links: Any) -> None:  # noqa: ANN401 - the site's links
    heads = list(heads)
    run = Stored("run")
    keys = [head.first_active or head.last_ended for head in heads]
    rows = run.read(run.rows().filter(pk__in=[key for key in keys if key]), *RUN_FIELDS, "moment")
    found = by(rows, "pk")
    for head, key in zip(heads, keys, strict=True):
        head.standing = shown_run(found[key], links) if key in found else None
