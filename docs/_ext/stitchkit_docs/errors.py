"""The errors of the package, each with the facts that it carries."""

from __future__ import annotations

import inspect
from typing import Final

from stitchkit_django.core import errors as module
from stitchkit_django.core.errors import StitchkitError
from stitchkit_docs.markdown import paragraphs
from stitchkit_docs.operations import methods
from stitchkit_docs.source import docstring

EVERYWHERE: Final = {
    "ConversationPurgedError": "every call on a conversation that was purged",
    "CorruptRecordError": "every call that reads the row",
    "UnsupportedSchemaVersionError": "every call that reads the row",
    "StoreUnavailableError": "every call",
}
"""Errors that no single method's docstring has to itself."""


def classes() -> list[type[StitchkitError]]:
    """Give every error, as the module has them."""
    found = [one for _, one in inspect.getmembers(module, inspect.isclass)]
    return sorted(
        (one for one in found if issubclass(one, StitchkitError)),
        key=lambda one: inspect.getsourcelines(one)[1],
    )


def described() -> str:
    """Give each error with its attributes and the methods that raise it."""
    return paragraphs(*map(_described, classes()))


def _described(cls: type[StitchkitError]) -> str:
    doc = docstring(cls)
    attributes = [f"- `{name}`: {text}" for name, text in doc.of("Attributes").items()]
    return paragraphs(
        f"### {cls.__name__}",
        doc.summary,
        doc.rest,
        paragraphs("It has the attributes", "\n".join(attributes)) if attributes else "",
        _raised_by(cls.__name__),
    )


def _raised_by(name: str) -> str:
    if name == "StitchkitError":
        return ""
    if name in EVERYWHERE:
        return f"Raised by {EVERYWHERE[name]}."
    raising = [
        f"[`{method}`](operations.md#{method})"
        for method, function in methods().items()
        if name in docstring(function).of("Raises")
    ]
    return f"Raised by {', '.join(raising)}."
