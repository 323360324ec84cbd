"""Every block of Python in the pages is run: a page's blocks are one program, top to bottom."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.contrib.auth import get_user_model

from stitchkit_django.conf import conf
from stitchkit_django.events import run_event
from tests.docs.pages import ROOT, Page, pages
from tests.product.models import Chat, ChatMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import Model
    from pytest_django.fixtures import Settings

# Pages whose blocks are files of a project: their own tests put them there.
RUN_BY: Final = {
    "docs/tutorial.md": "tests/docs/test_tutorial.py",
    "docs/how-to/test-your-project.md": "tests/support/test_example.py",
}
PROGRAMS: Final = [
    page
    for page in pages()
    if page.name not in RUN_BY and any(block.language == "python" for block in page.blocks())
]


class RoutesAllTo:
    """A router that sends everything to one alias."""

    def __init__(self, alias: str) -> None:
        """Take the alias."""
        self._alias = alias

    def db_for_read(self, _model: type[Model], **_: object) -> str:
        """Give the alias."""
        return self._alias

    def db_for_write(self, _model: type[Model], **_: object) -> str:
        """Give the alias."""
        return self._alias


@pytest.fixture
def project(alias: str, settings: Settings, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Give the names that a page may count on; what it connects and makes is gone afterwards."""
    settings.DATABASE_ROUTERS = [RoutesAllTo(alias)]
    before = list(run_event.receivers)

    def use(stitchkit: dict[str, Any]) -> None:
        settings.STITCHKIT = stitchkit

    # As in a module of settings; a page's hidden part says `use` where it wants them used.
    yield {"__name__": "docs", "BASE_DIR": tmp_path, "use": use}
    run_event.receivers[:] = before
    run_event.sender_receivers_cache.clear()
    for model in (Chat, ChatMessage, get_user_model()):
        model._base_manager.using(alias).all().delete()


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_what_a_page_shows_can_be_run(
    project: dict[str, Any], settings: Settings, page: Page
) -> None:
    for block in page.blocks():
        if block.is_run and block.language in {"python", "run"}:
            # An error is shown at its line of the page.
            text = "\n" * (block.line - 1) + block.text
            exec(compile(text, page.name, "exec"), project)  # noqa: S102 - our own pages
            with read_as_a_setting(project, settings):
                conf()


def test_what_is_not_run_here_is_run_by_a_test_of_its_own() -> None:
    for name, test in RUN_BY.items():
        assert Path(name).name in (ROOT / test).read_text(encoding="utf-8"), name


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    left_out = [block for page in pages() for block in page.blocks() if not block.is_run]

    assert len(left_out) <= 5


@contextmanager
def read_as_a_setting(project: dict[str, Any], settings: Settings) -> Iterator[None]:
    """Let a page's STITCHKIT be the project's, if the page has one, for as long as it is read."""
    own: dict[str, Any] = getattr(settings, "STITCHKIT", {})
    settings.STITCHKIT = project.get("STITCHKIT", own)
    yield
    settings.STITCHKIT = own
