"""A virtual environment for each peer, made once with the versions that its requirements pin."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
_MADE: Final = "made"
"""A file that an environment has once all is installed."""


class EnvironmentMissingError(Exception):
    """A peer can't be installed; the message says why."""


def default_cache() -> Path:
    """Give the directory that environments are kept in."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "stitchkit_django" / "benchmarks"


def python_of(peer: str, cache: Path) -> Path:
    """Give the interpreter of a peer's environment, which is made if it isn't there yet.

    Raises:
        EnvironmentMissingError: pip can't install what the requirements name.
    """
    requirements = REQUIREMENTS / f"{peer}.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    place = cache / f"{peer}-{sys.version_info.major}.{sys.version_info.minor}-{digest}"
    python = place / "bin" / "python"
    if (place / _MADE).exists():
        return python
    print(f"installing {peer} in {place}", file=sys.stderr)
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)  # noqa: S603 - pip, with a file of ours
    if done.returncode != 0:
        raise EnvironmentMissingError(f"pip can't install it: {done.stderr.strip()[-500:]}")
    (place / _MADE).touch()
    return python


def versions(peer: str) -> dict[str, str]:
    """Give what a peer's requirements pin, by package."""
    lines = (REQUIREMENTS / f"{peer}.txt").read_text().split()
    return dict(line.split("==") for line in lines)
