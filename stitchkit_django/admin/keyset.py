"""Pages of rows by a key: what lies beyond a page is never counted, and never walked through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from django.core.paginator import Paginator
from django.db.models import F, Q
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThanOrEqual, TupleLessThan
from django.utils.functional import cached_property

from stitchkit_django.admin.texts import MOST_COUNTED
from stitchkit_django.core.values import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet

T = TypeVar("T")

BEFORE: Final = "before"
"""The parameter of a page of rows older than a key."""
AFTER: Final = "after"
"""The parameter of a page of rows newer than a key."""


class InvalidKeyError(ValueError):
    """A key in a URL is none."""


class Page(NamedTuple, Generic[T]):
    """Rows, the newest first, and whether there are others."""

    rows: list[T]
    has_older: bool
    has_newer: bool


class Kept(NamedTuple):
    """The one value of a column that rows are kept by; an index has it before the key."""

    field: str
    value: object


class Bounds(NamedTuple):
    """From which key on, and up to which one, that one left out; None: without an end."""

    low: int | None = None
    high: int | None = None


class Span(NamedTuple):
    """Which page is asked for; at most one of the keys is set."""

    before: int | None = None
    after: int | None = None

    @classmethod
    def asked(cls, query: Any) -> Span:  # noqa: ANN401 - a request's GET
        """Read the keys of a URL.

        Raises:
            InvalidKeyError: one is no whole number of the database's.
        """
        return cls(*(_key(query.get(name)) for name in (BEFORE, AFTER)))

    def page(
        self,
        rows: QuerySet[Any],
        size: int,
        read: Callable[[QuerySet[Any]], list[T]],
        *,
        kept: Kept | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008 - never changed
    ) -> Page[T]:
        """Read the page.

        Args:
            rows: in any order, of a model whose primary key is a whole number.
            size: of the page.
            read: reads what is asked for of some rows, in their order.
            kept: keeps rows by an index.
            bounds: of the keys that pages can have.
        """
        low, high = bounds
        if self.after is not None:
            low = max(self.after + 1, low or 0)
            found = read(in_order(rows, kept, Bounds(low, high))[: size + 1])
            return Page(found[:size][::-1], has_older=True, has_newer=len(found) > size)
        if self.before is not None:
            high = self.before if high is None else min(self.before, high)
        found = read(in_order(rows, kept, Bounds(low, high), newest_first=True)[: size + 1])
        return Page(found[:size], len(found) > size, self.before is not None)


def in_order(
    rows: QuerySet[Any],
    kept: Kept | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008 - never changed
    *,
    newest_first: bool = False,
) -> QuerySet[Any]:
    """Give rows in the order of their keys, so that only an index of that order can give them.

    A planner that thinks a value common walks all keys and looks each row up, past any number of
    rows of other values. So the value is a range of one, and the order begins with its column: only
    the index that begins with it has that.

    Args:
        rows: of a model whose primary key is a whole number.
        kept: keeps rows by such an index.
        bounds: of the keys.
        newest_first: the highest key first.
    """
    low, high = bounds
    if kept is None:
        named = {"pk__gte": low, "pk__lt": high}
        rows = rows.filter(**{name: key for name, key in named.items() if key is not None})
        return rows.order_by("-pk" if newest_first else "pk")
    field, value = kept
    place = Tuple(F(field), F("pk"))
    rows = rows.filter(
        Q(**{f"{field}__gte": value})
        if low is None
        else TupleGreaterThanOrEqual(place, (value, low)),
        Q(**{f"{field}__lte": value}) if high is None else TupleLessThan(place, (value, high)),
    )
    return rows.order_by(*((f"-{field}", "-pk") if newest_first else (field, "pk")))


class CappedPaginator(Paginator):  # type: ignore[type-arg] # generic for the type checker alone
    """Counts no further than to one over `MOST_COUNTED`, wherever Django wants a count."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, as far as they are counted."""
        rows: Any = self.object_list
        return int(rows[: MOST_COUNTED + 1].count())


def _key(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_COUNT):
        raise InvalidKeyError(text)
    return int(text)
