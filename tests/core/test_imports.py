"""The core and the checks for drivers can be used where there is no Django."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stitchkit_django.core

PROGRAM = """
import sys

import {module}

found = sorted(name for name in sys.modules if name.partition(".")[0] == "django")
print(*found)
"""


@pytest.mark.parametrize(
    "module", ["stitchkit_django", "stitchkit_django.core", "stitchkit_django.testing"]
)
def test_a_fresh_interpreter_that_imports_it_loads_no_django(module: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(module=module)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_the_core_exports_what_it_says() -> None:
    names = stitchkit_django.core.__all__

    assert all(hasattr(stitchkit_django.core, name) for name in names)
    assert len(names) == len(set(names))
