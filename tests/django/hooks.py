"""What stands between a store and its database in a test: it counts, fails, and reads past both."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.db import connections
from django.db.models import Model, QuerySet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRANSACTION_CONTROL: Final = re.compile("(BEGIN|SAVEPOINT|RELEASE|ROLLBACK|COMMIT)")


class Injection:
    """Counts the statements of a connection, those that control a transaction left out."""

    def __init__(self, error: Callable[[], Exception], first: int, last: int) -> None:
        """Raise the error after each statement from the first number to the last has run."""
        self._error = error
        self._numbers = range(first, last + 1)
        self.sent: list[str] = []
        self.failures: list[Exception] = []

    def __call__(self, execute: Callable[..., Any], *statement: Any) -> Any:
        """Run a statement, and fail where it is one of those."""
        context = statement[-1]
        found = execute(*statement)
        if TRANSACTION_CONTROL.match(statement[0]):
            return found
        self.sent.append(statement[0])
        if len(self.sent) not in self._numbers:
            return found
        # As Django's own wrapper notes what a database raises.
        context["connection"].errors_occurred = True
        self.failures.append(self._error())
        raise self.failures[-1]


@contextmanager
def failing(
    using: str, error: Callable[[], Exception], first: int, last: int | None = None
) -> Iterator[Injection]:
    """Let the statements of a connection, from the first number to the last, run and then fail.

    Args:
        using: alias of the database.
        error: makes what is raised.
        first: number of the statement, from 1.
        last: likewise; None: that one alone.
    """
    injection = Injection(error, first, first if last is None else last)
    with connections[using].execute_wrapper(injection):
        yield injection


@contextmanager
def counted(using: str) -> Iterator[list[str]]:
    """Give the statements that are sent, transaction control left out."""
    injection = Injection(AssertionError, 0, -1)
    with connections[using].execute_wrapper(injection):
        yield injection.sent


@contextmanager
def silent(using: str) -> Iterator[None]:
    """Let no statement be sent, not even one that controls a transaction.

    Raises:
        AssertionError: one was.
    """

    def refuse(_execute: object, sql: str, *_: object) -> None:
        raise AssertionError(sql)

    with connections[using].execute_wrapper(refuse):
        yield


def tables(using: str, conversation_id: str | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """Give all rows of each table, or those of one conversation."""
    found = {}
    for model in apps.get_app_config("stitchkit_django").get_models():
        every: QuerySet[Model, Model] = QuerySet(model, using=using)
        named = {} if conversation_id is None else {"conversation_id": conversation_id}
        found[model.__name__] = list(every.filter(**named).order_by("pk").values_list())
    return found
