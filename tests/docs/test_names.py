"""No page names a setting, check, command, error or test that isn't there, or misses one."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import logging
import re
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest
from django.conf import global_settings
from django.core.management import get_commands, load_command_class
from django.db import connections
from msgspec.structs import fields

from stitchkit_django import core, testing
from stitchkit_django.conf import Conf
from stitchkit_django.core import StitchkitError
from tests.docs.pages import DOCS, ROOT, Page, page, pages

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGES: Final = pages()
KEYS: Final = {field.name.upper() for field in fields(Conf)}
COMMANDS: Final = sorted(name for name, app in get_commands().items() if app == "stitchkit_django")
GENERAL_OPTIONS: Final = {
    "--version",
    "--help",
    "--verbosity",
    "--settings",
    "--pythonpath",
    "--traceback",
    "--no-color",
    "--force-color",
    "--skip-checks",
}
"""Django's, of every command."""
# Said by pages as they are: SQL, and what belongs to other software.
OTHER_CAPITALS: Final = {"COMMIT", "NOTIFY", "UNSET", "VACUUM", "WHERE"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


# ---------------------------------------------------------------- settings


@each_page
def test_each_key_of_the_setting_is_one(page: Page) -> None:
    named = re.findall(r"STITCHKIT\[['\"](\w+)['\"]\]", page.whole)

    assert set(named) - KEYS == set()


@each_page
def test_each_name_in_capitals_is_a_setting_or_a_constant(page: Page) -> None:
    named = {name for name in page.inline() if re.fullmatch(r"[A-Z][A-Z_]{3,}", name)}

    databases = set(connections["default"].settings_dict)
    known = KEYS | databases | set(dir(global_settings)) | set(core.__all__) | set(testing.__all__)
    assert {name for name in named - known - OTHER_CAPITALS if not is_ours(name)} == set()


def test_the_reference_has_each_key_of_the_setting() -> None:
    assert KEYS - page("docs/reference/settings.md").inline() == set()


# ---------------------------------------------------------------- checks


@each_page
def test_each_check_is_one(page: Page) -> None:
    assert set(re.findall(r"stitchkit\.[A-Z]\d+", page.whole)) - check_ids() == set()


def test_the_reference_has_each_check() -> None:
    reference = page("docs/reference/checks.md")

    assert {name.replace(".", "-").lower() for name in check_ids()} - reference.anchors() == set()


# ---------------------------------------------------------------- commands


@each_page
def test_each_command_is_one(page: Page) -> None:
    named = set(re.findall(r"manage\.py ([a-z_]+)", page.whole))

    own = {path.stem for path in (ROOT / "example_project").rglob("management/commands/*.py")}
    tutorial = {
        name
        for block in page.blocks()
        for name in re.findall(r"management/commands/(\w+)\.py", block.caption)
    }
    assert named - set(get_commands()) - own - tutorial == set()


def test_general_options_are_those_of_each_command_of_django() -> None:
    assert options_of("django.core", "diffsettings") >= GENERAL_OPTIONS - {"--skip-checks"}


def test_each_command_has_its_page() -> None:
    assert {path.stem for path in (DOCS / "reference/commands").glob("*.md")} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_has_each_of_its_options_and_no_other(name: str) -> None:
    text = page(f"docs/reference/commands/{name}.md").text

    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))

    options = options_of("stitchkit_django", name)
    assert named - options == set()
    assert options - named - GENERAL_OPTIONS == set()


# ---------------------------------------------------------------- errors


@each_page
def test_each_error_is_one(page: Page) -> None:
    named = {name for name in page.inline() if re.fullmatch(r"\w+Error", name)}

    assert {name for name in named - errors() if not hasattr(builtins, name)} == set()


def test_the_reference_has_each_error() -> None:
    assert errors() - page("docs/reference/errors.md").inline() == set()


# ---------------------------------------------------------------- tests and modules


@each_page
def test_each_test_and_each_law_that_is_named_is_there(page: Page) -> None:
    named = {name for name in page.inline() if re.fullmatch(r"(test|check)_\w+", name)}

    known = named_in_tests() | set(testing.__all__) | set(COMMANDS)
    assert named - known == set()


@each_page
def test_each_dotted_name_of_the_package_leads_somewhere(page: Page) -> None:
    named = {
        name for name in page.inline() if re.fullmatch(r"stitchkit_django(\.\w+)+", name)
    } - set(connections)

    assert [name for name in sorted(named) if not is_there(name)] == []


def test_what_the_core_exports_is_documented() -> None:
    documented = "\n".join(one.whole for one in PAGES)

    missing = {name for name in core.__all__ if not re.search(rf"\b{name}\b", documented)}

    assert missing == set()


# ---------------------------------------------------------------- what is there


@cache
def errors() -> set[str]:
    """Give the names of the package's errors."""
    return {
        name
        for name, one in inspect.getmembers(core, inspect.isclass)
        if issubclass(one, StitchkitError)
    }


@cache
def check_ids() -> set[str]:
    """Give the ids of the system checks."""
    source = (ROOT / "stitchkit_django/checks.py").read_text(encoding="utf-8")
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"stitchkit\.[A-Z]\d{3}", node.value)
    }


@cache
def named_in_tests() -> set[str]:
    """Give the names of all tests, and of the files that they stand in."""
    found: set[str] = set()
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "example_project").rglob("test_*.py")]:
        found.add(path.stem)
        found |= {
            node.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return found


def options_of(app: str, name: str) -> set[str]:
    """Give the options of a management command, Django's general ones among them."""
    parser = load_command_class(app, name).create_parser("manage.py", name)
    # Asked in argparse's own way, it would print them.
    options = parser._option_string_actions  # noqa: SLF001 - argparse has no public one
    return {one for one in options if one.startswith("--")}


def is_ours(name: str) -> bool:
    """Tell whether a variable of the environment is read by the project."""
    return name.startswith("STITCHKIT") and any(name in text for text in sources())


@cache
def sources() -> Iterable[str]:
    """Give the sources of the package, the tests and the example."""
    return [
        path.read_text(encoding="utf-8")
        for folder in ("stitchkit_django", "tests", "example_project")
        for path in (ROOT / folder).rglob("*.py")
        if "docs" not in path.parts
    ]


def is_there(name: str) -> bool:
    """Tell whether a dotted name is a module, something in one, or a logger."""
    if name in logging.root.manager.loggerDict:
        return True
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute, None)
        return found is not None
    return False
