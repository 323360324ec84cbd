"""docs/tutorial.md is gone through as its reader does: its files, its commands, real processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.docs.pages import Block, page

if TYPE_CHECKING:
    from collections.abc import Iterator

TUTORIAL: Final = page("docs/tutorial.md")
SECONDS: Final = 120
PORT: Final = "8000"
"""The tutorial's; another process may have it, so each run takes a free one."""


class Reader:
    """Someone who writes the files and types the commands, in a directory of their own."""

    def __init__(self, directory: Path, port: int) -> None:
        """Take where to work, and where the site is to listen."""
        self.directory = directory
        self.port = str(port)
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        inherited = ("PYTEST_", "DJANGO_", "COV_", "STITCHKIT_")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(inherited)
        } | {"PATH": programs, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        self.started: list[subprocess.Popen[str]] = []

    def write(self, block: Block) -> None:
        """Write a file, or add to it what the caption says stands at its end."""
        end, name = re.fullmatch(r"(at the end of )?(\S+)", block.caption).groups()  # type: ignore[union-attr]
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") if end else ""
        path.write_text(before + self.with_port(block.text), encoding="utf-8")

    def type(self, command: str) -> str:
        """Type a command and give what it prints; one that ends in `&` stays in the background."""
        command = self.with_port(command)
        if command.endswith("&"):
            self._start(command.removesuffix("&"))
            return ""
        done = subprocess.run(  # noqa: S602 - our own page
            command,
            cwd=self.directory,
            env=self.environment,
            shell=True,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def with_port(self, text: str) -> str:
        """Give a text with this run's port in place of the tutorial's."""
        return re.sub(rf"\b{PORT}\b", self.port, text)

    def _start(self, command: str) -> None:
        process = subprocess.Popen(  # noqa: S602 - our own page
            command,
            cwd=self.directory,
            env=self.environment,
            shell=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Quit the server" in line:
                break
        else:
            pytest.fail(f"{command}\n{''.join(lines)}")
        self._wait_until_it_listens(process)

    def _wait_until_it_listens(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", int(self.port))) == 0:
                    return


class Typed(NamedTuple):
    """A command of the page, and what it is said to print."""

    command: str
    expected: str


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Give a reader with a free port; what they have started is ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    one = Reader(tmp_path, port)
    yield one
    for process in one.started:
        with ended(process):
            # The server has a child that watches files: both are of the session that we began.
            os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.sqlite
def test_the_tutorial_leads_from_an_empty_project_to_the_first_answer(reader: Reader) -> None:
    ran = 0
    for block in TUTORIAL.blocks():
        if block.language == "python":
            reader.write(block)
        elif block.language == "console" and block.is_run:
            for typed in commands(block):
                printed = reader.type(typed.command)
                assert is_as_said(printed, typed.expected), f"{typed.command}\n{printed}"
                ran += 1

    assert ran >= 9


@pytest.mark.sqlite
def test_each_block_of_the_tutorial_is_a_file_or_commands() -> None:
    kinds = {(block.language, bool(block.caption)) for block in TUTORIAL.blocks()}

    assert kinds == {("console", False), ("python", True)}


def test_what_differs_from_the_page_is_seen() -> None:
    assert is_as_said("one 1\ntwo\n", "one …\ntwo\n")
    assert not is_as_said("one 1\nthree\n", "one …\ntwo\n")
    assert not is_as_said("one\n", "")


def commands(block: Block) -> list[Typed]:
    """Give the commands of a block, each with the lines that follow it."""
    _, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    return [Typed(*part.split("\n", 1)) for part in parts]


def is_as_said(printed: str, expected: str) -> bool:
    """Compare what was printed with the page, where `…` stands for anything in a line."""
    pattern = re.escape(expected).replace("…", ".*")
    return re.fullmatch(pattern, printed) is not None


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Wait for a process that the block ends, and close what it wrote to."""
    yield
    process.wait(timeout=SECONDS)
    assert process.stdout is not None
    process.stdout.close()
