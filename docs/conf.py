"""Sphinx's configuration: everything comes from this repository, nothing from a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import django
from django.conf import settings

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]

# The reference reads the models, which want settings.
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["stitchkit_django"],
    USE_TZ=True,
)
django.setup()

from stitchkit_django import __version__  # noqa: E402 - found by the path above
from stitchkit_docs.sections import expanded  # noqa: E402 - the same

project = "stitchkit_django"
author = "the stitchkit_django authors"
copyright = author  # noqa: A001 - Sphinx's name
version = release = __version__

extensions = ["myst_parser"]
exclude_patterns = ["_ext"]
nitpicky = True

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"stitchkit_django {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {
    # System fonts: no page asks another site for anything.
    "light_css_variables": {
        "font-stack": "system-ui, sans-serif",
        "font-stack--monospace": "ui-monospace, Menlo, Consolas, monospace",
    },
    "footer_icons": [],
}


def setup(app: Any) -> None:  # noqa: ANN401 - Sphinx is not there where types are checked
    """Let pages have the sections that they ask for."""
    app.connect("source-read", _expand)


def _expand(_app: object, _name: str, source: list[str]) -> None:
    source[0] = expanded(source[0])
