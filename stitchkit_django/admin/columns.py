"""The columns of lists that tell how a run stands, and links to what a row belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from stitchkit_django.admin.texts import brief

if TYPE_CHECKING:
    from stitchkit_django.admin.links import Links
    from stitchkit_django.admin.timeline import ShownRun


def linked(url: str | None, text: str) -> str:
    """Give a text as a link, where there is a page to lead to."""
    shown = brief(text)
    return shown if url is None else format_html('<a href="{}">{}</a>', url, shown)


class RunColumns:
    """Columns of a run, or of the run that tells how a conversation stands."""

    links: Links

    def standing(self, row: Any) -> ShownRun | None:  # noqa: ANN401 - a model's row
        """Give the run of a row, as its list has read it."""
        found: ShownRun | None = getattr(row, "standing", None)
        return found

    @admin.display(description=_("state"))
    def state_shown(self, row: Any) -> str:  # noqa: ANN401 - a model's row
        """Show the state, and the reason where it says more."""
        run = self.standing(row)
        if run is None:
            return ""
        if not run.reason:
            return run.state
        return format_html('{} <span class="sk-quiet">{}</span>', run.state, run.reason)

    @admin.display(description=_("owner"))
    def owner_shown(self, row: Any) -> str:  # noqa: ANN401 - a model's row
        """Name who has the run, or had it when it ended."""
        run = self.standing(row)
        return brief(run.row.owner_id or "") if run else ""

    @admin.display(description=_("lease"))
    def lease_shown(self, row: Any) -> str:  # noqa: ANN401 - a model's row
        """Say how long its owner has."""
        run = self.standing(row)
        if run is None or not run.lapsed:
            return run.lease if run else ""
        return format_html('<strong class="sk-alert">{}</strong>', run.lease)

    @admin.display(description=_("attempts"))
    def attempts_shown(self, row: Any) -> str:  # noqa: ANN401 - a model's row
        """Count how often it was taken."""
        run = self.standing(row)
        return str(run.row.fencing_token or 0) if run else ""

    @admin.display(description=_("age"))
    def age_shown(self, row: Any) -> str:  # noqa: ANN401 - a model's row
        """Say how long ago its input came."""
        run = self.standing(row)
        return run.age if run else ""

    @admin.display(description=_("cost"))
    def cost_shown(self, row: Any) -> str:  # noqa: ANN401 - a model's row
        """Give what it has cost."""
        run = self.standing(row)
        return run.cost if run else ""
