"""Runs one of the programs: `python -m tests.process name argument…`."""

from __future__ import annotations

import sys

import django

if __name__ == "__main__":
    django.setup()
    from tests.process.programs import PROGRAMS  # models can't be imported before

    name, *arguments = sys.argv[1:]
    PROGRAMS[name](*arguments)
