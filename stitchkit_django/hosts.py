"""Which models host the rows of the store: the package's own, or a product's by the setting.

A product's model has the columns of `AbstractConversation` or `AbstractMessage`, under their names
or others, and whatever it likes beside them. Runs and receipts are always the package's own.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import router
from django.db.models import NOT_PROVIDED
from django.dispatch import receiver

from stitchkit_django.conf import SETTING, HostModel, conf
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.db import models

# The key of a table, which a product's row has of its own.
_OWN_KEYS: Final = frozenset({"id"})
_COUNTING: Final = frozenset({"AutoField", "BigAutoField", "SmallAutoField"})


class Host(NamedTuple):
    """A model whose table hosts rows of one kind."""

    model: type[models.Model]
    names: dict[str, str]
    """The model's own name of each field that the store knows by another."""
    template: type[models.Model]
    """The package's model of the same kind: it has the fields that are wanted."""

    def field(self, name: str) -> models.Field[object, object]:
        """Give the field that the store knows by a name.

        Raises:
            ImproperlyConfigured: the model has none.
        """
        own = self.names.get(name, name)
        try:
            found = self.model._meta.get_field(own)
        except FieldDoesNotExist as error:
            raise self._refused(f"has no field {own!r}, which would hold {name!r}") from error
        if getattr(found, "column", None) is None:
            raise self._refused(f"keeps its field {own!r} in no column, as {name!r} must be")
        return found  # type: ignore[return-value] # what has a column is a field

    def fields(self) -> Iterator[tuple[str, models.Field[object, object]]]:
        """Give each field that the store uses, by the name that the store knows it by."""
        for field in self.template._meta.concrete_fields:
            if self.model is self.template or field.attname not in _OWN_KEYS:
                yield field.attname, self.field(field.attname)

    def own(self, *names: str) -> list[str]:
        """Give the model's own names of fields, to ask its rows by."""
        return [self.field(name).name for name in names]

    def rows(self, using: str) -> models.QuerySet[models.Model]:
        """Give all its rows in a database, whatever a product's own managers leave out."""
        return self.model._base_manager.using(using)

    def check(self) -> None:
        """Check that the model has the fields that the store reads and writes.

        Raises:
            ImproperlyConfigured: a field is missing, or a name of `columns` stands for none.
        """
        known = dict(self.fields())
        for name in self.names:
            if name not in known:
                raise self._refused(f"gives {name!r} a name: the store knows {', '.join(known)}")

    def wants(self) -> list[str]:
        """Give the fields of the product's own that must be given with each new row.

        The store writes SQL, so a default of the model is never asked for.
        """
        used = [field for _, field in self.fields()]
        return [
            field.name
            for field in self.model._meta.local_concrete_fields
            if field not in used and _must_be_given(field)
        ]

    def _refused(self, why: str) -> ImproperlyConfigured:
        return ImproperlyConfigured(f"{self.model._meta.label} {why}")


@cache
def hosts() -> Mapping[str, Host]:
    """Give the host of each kind of row: head, run, receipt, message; looked up once.

    Raises:
        ImproperlyConfigured: the setting names no model, or one that can't host the rows.
    """
    settings = conf()
    return MappingProxyType(
        {
            "head": _host("CONVERSATION_MODEL", settings.conversation_model, Conversation),
            "run": Host(Run, {}, Run),
            "receipt": Host(AdmissionReceipt, {}, AdmissionReceipt),
            "message": _host("MESSAGE_MODEL", settings.message_model, Message),
        }
    )


def default_alias() -> str:
    """Give the alias of the store's database: the setting's, else where the router writes heads.

    Raises:
        ImproperlyConfigured: the settings can't be used.
    """
    return conf().database or router.db_for_write(hosts()["head"].model)


def _host(key: str, given: HostModel | str | None, own: type[models.Model]) -> Host:
    if given is None:
        return Host(own, {}, own)
    named = HostModel(model=given) if isinstance(given, str) else given
    try:
        model = apps.get_model(named.model)
    except (LookupError, ValueError) as error:
        msg = f"{SETTING}[{key!r}] names {named.model!r}, which is no installed model: {error}"
        raise ImproperlyConfigured(msg) from error
    host = Host(model, named.columns, own)
    try:
        host.check()
    except ImproperlyConfigured as error:
        msg = f"{SETTING}[{key!r}] can't be used: {error}"
        raise ImproperlyConfigured(msg) from error
    if own is Message and host.wants():
        # A head can be the product's to make; a message can't.
        msg = (
            f"{SETTING}[{key!r}] can't be used: {named.model} wants a value for "
            f"{', '.join(map(repr, host.wants()))} in each row, which the store doesn't know: let "
            "it be null, or give it a db_default"
        )
        raise ImproperlyConfigured(msg)
    return host


def _must_be_given(field: models.Field[object, object]) -> bool:
    has_default = field.db_default is not NOT_PROVIDED or field.get_internal_type() in _COUNTING
    return not (field.null or field.generated or has_default)


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting in {SETTING, "INSTALLED_APPS"}:
        hosts.cache_clear()
