"""The command for the peers; no peer is installed here, so the store is measured alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers.environments import REQUIREMENTS, versions
from benchmarks.peers.process import Kind, PeerFailedError, started

ROOT = Path(__file__).parents[2]


@pytest.mark.postgres
def test_a_peer_that_cannot_be_installed_is_named_and_the_rest_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "report.json"

    done = command(
        *("--database", os.environ["STITCHKIT_TEST_POSTGRES_URL"]),
        *("--only", "langgraph", "--lengths", "4,100", "--rounds", "1"),
        *("--cache", str(tmp_path / "cache"), "--json", str(path)),
        environment={"PIP_NO_INDEX": "1"},
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    assert "pip can't install it" in report["missing"]["langgraph"]
    assert "not measured: langgraph" in done.stdout
    assert {one["section"] for one in report["measurements"]} == {
        "turn, the last 100 read",
        "turn, all messages read",
        "read, the last 100 read",
        "read, all messages read",
    }
    turns = [one for one in report["measurements"] if one["section"].startswith("turn")]
    assert all(one["written_bytes"] > 0 for one in turns)


def test_the_peers_are_refused_on_sqlite() -> None:
    done = command("--database", "sqlite")

    assert done.returncode == 2
    assert "PostgreSQL alone" in done.stderr


def test_a_worker_that_cannot_begin_is_told_as_failed() -> None:
    kind = Kind("broken", "benchmarks.peers.workers.none")

    with (
        pytest.raises(PeerFailedError, match=r"worker of broken has ended \(status 1\)"),
        started(kind, sys.executable, "postgresql://127.0.0.1"),
    ):
        pass


@pytest.mark.parametrize(
    "requirements", sorted(REQUIREMENTS.glob("*.txt")), ids=lambda path: path.stem
)
def test_all_that_a_peer_needs_is_pinned(requirements: Path) -> None:
    lines = requirements.read_text().split("\n")

    assert len(versions(requirements.stem)) == len([line for line in lines if line])


def command(
    *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command as its user does."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
