"""What stores are compared by: records without their moments, and all that a store can be asked."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stitchkit_django.core import AgentStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stitchkit_django.core import Driver, Message
    from stitchkit_django.core.driver import ConversationRows

MOMENT = "a moment"
PAGE = 3
"""Messages in a page: few, so that a walk takes several."""


class Subject(NamedTuple):
    """A driver under comparison, with stores that archive and that delete what is compacted."""

    name: str
    driver: Driver
    archiving: AgentStore
    deleting: AgentStore

    @classmethod
    def of(cls, name: str, driver: Driver) -> Subject:
        """Build both stores over a driver."""
        return cls(name, driver, AgentStore(driver), AgentStore(driver, archive_compacted=False))

    def store(self, *, archives: bool) -> AgentStore:
        """Give the one or the other store."""
        return self.archiving if archives else self.deleting


def masked(value: object, moments: Mapping[datetime, object] | None = None) -> object:
    """Give a value as one that is equal exactly to what is equal in type, order and digits.

    Args:
        value: a record, or what stands in one.
        moments: what stands for each moment; None: the same for all.
    """
    match value:
        case datetime():
            return MOMENT if moments is None else moments[value]
        case msgspec.Struct():
            fields = [masked(getattr(value, name), moments) for name in value.__struct_fields__]
            return (type(value).__name__, *fields)
        case tuple() | list():
            return (type(value).__name__, *[masked(one, moments) for one in value])
        case dict():
            return ("dict", *[(key, masked(one, moments)) for key, one in value.items()])
        case _:
            return (type(value).__name__, repr(value))


def ranked(rows: ConversationRows | None) -> object:
    """Give all rows, each moment as its number in the order of all of them."""
    found = sorted(set(_moments(rows)))
    return masked(rows, {moment: rank for rank, moment in enumerate(found)})


def told(call: Callable[[], object]) -> tuple[object, object]:
    """Make a call, and give what came of it: as it is, and as it is compared."""
    try:
        outcome = call()
    except Exception as error:  # noqa: BLE001 - whatever one driver raises, all must raise
        return error, (type(error).__name__, str(error))
    return outcome, masked(outcome)


def pages(store: AgentStore, conversation_id: str) -> Iterator[tuple[int, tuple[Message, ...]]]:
    """Walk a conversation's history from the newest page to the oldest."""
    before = None
    while True:
        page = store.load_history(conversation_id, before=before, limit=PAGE)
        yield page.version, page.messages
        if page.before is None:
            return
        assert page.before != before, "a page is its own older one"
        before = page.before


def recoverable(store: AgentStore, conversation_id: str) -> object:
    """Give a conversation's runs in the order in which a scan of all conversations finds them."""
    found = []
    cursor = None
    while True:
        page = store.scan_recoverable(cursor=cursor, limit=1_000)
        found += [run for run in page.items if run.conversation_id == conversation_id]
        if page.next_cursor is None:
            return masked(found)
        cursor = page.next_cursor


def _moments(value: object) -> Iterator[datetime]:
    match value:
        case datetime():
            yield value
        case msgspec.Struct():
            for name in value.__struct_fields__:
                yield from _moments(getattr(value, name))
        case tuple():
            for one in value:
                yield from _moments(one)
        case _:
            pass
