"""A management command run over and over until SIGTERM: `python -m tests.process.looping …`.

Says in the end, as JSON, what all passes came to.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from io import StringIO
from typing import Any

import django
from django.core.management import call_command
from django.core.management.base import CommandError


def loop(*command: str) -> None:
    """Run the command until a signal comes, while it works or in between."""
    signalled: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signalled.append(number))
    totals: Counter[str] = Counter()
    statuses: Counter[int] = Counter()
    while not signalled and 128 + signal.SIGTERM not in statuses:
        out = StringIO()
        status = 0
        try:
            call_command(*command, format="json", stdout=out)
        except CommandError as error:
            status = error.returncode
        statuses[status] += 1
        summary: dict[str, Any] = json.loads(out.getvalue())["summary"]
        totals.update({key: value for key, value in summary.items() if type(value) is int})
    sys.stdout.write(json.dumps({"statuses": statuses, "totals": totals}) + "\n")


if __name__ == "__main__":
    django.setup()
    loop(*sys.argv[1:])
