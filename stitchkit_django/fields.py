"""Model fields: identifiers compared byte for byte, and JSON text that holds a record."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from django.db import models

from stitchkit_django.core import wire
from stitchkit_django.core.values import MAX_IDENTIFIER_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.backends.base.base import BaseDatabaseWrapper

    _CharField = models.CharField[Any, Any]
    _TextField = models.TextField[Any, Any]
else:
    # Django's fields are generic for the type checker alone.
    _CharField = models.CharField
    _TextField = models.TextField

# SQLite's own default is binary. An unlisted database keeps its default.
BINARY_COLLATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"postgresql": "C", "mysql": "utf8mb4_nopad_bin"}
)

CODECS: Final[Mapping[str, wire.Codec[Any]]] = MappingProxyType(
    {
        "parts": wire.PARTS,
        "metadata": wire.METADATA,
        "usage": wire.USAGE,
        "message": wire.MESSAGE,
        "identifiers": wire.IDENTIFIERS,
        "text": wire.TEXT,
    }
)


class IdentifierField(_CharField):
    """An id, key, owner id or policy name: 1 to 255 characters, compared byte for byte."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the base's own
        """Take what a CharField takes; the length is given."""
        kwargs["max_length"] = MAX_IDENTIFIER_CHARACTERS
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:  # noqa: ANN401 - as the base class says
        """Leave out the length, which this class gives."""
        name, path, args, kwargs = super().deconstruct()
        del kwargs["max_length"]
        return name, path, args, kwargs

    def db_type(self, connection: BaseDatabaseWrapper) -> Any:  # noqa: ANN401 - as the base class says
        """Use PostgreSQL's text, whose length it takes from the rows.

        Of a varchar(255) that it has no statistics of, its planner takes the average for 500
        bytes, so few rows for a table, and one index of a conversation for as good as another.
        """
        return "text" if connection.vendor == "postgresql" else super().db_type(connection)

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:  # noqa: ANN401 - likewise
        """Add the binary collation of the database."""
        parameters = super().db_parameters(connection)
        binary = BINARY_COLLATIONS.get(connection.vendor)
        return {**parameters, "collation": parameters.get("collation") or binary}


class RecordField(_TextField):
    """A record, or a part of one, as JSON text."""

    def __init__(self, *args: Any, kind: str, **kwargs: Any) -> None:  # noqa: ANN401 - the base's own
        """Take what a TextField takes, and a key of `CODECS`."""
        self.kind = kind
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:  # noqa: ANN401 - as the base class says
        """Keep the kind."""
        name, path, args, kwargs = super().deconstruct()
        return name, path, args, {**kwargs, "kind": self.kind}

    def from_db_value(self, value: str | None, *_: object) -> Any:  # noqa: ANN401 - any record
        """Build the record."""
        return None if value is None else CODECS[self.kind].decode(value)

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - any record
        """Build the record from its text, as a serialized fixture has it."""
        return CODECS[self.kind].decode(value) if isinstance(value, str) else value

    def get_prep_value(self, value: Any) -> str | None:  # noqa: ANN401 - any record
        """Write the record as text."""
        return None if value is None else CODECS[self.kind].encode(value)

    def value_to_string(self, obj: models.Model) -> Any:  # noqa: ANN401 - as the base class says
        """Write the record as text for a fixture."""
        return self.get_prep_value(self.value_from_object(obj))
