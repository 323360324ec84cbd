"""The admin as somebody sees and uses it, in Chromium."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stitchkit_django import get_store
from stitchkit_django.models import Run
from tests.admin import test_inert
from tests.admin.pages import READING, conversation_url, row_url, url_of
from tests.admin.scene import ORDER, STUCK, WAITING
from tests.browser.visits import ALIAS, Visitor, every_page

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Visitor]

NARROW = {"viewport": {"width": 360, "height": 740}}


def settle_the_stuck_run(visitor: Visitor) -> None:
    """Find it from the operations page, read what was said, give it up, and see the log."""
    page = visitor.page
    page.goto("/admin/")
    page.click("#content >> text=Runs")
    page.click("text=Operations")
    assert "Stuck: the lease has lapsed" in visitor.text()
    page.click(f"section:has(#sk-lapsed) >> text={STUCK}")
    assert "Its lease has lapsed: its owner is late, or gone." in visitor.text()
    page.click(f"dd >> text={ORDER}")
    assert "Then I want my money back, please." in visitor.text()
    page.click(f".sk-timeline >> text={STUCK}")
    page.click("text=Abandon…")
    assert "worker-7 loses it." in visitor.text()
    page.fill("#id_reason", "The host of worker-7 is gone.")
    page.click("input[value=Abandon]")
    assert f"Run {STUCK}: It was abandoned." in visitor.text()
    assert "The host of worker-7 is gone." in visitor.text()
    page.click("text=History")
    assert "Abandon. It was abandoned. The host of worker-7 is gone." in visitor.text()


def test_a_stuck_run_is_found_read_and_abandoned_and_the_log_says_so(enter: Enter) -> None:
    visitor = enter()

    settle_the_stuck_run(visitor)

    view = get_store(ALIAS).load_run(ORDER, STUCK)
    assert view is not None
    assert view.run.state == "abandoned"
    assert [run.id for run in get_store(ALIAS).list_active_runs(ORDER)] == [WAITING]
    assert visitor.noted == []


def test_all_of_it_works_without_javascript(enter: Enter) -> None:
    visitor = enter(java_script_enabled=False)

    settle_the_stuck_run(visitor)
    page = visitor.page
    page.goto(url_of(Run))
    page.check(f"tr:has-text('{WAITING}') >> input[type=checkbox]")
    page.select_option("select[name=action]", "cancel")
    page.click("button[name=index]")
    page.click("input[value=Cancel]")

    assert f"Run {WAITING}: It was cancelled." in visitor.text()
    page.goto(conversation_url(ORDER))
    page.click("summary >> text=Reasoning")
    assert "The customer gives an order number" in visitor.text()


def test_a_reader_finds_everything_and_no_button_that_writes(enter: Enter) -> None:
    visitor = enter(*READING)

    for name, url in every_page().items():
        if name.split()[0] in {"abandon", "requeue", "interrupt", "cancel", "purge"}:
            response = visitor.page.goto(url)
            assert response is not None
            assert response.status == 403, name
            continue
        visitor.go(url)
        buttons = visitor.page.locator("#content button, #content input[type=submit]")
        assert set(buttons.evaluate_all("all => all.map(one => one.value)")) <= {"Search"}, name
        for word in ("Abandon", "Requeue", "Cancel…", "Request interrupt", "Purge…"):
            assert word not in visitor.text(), name


def test_script_text_in_every_field_is_inert(enter: Enter) -> None:
    test_inert.hostile(ALIAS)
    visitor = enter()
    run = row_url(ALIAS, Run, f"r{test_inert.SCRIPT}")

    visitor.go(url_of(Run, "operations"))
    for url in (
        url_of(Run),
        run,
        conversation_url(test_inert.SCRIPT),
        conversation_url(test_inert.SCRIPT, "raw"),
    ):
        visitor.go(url)
        assert "<script>alert('x')</script>" in visitor.page.inner_text("body").replace("\\", "")
    test_inert.end(ALIAS)
    visitor.go(run)

    assert visitor.noted == []


def test_a_page_asks_nothing_of_another_host(enter: Enter) -> None:
    visitor = enter()

    for url in every_page().values():
        visitor.go(url)

    assert visitor.noted == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_passes_axe(enter: Enter, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - an extra of its own

    visitor = enter(color_scheme=scheme)
    found = {}

    for name, url in every_page().items():
        visitor.go(url)
        visitor.page.evaluate(
            "document.querySelectorAll('details').forEach(one => one.open = true)"
        )
        results = Axe().run(visitor.page)
        if results.violations_count:
            found[name] = results.generate_report()

    assert found == {}, "\n".join(found.values())


def test_the_theme_is_the_system_s_or_the_one_that_was_chosen(enter: Enter) -> None:
    def colours(visitor: Visitor) -> tuple[Any, ...]:
        visitor.go(conversation_url(ORDER))
        return tuple(
            visitor.page.evaluate(
                f"getComputedStyle(document.querySelector('{selector}')).backgroundColor"
            )
            for selector in ("body", ".sk-role-user", ".sk-is-running")
        )

    light, dark = enter(color_scheme="light"), enter(color_scheme="dark")
    found = colours(light), colours(dark)
    while light.page.get_attribute("html", "data-theme") != "dark":
        light.page.click(".theme-toggle")

    assert all(one != other for one, other in zip(*found, strict=True))
    assert colours(light) == found[1]


def test_a_narrow_window_shows_all_without_scrolling_sideways(enter: Enter) -> None:
    visitor = enter(**NARROW)
    too_wide = {}

    for name, url in every_page().items():
        visitor.go(url)
        width = visitor.page.evaluate("document.scrollingElement.scrollWidth")
        if width > 360:
            too_wide[name] = width

    assert too_wide == {}


def test_screenshots_are_taken(enter: Enter, tmp_path: Path) -> None:
    directory = Path(os.environ.get("STITCHKIT_SCREENSHOTS", tmp_path))
    pages = {
        "operations": url_of(Run, "operations"),
        "runs": url_of(Run),
        "conversation": conversation_url(ORDER),
        "run": row_url(ALIAS, Run, STUCK),
        "abandon": every_page()["requeue"].replace("requeue", "abandon"),
    }
    light = enter(viewport={"width": 1440, "height": 800}, color_scheme="light")
    dark = enter(viewport={"width": 1280, "height": 800}, color_scheme="dark")
    narrow = enter(viewport={"width": 390, "height": 800}, color_scheme="light")

    for name, url in pages.items():
        light.go(url)
        light.page.screenshot(path=directory / f"{name}.png", full_page=name != "runs")
    for visitor, suffix in ((dark, "dark"), (narrow, "narrow")):
        visitor.go(pages["conversation"])
        visitor.page.screenshot(path=directory / f"conversation-{suffix}.png")

    assert len(list(directory.glob("*.png"))) >= 7
