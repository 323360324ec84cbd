"""get_store: one store for each database alias, built on first use, sync and async."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.core.signals import setting_changed
from django.dispatch import receiver

from stitchkit_django.conf import SETTING, conf, imported
from stitchkit_django.core.hints import Hints
from stitchkit_django.core.store import AgentStore
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.events import send_run_event
from stitchkit_django.hosts import default_alias

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from stitchkit_django.core.driver import Dispatcher, Driver
    from stitchkit_django.core.store import Publisher

P = ParamSpec("P")
R = TypeVar("R")


def _async(
    method: Callable[Concatenate[AgentStore, P], R],
) -> Callable[Concatenate[AgentStore, P], Coroutine[Any, Any, R]]:
    # One hop to a thread around the whole call, so that a transaction stays on one thread.
    @wraps(method)
    async def called(self: AgentStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await sync_to_async(method, thread_sensitive=True)(self, *args, **kwargs)

    called.__name__ = f"a{method.__name__}"
    called.__qualname__ = f"DjangoStore.a{method.__name__}"
    called.__doc__ = f"Do as `{method.__name__}` does, from async code: in one hop to a thread."
    return called


class DjangoStore(AgentStore):
    """A store over Django's database; each method has an `a` form for async code."""

    aaccept_input = _async(AgentStore.accept_input)
    aacquire_run = _async(AgentStore.acquire_run)
    acheckpoint_run = _async(AgentStore.checkpoint_run)
    arenew_lease = _async(AgentStore.renew_lease)
    arequest_interrupt = _async(AgentStore.request_interrupt)
    acancel_run = _async(AgentStore.cancel_run)
    arecover_run = _async(AgentStore.recover_run)
    acommit_terminal = _async(AgentStore.commit_terminal)
    acompact_history = _async(AgentStore.compact_history)
    apurge_conversation = _async(AgentStore.purge_conversation)
    aload_snapshot = _async(AgentStore.load_snapshot)
    aload_run = _async(AgentStore.load_run)
    alist_active_runs = _async(AgentStore.list_active_runs)
    aload_history = _async(AgentStore.load_history)
    ascan_recoverable = _async(AgentStore.scan_recoverable)


_stores: Final[dict[str, DjangoStore]] = {}
_drivers: Final[list[Callable[[str], Driver]]] = [DjangoDriver]
_dispatchers: Final[list[Dispatcher]] = []
"""The last of each is used; there are others only inside `replaced`."""


def get_store(using: str | None = None) -> DjangoStore:
    """Give the store of a database.

    Args:
        using: alias of the database; None: the setting's `DATABASE`, and where that is unset, the
            one that the router writes conversations to.

    Raises:
        ImproperlyConfigured: the settings can't be used.
        ConnectionDoesNotExist: there is no such alias.
    """
    alias = using or default_alias()
    if alias not in _stores:
        _stores[alias] = _built(_drivers[-1](alias))
    return _stores[alias]


def get_dispatcher() -> Dispatcher | None:
    """Give the callable that the setting's `DISPATCHER` names; None where it is unset.

    Raises:
        ImproperlyConfigured: it can't be imported or called.
    """
    if _dispatchers:
        return _dispatch_to_the_last
    path = conf().dispatcher
    return None if path is None else imported("DISPATCHER", path)


@contextmanager
def replaced(
    *, drivers: Callable[[str], Driver] | None = None, dispatcher: Dispatcher | None = None
) -> Iterator[None]:
    """Let stores be built of something else while the block lasts: for tests, in every thread.

    Args:
        drivers: gives the driver of an alias; None: as before.
        dispatcher: takes the place of the setting's; None: as before.
    """
    before = len(_drivers), len(_dispatchers)
    if drivers is not None:
        _drivers.append(drivers)
    if dispatcher is not None:
        _dispatchers.append(dispatcher)
    _stores.clear()
    try:
        yield
    finally:
        del _drivers[before[0] :], _dispatchers[before[1] :]
        _stores.clear()


def _built(driver: Driver) -> DjangoStore:
    settings = conf()
    return DjangoStore(
        driver,
        limits=settings.limits,
        archive_compacted=settings.archive_compacted,
        publishers=tuple(_publishers(driver)),
    )


def _publishers(driver: Driver) -> Iterator[Publisher]:
    yield send_run_event
    for path in conf().publishers:
        yield imported("PUBLISHERS", path)
    dispatcher = get_dispatcher()
    if dispatcher is not None:
        # The last: a run is executed inline once everybody knows that it is there.
        yield Hints(driver, dispatcher)


def _dispatch_to_the_last(conversation_id: str, run_id: str) -> None:
    # Looked up at each call: a store that a test was given early knows what is replaced later.
    _dispatchers[-1](conversation_id, run_id)


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting in {SETTING, "DATABASES", "DATABASE_ROUTERS", "USE_TZ"}:
        _stores.clear()
