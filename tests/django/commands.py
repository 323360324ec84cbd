"""Runs a management command in this process, as its user would see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.management import ManagementUtility

if TYPE_CHECKING:
    import pytest


class Ran(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it said on stdout, line by line."""
        return self.out.splitlines()

    @property
    def document(self) -> Any:
        """What it said on stdout, as JSON."""
        return json.loads(self.out)


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ran:
    """Run a command as `manage.py` does, and give its exit status and what it said."""
    capsys.readouterr()
    status = 0
    try:
        ManagementUtility(["manage.py", *map(str, arguments)]).execute()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    return Ran(status, *capsys.readouterr())
