"""The tables as Django knows them, and the querysets that read them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from django.apps import apps

from stitchkit_django import querysets
from stitchkit_docs.markdown import code, codes, paragraphs, table
from stitchkit_docs.source import docstring

if TYPE_CHECKING:
    from django.db.models import Field, Model


def tables() -> str:
    """Give each table with its columns, constraints and indexes."""
    return paragraphs(*map(_table, apps.get_app_config("stitchkit_django").get_models()))


def queryset_methods() -> str:
    """Give the methods that the querysets have beside Django's."""
    return table(
        ["model", "method", "what it does"],
        [
            [code(name), code(f"{method}{_arguments(function)}"), docstring(function).summary]
            for name, cls in (
                ("Run", querysets.RunQuerySet),
                ("Message", querysets.MessageQuerySet),
            )
            for method, function in vars(cls).items()
            if inspect.isfunction(function) and not method.startswith("_")
        ],
    )


def _arguments(function: object) -> str:
    names = [name for name in inspect.signature(function).parameters if name != "self"]  # type: ignore[arg-type] # a function
    return f"({', '.join(names)})"


def _table(model: type[Model]) -> str:
    meta = model._meta
    rows = [
        [code(field.column), _type(field), "yes" if field.null else "", str(field.verbose_name)]
        for field in meta.concrete_fields
    ]
    names = [one.name for one in (*meta.constraints, *meta.indexes)]
    return paragraphs(
        f"### {model.__name__}",
        f"{docstring(model).summary} Its table is `{meta.db_table}`.",
        table(["column", "type", "null", "holds"], rows),
        f"Constraints and indexes: {codes(names)}.",
    )


def _type(field: Field[object, object]) -> str:
    kind = getattr(field, "kind", None)
    return code(type(field).__name__) + (f" ({kind})" if isinstance(kind, str) else "")
