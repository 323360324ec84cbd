"""The pages about recovery and purges: each command is run, and says what its page says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.django.test_command_pages import blocks, commands, done, done_here
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

GUIDE: Final = "docs/how-to/operate.md"
PAGES: Final = [
    GUIDE,
    *(
        f"docs/reference/commands/{name}.md"
        for name in ("recover_runs", "purge_idempotency", "purge_history", "purge_conversation")
    ),
]


@pytest.mark.parametrize("name", PAGES)
def test_each_command_says_what_its_page_says(
    sqlite_alias: str,  # noqa: ARG001 - the database of the commands, emptied afterwards
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    child_environment: dict[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = child_environment | {"PYTHONPATH": str(ROOT)}
    run = 0

    for block in blocks(name):
        where = f"{name}:{block.line}"
        if block.language == "before":
            assert done_here(block, where) == ""
        for command, said in commands(block) if block.language == "console" else ():
            assert (command, done(command, environment)) == (command, said), where
            run += 1

    assert run >= 2


def test_each_line_of_the_crontab_can_run(
    sqlite_alias: str,  # noqa: ARG001 - likewise
    child_environment: dict[str, str],
) -> None:
    (crontab,) = [block for block in blocks(GUIDE) if block.caption == "crontab"]
    lines = re.findall(r"^[\d*][\d* ]+ (manage\.py .*)$", crontab.text, re.MULTILINE)
    environment = child_environment | {"PYTHONPATH": str(ROOT)}

    found = {line: done(f"python {line}; echo $?", environment) for line in lines}

    assert len(found) == 4
    for line, said in found.items():
        if "purge_idempotency" in line:
            # Of all settings, the tests' own have no horizon.
            assert said.startswith("2\nCommandError: --older-than: is needed"), line
        else:
            assert said.endswith("0\n"), (line, said)
