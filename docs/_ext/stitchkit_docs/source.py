"""Reads what the package's source says of itself: docstrings, also those of fields."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from textwrap import dedent
from typing import NamedTuple

_SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Source): ?(.*)$")
_ITEM = re.compile(r"^(\w+): (.*)$")


class Docstring(NamedTuple):
    """A docstring in Google's form, taken apart."""

    summary: str
    """Its first paragraph."""
    rest: str
    """What follows, before the first section."""
    items: dict[str, dict[str, str]]
    """Of the sections Args, Raises and Attributes: each name with its text."""
    returns: str

    def of(self, section: str) -> dict[str, str]:
        """Give the items of a section; none where the docstring has no such section."""
        return self.items.get(section, {})


def docstring(described: object) -> Docstring:
    """Take the docstring of a class or a function apart."""
    text = inspect.getdoc(described) or ""
    sections: dict[str, list[str]] = {"": []}
    current = sections[""]
    for line in text.splitlines():
        found = _SECTION.match(line)
        if found:
            current = sections.setdefault(found[1], [found[2]] if found[2] else [])
        else:
            current.append(line)
    summary, _, rest = "\n".join(sections[""]).strip().partition("\n\n")
    named = ("Args", "Raises", "Attributes")
    items = {name: _items(sections[name]) for name in named if name in sections}
    return Docstring(summary, rest.strip(), items, _text(sections.get("Returns", [])))


def field_docs(cls: type) -> dict[str, str]:
    """Give what stands under each field of a class, its base classes' fields included."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if one.__module__.startswith("stitchkit_django"):
            found |= _own_field_docs(one)
    return found


@cache
def field_types(cls: type) -> dict[str, str]:
    """Give the type of each field as the source writes it, base classes' fields included."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if one.__module__.startswith("stitchkit_django"):
            found |= {name: _written(kind) for name, kind in inspect.get_annotations(one).items()}
    return found


@cache
def _own_field_docs(cls: type) -> dict[str, str]:
    body = ast.parse(dedent(inspect.getsource(cls))).body[0]
    if not isinstance(body, ast.ClassDef):
        raise TypeError(f"{cls} has a source that is no class")
    return {
        field.target.id: doc.value.value
        for field, doc in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
        and isinstance(doc.value.value, str)
    }


def _written(kind: object) -> str:
    # A named tuple wraps what the source says.
    return str(getattr(kind, "__forward_arg__", kind))


def _items(lines: list[str]) -> dict[str, str]:
    items: dict[str, str] = {}
    name = ""
    for line in dedent("\n".join(lines)).splitlines():
        found = _ITEM.match(line)
        if found:
            name = found[1]
            items[name] = found[2]
        elif line.strip():
            items[name] += f" {line.strip()}"
    return items


def _text(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines).strip()
