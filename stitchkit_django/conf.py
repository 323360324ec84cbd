"""The setting STITCHKIT, read once and checked whole; no other code reads it."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver
from django.utils.module_loading import import_string
from msgspec import Meta

from stitchkit_django.core.errors import shown
from stitchkit_django.core.operations import MAX_LEASE
from stitchkit_django.core.values import DEPTH_CEILING
from stitchkit_django.core.wire import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

SETTING: Final = "STITCHKIT"

LEAST_LEASE_SECONDS: Final = 0.001
MOST_LEASE_SECONDS: Final = MAX_LEASE.total_seconds()

_Name: TypeAlias = Annotated[str, Meta(min_length=1)]
_Path: TypeAlias = Annotated[_Name | None, Meta(description="a dotted path, or None")]


class HostModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A product's model that hosts rows of the store."""

    model: _Name
    """`app_label.ModelName`."""
    columns: dict[str, _Name] = {}
    """Of each field of the abstract model that the product's calls otherwise: its name there."""


_Host: TypeAlias = Annotated[
    _Name | HostModel | None,
    Meta(description="'app_label.ModelName', {'model': …, 'columns': {…}}, or None"),
]


class Conf(msgspec.Struct, frozen=True, kw_only=True):
    """What a project has set; a field's name in capitals is its key in the setting."""

    database: Annotated[_Name | None, Meta(description="the alias of a database, or None")] = None
    """Alias of the database; None: where the router writes conversations."""
    conversation_model: _Host = None
    """The product's model that hosts the heads; None: the package's own."""
    message_model: _Host = None
    """The product's model that hosts the messages; None: the package's own."""
    max_message_bytes: Annotated[
        int, Meta(ge=1, le=2**63 - 1, description="a whole number of 1 or more")
    ] = Limits().max_message_bytes
    """Of one message's parts and metadata, as stored."""
    max_depth: Annotated[
        int,
        Meta(ge=1, le=DEPTH_CEILING, description=f"a whole number from 1 to {DEPTH_CEILING}"),
    ] = Limits().max_depth
    """Levels of dict and list in one JSON value."""
    archive_compacted: Annotated[bool, Meta(description="True or False")] = True
    """Keep messages that a summary has replaced; False deletes them."""
    publishers: Annotated[
        tuple[_Name, ...], Meta(description="a list or tuple of dotted paths")
    ] = ()
    """Dotted paths of callables that are given each event after its commit."""
    dispatcher: _Path = None
    """Dotted path of a `core.driver.Dispatcher`, which hands a run to the project's workers; None:
    nobody is told, and workers look for runs themselves."""
    recovery_policy: _Path = None
    """Dotted path of a `core.recovery.Policy`; None: the one that `recover_runs` describes."""
    idempotency_horizon: Annotated[
        timedelta | None, Meta(description="a positive timedelta, or None")
    ] = None
    """How long after its end a run answers retries; None: not set, nothing is purged by itself."""
    lease_seconds: Annotated[
        float,
        Meta(
            ge=LEAST_LEASE_SECONDS,
            le=MOST_LEASE_SECONDS,
            description=f"a number from {LEAST_LEASE_SECONDS} to {MOST_LEASE_SECONDS:.0f}",
        ),
    ] = 60.0
    """What a runtime passes as the lease; the store itself has no default."""
    max_attempts: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="a whole number of 1 or more, or None"),
    ] = None
    """How often a run is acquired before recovery abandons it; None: no limit."""
    redact: _Path = None
    """Dotted path of a callable that masks parts before they are shown, exported or logged."""

    @property
    def limits(self) -> Limits:
        """The limits of one message."""
        return Limits(max_message_bytes=self.max_message_bytes, max_depth=self.max_depth)

    @property
    def dotted_paths(self) -> tuple[tuple[str, str], ...]:
        """Each key that names what is to be called, with the path that it gives."""
        single = {
            "DISPATCHER": self.dispatcher,
            "RECOVERY_POLICY": self.recovery_policy,
            "REDACT": self.redact,
        }
        named = [(key, path) for key, path in single.items() if path is not None]
        return (*(("PUBLISHERS", path) for path in self.publishers), *named)


_current: list[Conf] = []


def conf() -> Conf:
    """Give the project's settings.

    Raises:
        ImproperlyConfigured: the setting has an unknown key or a value that can't be.
    """
    if not _current:
        _current.append(_read())
    return _current[0]


def imported(key: str, path: str) -> Callable[..., Any]:
    """Import what a dotted path of the setting names.

    Args:
        key: of the setting, for the error.
        path: as the setting gives it.

    Raises:
        ImproperlyConfigured: it can't be imported or called, or is a class: called with what the
            key's callables are given, a class would make an instance and do nothing.
    """
    where = f"{SETTING}[{key!r}] names {shown(path)}"
    try:
        found: object = import_string(path)
    except Exception as error:  # the module runs while it is imported, and may raise anything
        msg = f"{where}, which can't be imported: {type(error).__name__}: {error}"
        raise ImproperlyConfigured(msg) from error
    if inspect.isclass(found):
        msg = f"{where}, which is a class: name a function, or an instance that can be called"
        raise ImproperlyConfigured(msg)
    if not callable(found):
        msg = f"{where}, which can't be called: name a function, or an instance that can be called"
        raise ImproperlyConfigured(msg)
    return found


def _read() -> Conf:
    given: Any = getattr(settings, SETTING, {})
    if not isinstance(given, dict):
        msg = f"{SETTING} is {shown(given)}: make it a dict"
        raise ImproperlyConfigured(msg)
    known = {field.name.upper(): field for field in msgspec.structs.fields(Conf)}
    for key in given:
        if key not in known:
            msg = f"{SETTING} has the unknown key {shown(key)}: it knows {', '.join(known)}"
            raise ImproperlyConfigured(msg)
    return Conf(**{known[key].name: _converted(known[key], given[key]) for key in given})


def _converted(field: msgspec.structs.FieldInfo, value: object) -> Any:  # noqa: ANN401 - the field's
    try:
        converted = msgspec.convert(value, field.type, builtin_types=(timedelta,))
    except msgspec.ValidationError as error:
        raise _refused(field, value) from error
    if isinstance(converted, timedelta) and converted <= timedelta():
        raise _refused(field, value)
    return converted


def _refused(field: msgspec.structs.FieldInfo, value: object) -> ImproperlyConfigured:
    wanted = next(one.description for one in field.type.__metadata__ if isinstance(one, Meta))
    return ImproperlyConfigured(
        f"{SETTING}[{field.name.upper()!r}] is {shown(value)}: make it {wanted}"
    )


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting == SETTING:
        _current.clear()
