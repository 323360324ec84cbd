"""Nothing in a page leads nowhere."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import ROOT, Page, page, pages

PAGES: Final = pages()
SHOWN: Final = re.compile(r"^```\{literalinclude\} (\S+)\n((?:^:.*\n)*)", re.MULTILINE)
PARTS: Final = re.compile(r"^(?:## )?(Status|Context|Decision|Consequences)\b", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_relative_link_leads_to_a_file_and_an_anchor_of_it(page: Page) -> None:
    broken = [link for link in sorted(page.links()) if not leads_somewhere(page, link)]

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_part_of_a_file_that_is_shown_is_there(page: Page) -> None:
    missing = [shown for shown in SHOWN.findall(page.text) if not is_in_its_file(page, *shown)]

    assert missing == []


def test_decision_records_are_numbered_without_a_gap_and_say_what_they_must() -> None:
    records = [one for one in PAGES if re.fullmatch(r"docs/adr/\d{4}-.*\.md", one.name)]

    numbers = [int(one.path.name[:4]) for one in records]
    titles = [re.match(r"# (\d+)\. \S", one.text) for one in records]
    assert numbers == list(range(1, len(records) + 1))
    assert [title and int(title[1]) for title in titles] == numbers
    for one in records:
        assert PARTS.findall(one.text) == ["Status", "Context", "Decision", "Consequences"]


def test_a_broken_link_would_be_seen() -> None:
    index = page("docs/index.md")

    assert leads_somewhere(index, "glossary.md")
    assert leads_somewhere(index, "reference/operations.md#acquire_run")
    assert leads_somewhere(index, "reference/checks.md#stitchkit-w001")
    assert not leads_somewhere(index, "glossaries.md")
    assert not leads_somewhere(index, "reference/operations.md#acquire_runs")


def leads_somewhere(source: Page, link: str) -> bool:
    """Tell whether a link leads to what is there; one to another site is not followed."""
    parts = urlsplit(link)
    if parts.scheme:
        return parts.scheme in {"https", "http"}
    target = (source.path.parent / parts.path).resolve() if parts.path else source.path
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    if not parts.fragment:
        return True
    return parts.fragment in page(str(target.relative_to(ROOT))).anchors()


def is_in_its_file(source: Page, name: str, options: str) -> bool:
    """Tell whether a file is there, with the object and the marks that are to be shown of it."""
    path = source.path.parent / name
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8")
    objects = re.findall(r"^:pyobject: (.+)$", options, re.MULTILINE)
    marks = re.findall(r"^:(?:start|end)-\w+: (.+)$", options, re.MULTILINE)
    defined = re.findall(r"^ *(?:class|def|async def) (\w+)", text, re.MULTILINE)
    return all(set(one.split(".")) <= set(defined) for one in objects) and all(
        mark.strip("\"'") in text for mark in marks
    )
