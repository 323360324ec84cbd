"""The command: `python -m benchmarks.peers --help` tells its options."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.arguments import count, database, lengths, names, writable
from benchmarks.databases import PostgresDatabase, made, migrated, server
from benchmarks.machine import facts
from benchmarks.peers.environments import EnvironmentMissingError, default_cache, versions
from benchmarks.peers.process import Kind, PeerFailedError, Worker, started
from benchmarks.peers.rounds import FLOOR, measure
from benchmarks.report import Report
from benchmarks.table import lines
from tests.postgres import ServerMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKERS: Final = "benchmarks.peers.workers"
KINDS: Final = (
    Kind(FLOOR, f"{WORKERS}.store", arguments=("0",)),
    Kind("store, 8 checkpoints", f"{WORKERS}.store", windows=(100,), arguments=("8",)),
    Kind(
        "langgraph",
        f"{WORKERS}.langgraph_saver",
        requirements="langgraph",
        packages=("langgraph", "langgraph-checkpoint-postgres"),
        windows=(None,),
    ),
    Kind(
        "openai-agents",
        f"{WORKERS}.openai_session",
        requirements="openai-agents",
        packages=("openai-agents", "SQLAlchemy", "asyncpg"),
    ),
    Kind(
        "google-adk",
        f"{WORKERS}.adk_session",
        requirements="google-adk",
        packages=("google-adk",),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; give the exit status."""
    chosen = _parser().parse_args(arguments)
    # As an interrupt does it: the database that was made for this run is dropped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        report = _measured(chosen)
    except (ServerMissingError, PeerFailedError) as error:
        print(f"python -m benchmarks.peers: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print("\n".join(lines(report)))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    return 0


def _measured(chosen: argparse.Namespace) -> Report:
    with ExitStack() as opened:
        directory = opened.enter_context(
            tempfile.TemporaryDirectory(prefix="stitchkit_", ignore_cleanup_errors=True)
        )
        url = opened.enter_context(server(chosen.database, Path(directory)))
        own = opened.enter_context(made(url))
        measured = opened.enter_context(closing(PostgresDatabase(own)))
        opened.enter_context(migrated(measured))
        report = Report(
            facts(measured),
            {"lengths": chosen.lengths, "rounds": chosen.rounds, "only": chosen.only},
        )
        workers = _workers(chosen, own, report, opened)
        report.measurements = measure(workers, measured, chosen.lengths, chosen.rounds)
    return report


def _workers(
    chosen: argparse.Namespace, url: str, report: Report, opened: ExitStack
) -> list[Worker]:
    workers = []
    for kind in KINDS:
        if kind.requirements is not None and kind.name not in chosen.only:
            continue
        try:
            python = kind.interpreter(chosen.cache)
            workers.append(opened.enter_context(started(kind, python, url)))
        except (EnvironmentMissingError, PeerFailedError) as error:
            report.missing[kind.name] = str(error)
            continue
        if kind.requirements is not None:
            pinned = versions(kind.requirements)
            report.machine |= {package: pinned[package] for package in kind.packages}
    return workers


def server_name(text: str) -> str:
    """Take what names a PostgreSQL server.

    Raises:
        ArgumentTypeError: it names none.
    """
    if text == "sqlite":
        msg = "the peers are measured on PostgreSQL alone"
        raise argparse.ArgumentTypeError(msg)
    return database(text)


def _parser() -> argparse.ArgumentParser:
    peers = [kind.name for kind in KINDS if kind.requirements is not None]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Measure a turn beside other libraries that keep conversations, in one run, "
        "taking turns. Their versions are pinned; they are installed on first use.",
    )
    parser.add_argument(
        "--database",
        type=server_name,
        default="postgres",
        metavar="NAME",
        help="as of python -m benchmarks, PostgreSQL alone (default: postgres)",
    )
    parser.add_argument(
        "--only",
        type=lambda text: names(text, peers),
        default=peers,
        metavar="NAMES",
        help=f"which peers, separated by commas: {', '.join(peers)} (default: all)",
    )
    parser.add_argument(
        "--lengths",
        type=lengths,
        default=(100, 1000, 5000, 20000),
        help="messages of the conversations, separated by commas (default: 100,1000,5000,20000)",
    )
    parser.add_argument(
        "--rounds",
        type=count,
        default=15,
        help="how often each thing is done (default: %(default)s)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=default_cache(),
        metavar="DIRECTORY",
        help="where the peers are installed (default: %(default)s)",
    )
    parser.add_argument(
        "--json", type=writable, metavar="FILE", help="also write what was found to a file"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
