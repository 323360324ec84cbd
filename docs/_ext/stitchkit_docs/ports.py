"""The ports that a driver implements, and the records that pass through them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

from stitchkit_django.core import driver
from stitchkit_docs.markdown import code, paragraphs, table
from stitchkit_docs.source import docstring, field_docs, field_types
from stitchkit_docs.structs import described

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Struct

PORTS: Final = (driver.Driver, driver.Transaction, driver.Dispatcher)
TUPLES: Final = (driver.Place, driver.KeyedRun, driver.UnreadableRun)
RECORDS: Final[tuple[type[Struct], ...]] = (
    driver.ReadSet,
    driver.Facts,
    driver.AssistantOutline,
    driver.RangeMember,
    driver.WriteSet,
    driver.RunWrite,
    driver.RunGuard,
    driver.InsertMessage,
    driver.UpdateMessage,
    driver.ReplaceRange,
    driver.MoveMessages,
    driver.DeleteAll,
    driver.PlacedMessage,
    driver.RunFacts,
    driver.ActiveRuns,
    driver.MessagePage,
    driver.ConversationView,
    driver.RunScan,
    driver.ConversationRows,
)


def ports() -> str:
    """Give each port with its methods."""
    return paragraphs(*map(_port, PORTS))


def port_records() -> str:
    """Give what is read and what is written."""
    return paragraphs(*map(_tuple, TUPLES), *map(described, RECORDS))


def _port(cls: type) -> str:
    methods = {
        name: method
        for name, method in vars(cls).items()
        if inspect.isfunction(method) and name in {"__call__"} | _public(cls)
    }
    return paragraphs(
        f"### {cls.__name__}",
        docstring(cls).summary,
        docstring(cls).rest,
        *(_method(name, method) for name, method in methods.items()),
    )


def _public(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def _method(name: str, method: Callable[..., object]) -> str:
    doc, signature = docstring(method), inspect.signature(method)
    shown = str(signature).replace("(self, ", "(").replace("(self)", "()").replace("'", "")
    raises = [f"Raises `{error}`: {when}" for error, when in doc.of("Raises").items()]
    returns = f"Returns: {doc.returns}" if doc.returns else ""
    told = paragraphs(doc.summary, doc.rest, returns, *raises)
    # A definition: what follows its first line is indented.
    return f"`{name}{shown}`\n: " + told.replace("\n", "\n  ")


def _tuple(cls: type) -> str:
    docs = field_docs(cls)
    rows = [[code(name), code(kind), docs.get(name, "")] for name, kind in field_types(cls).items()]
    return paragraphs(
        f"### {cls.__name__}", docstring(cls).summary, table(["field", "type", "meaning"], rows)
    )
