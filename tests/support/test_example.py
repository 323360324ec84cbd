"""The example of the page about tests is run as it stands there, by pytest and by Django."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "how-to" / "test-your-project.md"

SETTINGS: Final = """
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["stitchkit_django"]
SECRET_KEY = "for the tests alone"
STITCHKIT = {"DISPATCHER": "chat.broker.send"}
USE_TZ = True
"""

BROKER: Final = """
def send(conversation_id, run_id):
    raise AssertionError("a test has reached the broker")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a project that has the files of the page."""
    files = dict(re.findall(r"```python\n# (chat/\S+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert sorted(files) == ["chat/services.py", "chat/test_services.py", "chat/tests.py"]
    for name, text in {
        **files,
        "chat/__init__.py": "",
        "chat/broker.py": BROKER,
        "project_settings.py": SETTINGS,
        "pytest.ini": "[pytest]\nfilterwarnings = error\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def environment() -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {
        **kept,
        "DJANGO_SETTINGS_MODULE": "project_settings",
        "PYTHONPATH": f".{os.pathsep}{ROOT}",
    }


def run(project: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", *arguments],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "has reached the broker" not in output
    return output


def test_the_example_passes_under_pytest(project: Path) -> None:
    output = run(project, "pytest", "-q", "-p", "no:cacheprovider", "chat/test_services.py")

    assert "3 passed" in output


def test_the_example_passes_under_djangos_runner(project: Path) -> None:
    output = run(project, "django", "test", "chat")

    assert "Ran 3 tests" in output


def test_the_test_cases_of_the_example_pass_under_pytest_too(project: Path) -> None:
    output = run(project, "pytest", "-q", "-p", "no:cacheprovider", "chat/tests.py")

    assert "3 passed" in output


def test_a_project_without_django_is_not_disturbed(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\n\ndef test_nothing_is_loaded():\n"
        "    loaded = [name for name in sys.modules if name.startswith('stitchkit_django.')]\n"
        "    assert loaded == ['stitchkit_django.pytest_plugin']\n"
        "    assert 'django.db' not in sys.modules\n"
    )
    plain = {**environment()}
    del plain["DJANGO_SETTINGS_MODULE"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:django", "."],
        cwd=tmp_path,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
