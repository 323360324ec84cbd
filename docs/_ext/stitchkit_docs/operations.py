"""The operations and reads of a store: what they take, what they give, what they refuse."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from stitchkit_django.core import AgentStore
from stitchkit_docs.markdown import capital, code, paragraphs, table
from stitchkit_docs.source import docstring

Method: TypeAlias = Callable[..., object]

_CONFLICTS: Final = re.compile(r"`Conflict` \(([^)]*)\)")
_REASON: Final = re.compile(r"version|revision|state|owner|fence|queue|lease")
_LINE: Final = 88


def methods() -> dict[str, Method]:
    """Give each public method of a store: the operations, then the reads."""
    return {
        name: method
        for cls in AgentStore.__mro__
        for name, method in vars(cls).items()
        if not name.startswith("_") and inspect.isfunction(method)
    }


def mutations() -> dict[str, Method]:
    """Give the methods that write."""
    return {name: one for name, one in methods().items() if name in vars(AgentStore)}


def reads() -> dict[str, Method]:
    """Give the methods that only read."""
    return {name: one for name, one in methods().items() if name not in mutations()}


def conflicts(method: Method) -> list[str]:
    """Give the reasons for which an operation is refused by a conflict."""
    found = _CONFLICTS.search(docstring(method).returns)
    told = [] if found is None else [part.partition(":")[0] for part in re.split("[;,]", found[1])]
    return [reason for part in told for reason in _REASON.findall(part)]


def overview() -> str:
    """Give every operation with its outcomes at a glance."""
    rows = [
        [
            f"[`{name}`](#{name})",
            docstring(method).summary,
            "yes" if "Duplicate" in _annotation(method) else "",
            ", ".join(map(code, conflicts(method))),
            "yes" if "`NotFound`" in docstring(method).returns else "",
        ]
        for name, method in mutations().items()
    ]
    titles = ["operation", "what it does", "`Duplicate`", "`Conflict`, by reason", "`NotFound`"]
    return table(titles, rows)


def described_mutations() -> str:
    """Give each operation whole."""
    return paragraphs(*(_described(name, one) for name, one in mutations().items()))


def described_reads() -> str:
    """Give each read whole."""
    return paragraphs(*(_described(name, one) for name, one in reads().items()))


def _described(name: str, method: Method) -> str:
    doc = docstring(method)
    raises = [f"- `{error}`: {when}" for error, when in doc.of("Raises").items()]
    return paragraphs(
        f"### {name}",
        doc.summary,
        _call(name, method),
        doc.rest,
        _arguments(method),
        f"**Returns** `{_annotation(method)}`. {capital(doc.returns)}",
        paragraphs("**Raises**", "\n".join(raises)) if raises else "",
        f"**Async**: `a{name}`, with the same arguments.",
    )


def _arguments(method: Method) -> str:
    told = docstring(method).of("Args")
    kinds = {
        one.name: one for one in inspect.signature(method).parameters.values() if one.name != "self"
    }
    rows = [
        [code(name), code(one.annotation), _default(one), told.get(name, _OBVIOUS.get(name, ""))]
        for name, one in kinds.items()
    ]
    return table(["argument", "type", "default", "meaning"], rows)


_OBVIOUS: Final = {
    "conversation_id": "of the conversation.",
    "run_id": "of the run.",
    "limit": "how many at the most, 1 to 1,000.",
}


def _default(parameter: inspect.Parameter) -> str:
    return "" if parameter.default is parameter.empty else code(repr(parameter.default))


def _annotation(method: Method) -> str:
    return str(inspect.signature(method).return_annotation)


def _call(name: str, method: Method) -> str:
    words: list[str] = []
    for one in inspect.signature(method).parameters.values():
        if one.name != "self":
            if one.kind is one.KEYWORD_ONLY and "*" not in words:
                words.append("*")
            words.append(one.name if one.default is one.empty else f"{one.name}={one.default!r}")
    joined = ", ".join(words)
    call = f"store.{name}({joined})"
    if len(call) > _LINE:
        call = f"store.{name}(\n" + "".join(f"    {word},\n" for word in words) + ")"
    return f"```python\n{call}\n```"
