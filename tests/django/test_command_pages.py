"""The pages about import, export and check: each command is run, and says what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Final

import pytest

from stitchkit_django.core.integrity import LAWS
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.transfer import import_lines
from tests.django.commanding import ROOT, SECONDS
from tests.docs.pages import Block, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GUIDE: Final = "docs/how-to/import-and-cut-over.md"
CHECK: Final = "docs/reference/commands/check_conversations.md"
EXPORT: Final = "docs/reference/commands/export_conversation.md"
IMPORT: Final = "docs/reference/commands/import_conversations.md"
# What a page has of its own for this test: a change between two of its commands.
_BEFORE: Final = re.compile(r"^<!-- before\n(.*?)^-->$", re.MULTILINE | re.DOTALL)
_SAID: Final = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)


def blocks(name: str) -> list[Block]:
    found = page(name)
    changes = [
        Block("before", match[1], found.text[: match.start()].count("\n") + 2)
        for match in _BEFORE.finditer(found.text)
    ]
    return sorted([*found.blocks(), *changes], key=lambda block: block.line)


def conversations(directory: Path) -> list[bytes]:
    """Give the lines of the guide, once they are put right."""
    for block in blocks(GUIDE):
        if block.caption:
            (directory / block.caption).write_text(block.text)
        if block.language == "before":
            exec(compile(block.text, GUIDE, "exec"), {})  # noqa: S102 - our own page
    return (directory / "conversations.jsonl").read_bytes().splitlines()


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Give each command of a block, and what it says."""
    for told in block.text.split("$ ")[1:]:
        command, _, said = told.partition("\n")
        yield command, said


@pytest.mark.parametrize("name", [GUIDE, CHECK, EXPORT, IMPORT])
def test_each_command_says_what_its_page_says(
    sqlite_alias: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    child_environment: dict[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if name != GUIDE:
        lines = conversations(tmp_path)
        (tmp_path / "all.jsonl").write_bytes(b"\n".join([*lines, b""]))
        if name == EXPORT:
            (tmp_path / "all.jsonl").unlink()
        if name != IMPORT:
            list(import_lines(DjangoDriver(sqlite_alias), lines))
    environment = child_environment | {"PYTHONPATH": str(ROOT)}
    run = 0

    for block in blocks(name):
        where = f"{name}:{block.line}"
        if block.caption:
            (tmp_path / block.caption).write_text(block.text)
        elif block.language == "console":
            for command, said in commands(block):
                assert (command, done(command, environment)) == (command, said), where
                run += 1
        elif block.language in {"python", "run", "before"}:
            assert done_here(block, where) == "".join(
                f"{one}\n" for one in _SAID.findall(block.text)
            )
    assert run >= 2


def done(command: str, environment: dict[str, str]) -> str:
    """Run a command of a page, and give what it says: results, then failures."""
    found = subprocess.run(  # noqa: S602 - as the page's reader does
        command.replace("python manage.py", f"{sys.executable} -m django"),
        shell=True,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return found.stdout + found.stderr


def done_here(block: Block, where: str) -> str:
    """Run a page's Python, and give what it prints."""
    said = StringIO()
    with redirect_stdout(said):
        exec(compile(block.text, where, "exec"), {})  # noqa: S102 - our own page
    return said.getvalue()


def test_the_page_of_the_check_lists_every_rule_as_it_is() -> None:
    rules = page(CHECK).text.partition("## The rules")[2]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", rules, re.MULTILINE)

    assert rows == [(str(rule), law) for rule, law in LAWS.items()]
