"""Rows whole, as JSON: what a page cuts. The project's redaction holds here, too."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from django.http import HttpResponse

from stitchkit_django.admin.reading import decoded
from stitchkit_django.core.redaction import MASK, redacted, redacted_message
from stitchkit_django.fields import CODECS
from stitchkit_django.redaction import redaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stitchkit_django.admin.reading import Row
    from stitchkit_django.core.redaction import Redact

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store"}


def raw_response(value: object) -> HttpResponse:
    """Give a value as JSON, indented; no browser takes it for a page."""
    text = _ENCODER.encode(value)
    # What holds half of a pair of surrogates is stored as such, and msgspec lays out none.
    with suppress(msgspec.DecodeError):
        text = msgspec.json.format(text, indent=2)
    return HttpResponse(text, content_type="application/json; charset=utf-8", headers=HEADERS)


def raw_row(row: Row, bodies: dict[str, str], *, left_out: Iterable[str] = ()) -> dict[str, Any]:
    """Give a row's fields, its bodies as the JSON that they hold.

    Args:
        row: as it was read.
        bodies: the kind of each body, by its field.
        left_out: fields that are none of the row's.
    """
    skipped = {"moment", "pk", *left_out}
    redact = redaction()
    return {
        name: _body(kind, value, row, redact) if (kind := bodies.get(name)) else value
        for name, value in vars(row).items()
        if name not in skipped
    }


def _body(kind: str, text: str | bytes | None, row: Row, redact: Redact | None) -> object:
    found = decoded(kind, text, row.schema_version)
    if found.problem is not None:
        # As a string: it is no JSON, or none that this version knows.
        return {"unreadable": MASK if redact else _exact(found.text)}
    if found.value is None:
        return None
    return msgspec.Raw(CODECS[kind].encode(_redacted(kind, found.value, redact)).encode())


def _redacted(kind: str, value: Any, redact: Redact | None) -> Any:  # noqa: ANN401 - any body
    if kind == "parts":
        return tuple(redacted(part, redact) for part in value)
    return redacted_message(value, redact) if kind == "message" else value


def _exact(text: str) -> msgspec.Raw:
    # Bytes that are no UTF-8 came as lone surrogates, which only an escape can write.
    return msgspec.Raw(json.dumps(text).encode())
