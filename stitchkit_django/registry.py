"""get_store: one store for each database alias, built on first use."""

from __future__ import annotations

from typing import Final

from django.core.signals import setting_changed
from django.db import router
from django.dispatch import receiver

from stitchkit_django.conf import SETTING, conf
from stitchkit_django.core.store import AgentStore
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.models import Conversation

_stores: Final[dict[str, AgentStore]] = {}


def get_store(using: str | None = None) -> AgentStore:
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
        _stores[alias] = AgentStore(
            DjangoDriver(alias),
            limits=settings.limits,
            archive_compacted=settings.archive_compacted,
        )
    return _stores[alias]


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting in {SETTING, "DATABASES", "DATABASE_ROUTERS", "USE_TZ"}:
        _stores.clear()
