"""The command measures, reports, and leaves nothing behind; what it measures is not looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from benchmarks.databases import made

ROOT = Path(__file__).parents[2]
BRIEFLY = ["--seconds", "0.02", "--lengths", "0,100,102", "--threads", "2", "--active-runs", "150"]
FIELDS = {
    "section",
    "name",
    "contender",
    "count",
    "p50_us",
    "p95_us",
    "per_second",
    "floor",
    "ratio_of",
    "ratio",
    "length",
    "written_bytes",
    "written_bytes_least",
    "growth",
    "growth_of_written",
}


def test_the_command_measures_on_sqlite(tmp_path: Path) -> None:
    report = measured("sqlite", tmp_path)

    check_structure(report)
    assert report["machine"]["database"].startswith("SQLite")


@pytest.mark.postgres
def test_the_command_measures_on_postgresql(tmp_path: Path) -> None:
    report = measured(os.environ["STITCHKIT_TEST_POSTGRES_URL"], tmp_path)

    check_structure(report)
    assert report["machine"]["database"].startswith("PostgreSQL")
    turns = [one for one in report["measurements"] if one["name"].startswith("turn at")]
    assert all(one["written_bytes"] > 0 for one in turns)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--threads", "-1"),
        ("--lengths", "1"),
        ("--only", "speed"),
        ("--json", "/nowhere/at/all.json"),
        ("--database", "postgresql://nobody@127.0.0.1:1/nothing"),
    ],
)
def test_a_bad_option_is_refused_before_anything_is_measured(option: str, value: str) -> None:
    done = command(f"{option}={value}")

    assert done.returncode == 2
    assert option.strip("-") in done.stderr or "does not answer" in done.stderr
    assert done.stdout == ""


@pytest.mark.postgres
def test_the_database_of_a_run_is_dropped_when_the_run_fails() -> None:
    url = os.environ["STITCHKIT_TEST_POSTGRES_URL"]

    with pytest.raises(ZeroDivisionError), made(url) as own, psycopg.connect(own):
        raise ZeroDivisionError

    with psycopg.connect(url) as connection:
        name = conninfo_to_dict(own)["dbname"]
        there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        assert there.fetchone() is None


def measured(database: str, directory: Path) -> dict[str, Any]:
    """Run the command for as short as can be and give what it has written."""
    path = directory / "report.json"
    done = command("--database", database, "--json", str(path), *BRIEFLY)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(path.read_text())
    for one in report["measurements"]:
        assert one["section"] in done.stdout
    return report


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as its user does."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def check_structure(report: dict[str, Any]) -> None:
    """Check that each contender was measured, and compared with a floor that was, too."""
    measurements = report["measurements"]
    where = {(one["section"], one["name"], one["contender"]) for one in measurements}
    assert {one["contender"] for one in measurements} >= {"store (recommended)", "store (defaults)"}
    for one in measurements:
        assert one.keys() == FIELDS
        assert one["count"] > 0
        assert 0 < one["p50_us"] <= one["p95_us"]
        if one["floor"] is not None:
            assert (one["section"], one["name"], one["floor"]) in where
            assert one["ratio"] > 0
    grown = [one for one in measurements if one["growth"] is not None]
    assert {one["length"] for one in grown} == {102}
    assert report["machine"]["cpus"] == os.cpu_count()
    assert {"python", "django", "psycopg", "database"} <= report["machine"].keys()
