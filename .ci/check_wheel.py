"""Checks an installed wheel: what it holds, and that its store works; run outside the checkout.

Usage: python -I check_wheel.py FILES, where FILES lists the package's files in the checkout.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import metadata
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command

import stitchkit_django


def check_files(expected: list[str]) -> None:
    """Exit with a message unless the distribution holds every file that is expected."""
    held = {str(file) for file in metadata.files("stitchkit-django") or ()}
    always = {"stitchkit_django/py.typed", "stitchkit_django/migrations/0001_initial.py"}
    if absent := sorted((always | set(expected)) - held):
        sys.exit(f"not in the wheel: {', '.join(absent)}")
    print(f"{len(expected)} files of the package are in the wheel")


def check_store(database: Path) -> None:
    """Exit with a message unless an input is accepted in a fresh project."""
    if not Path(stitchkit_django.__file__).is_relative_to(sys.prefix):
        sys.exit(f"the package comes from {stitchkit_django.__file__}, not from the wheel")
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(database)}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=["stitchkit_django"],
        USE_TZ=True,
    )
    django.setup()
    call_command("migrate", verbosity=0)
    outcome = stitchkit_django.get_store().accept_input("conversation", "key", "Hello?").outcome
    if outcome != "applied":
        sys.exit(f"the first input of a conversation was not accepted: {outcome}")
    versions = f"stitchkit_django {stitchkit_django.__version__}, Django {django.__version__}"
    print(f"{versions}: an input is accepted")


if __name__ == "__main__":
    check_files(Path(sys.argv[1]).read_text(encoding="utf-8").split())
    with tempfile.TemporaryDirectory() as directory:
        check_store(Path(directory) / "wheel.sqlite3")
