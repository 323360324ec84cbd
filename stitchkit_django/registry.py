"""get_store: one store for each database alias, built on first use, sync and async."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import router
from django.dispatch import receiver
from django.utils.module_loading import import_string

from stitchkit_django.conf import SETTING, conf
from stitchkit_django.core.store import AgentStore
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.events import send_run_event
from stitchkit_django.models import Conversation

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

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


def get_store(using: str | None = None) -> DjangoStore:
    """Give the store of a database.

    Args:
        using: alias of the database; None: the setting's `DATABASE`, and where that is unset, the
            one that the router writes conversations to.

    Raises:
        ImproperlyConfigured: the settings can't be used.
        ConnectionDoesNotExist: there is no such alias.
    """
    alias = using or conf().database or router.db_for_write(Conversation)
    if alias not in _stores:
        settings = conf()
        _stores[alias] = DjangoStore(
            DjangoDriver(alias),
            limits=settings.limits,
            archive_compacted=settings.archive_compacted,
            publishers=(send_run_event, *map(_imported, settings.publishers)),
        )
    return _stores[alias]


def _imported(path: str) -> Callable[..., object]:
    try:
        found: object = import_string(path)
    except ImportError as error:
        msg = f"{SETTING}['PUBLISHERS'] names {path!r}, which can't be imported: {error}"
        raise ImproperlyConfigured(msg) from error
    if not callable(found):
        msg = f"{SETTING}['PUBLISHERS'] names {path!r}, which can't be called"
        raise ImproperlyConfigured(msg)
    return found


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting in {SETTING, "DATABASES", "DATABASE_ROUTERS", "USE_TZ"}:
        _stores.clear()
