"""The pages and what stands in them: blocks of code, inline code, links, headings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stitchkit_docs.sections import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
ROOT_PAGES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")

_FENCE = re.compile(r"^(`{3,})(?:\{code-block\} )?(\S*)(?: .*)?$")
_CAPTION = re.compile(r"^:caption: (.+)$")
_HIDDEN = re.compile(r"^<!-- (run|not run: .+ -->)$")
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_TARGET = re.compile(r"^\((.+)\)=$", re.MULTILINE)


class Block(NamedTuple):
    """A block of code, or what only a test reads of a page (its language is `run`)."""

    language: str
    text: str
    line: int
    """Of its first line of code, from 1."""
    caption: str = ""
    is_run: bool = True
    """False where the page says that it isn't run, and why."""


class Page(NamedTuple):
    """A page of the documentation, or one at the root of the repository."""

    name: str
    """Its path from the root of the repository."""
    text: str

    @property
    def path(self) -> Path:
        """Where it lies."""
        return ROOT / self.name

    @property
    def whole(self) -> str:
        """With what is generated."""
        return expanded(self.text)

    def blocks(self) -> list[Block]:
        """Give its blocks, in order."""
        return list(_blocks(self.text.splitlines()))

    def inline(self) -> set[str]:
        """Give what stands as inline code, also where it is generated."""
        return set(_INLINE.findall(_without_blocks(self.whole)))

    def links(self) -> set[str]:
        """Give what is linked to."""
        return set(_LINK.findall(_without_blocks(self.whole)))

    def anchors(self) -> set[str]:
        """Give the anchors that a link to the page may name."""
        whole = _without_blocks(self.whole)
        return {*map(_slug, _HEADING.findall(whole)), *_TARGET.findall(whole)}


def pages() -> list[Page]:
    """Give every page."""
    found = [ROOT / name for name in ROOT_PAGES] + sorted(DOCS.rglob("*.md"))
    return [page(str(path.relative_to(ROOT))) for path in found]


def page(name: str) -> Page:
    """Give the page of a path from the root of the repository."""
    return Page(name, (ROOT / name).read_text(encoding="utf-8"))


def _blocks(lines: list[str]) -> Iterator[Block]:
    skipped, number = False, 0
    while number < len(lines):
        hidden, fence = _HIDDEN.match(lines[number]), _FENCE.match(lines[number])
        number += 1
        if hidden and hidden[1] != "run":
            skipped = True
        elif hidden or fence:
            end = lines.index(fence[1] if fence else "-->", number)
            body, first = lines[number:end], number + 1
            caption = _CAPTION.match(body[0]) if body else None
            if caption:
                body, first = body[2:], first + 2
            text = "".join(f"{line}\n" for line in body)
            language = fence[2] if fence else "run"
            yield Block(language, text, first, caption[1] if caption else "", not skipped)
            skipped, number = False, end + 1


def _without_blocks(text: str) -> str:
    return re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)


def _slug(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower())
    return kept.replace(" ", "-")
