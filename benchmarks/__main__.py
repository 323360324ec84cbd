"""The command: `python -m benchmarks --help` tells its options."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Final

from benchmarks import growth, hops, operations, purge, reads, recovery, threads, turns
from benchmarks.arguments import parser, plan_of
from benchmarks.databases import opened
from benchmarks.machine import facts
from benchmarks.report import Report
from benchmarks.table import lines
from tests.postgres import ServerMissingError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

SECTIONS: Final = {
    "operations": operations.measure,
    "turns": turns.measure,
    "threads": threads.measure,
    "growth": growth.measure,
    "reads": reads.measure,
    "recovery": recovery.measure,
    "purge": purge.measure,
    "async": hops.measure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; give the exit status.

    What was measured before an interrupt is told all the same.
    """
    chosen = parser(tuple(SECTIONS)).parse_args(arguments)
    # As an interrupt does it: the database that was made for this run is dropped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report()
    status = 0
    try:
        _measure(chosen, report)
    except ServerMissingError as error:
        print(f"python -m benchmarks: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        status = 130
    print("\n".join(lines(report)))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    return status


def _measure(chosen: argparse.Namespace, report: Report) -> None:
    plan = plan_of(chosen)
    with opened(chosen.database) as database:
        report.machine |= facts(database)
        report.options |= {"database": database.vendor, **plan._asdict()}
        report.missing |= dict.fromkeys(chosen.only, "the run was interrupted")
        for name in chosen.only:
            print(f"measuring {name}", file=sys.stderr)
            found = list(SECTIONS[name](database, plan))
            report.measurements += found
            report.missing[name] = "the conversations have no messages: see --lengths"
            if found:
                del report.missing[name]


if __name__ == "__main__":
    sys.exit(main())
