"""The setting STITCHKIT, read once and checked whole; no other code reads `django.conf`."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver

from stitchkit_django.core.errors import StitchkitError, shown
from stitchkit_django.core.wire import Limits

SETTING: Final = "STITCHKIT"


class Conf(msgspec.Struct, frozen=True, kw_only=True):
    """What a project has set; a field's name in capitals is its key in the setting."""

    database: str | None = None
    """Alias of the database; None: where the router writes conversations."""
    max_message_bytes: int = Limits().max_message_bytes
    """Of one message's parts and metadata, as stored."""
    max_depth: int = Limits().max_depth
    """Levels of dict and list in one JSON value."""
    archive_compacted: bool = True
    """Keep messages that a summary has replaced; False deletes them."""
    publishers: tuple[str, ...] = ()
    """Dotted paths of callables that are given each event after its commit."""

    @property
    def limits(self) -> Limits:
        """The limits of one message."""
        return Limits(max_message_bytes=self.max_message_bytes, max_depth=self.max_depth)


_current: list[Conf] = []


def conf() -> Conf:
    """Give the project's settings.

    Raises:
        ImproperlyConfigured: the setting has an unknown key or a value that can't be.
    """
    if not _current:
        _current.append(_read())
    return _current[0]


def _read() -> Conf:
    given: Any = getattr(settings, SETTING, {})
    if not isinstance(given, dict):
        msg = f"{SETTING} is {shown(given)}: make it a dict"
        raise ImproperlyConfigured(msg)
    known = {field.upper(): field for field in Conf.__struct_fields__}
    for key in given:
        if key not in known:
            msg = f"{SETTING} has the unknown key {shown(key)}: it knows {', '.join(known)}"
            raise ImproperlyConfigured(msg)
    try:
        read = msgspec.convert({known[key]: value for key, value in given.items()}, Conf)
        read.limits  # noqa: B018 - builds, and so checks, them
    except (msgspec.ValidationError, StitchkitError) as error:
        msg = f"{SETTING} can't be used: {error}"
        raise ImproperlyConfigured(msg) from error
    return read


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting == SETTING:
        _current.clear()
