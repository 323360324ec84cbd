"""The purge of a conversation: its id must be typed, and what it would cost is told before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION
from django.http import HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from stitchkit_django.admin.labels import CONFLICTS, label
from stitchkit_django.admin.texts import brief
from stitchkit_django.admin.timeline import runs_of_conversation, shown_run
from stitchkit_django.core.errors import StitchkitError
from stitchkit_django.core.outcomes import Applied, Conflict
from stitchkit_django.registry import get_store

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from stitchkit_django.admin.readonly import ReadOnlyAdmin
    from stitchkit_django.core.outcomes import Outcome


class PurgeForm(forms.Form):
    """The id of the conversation, typed; and the version that was shown."""

    typed = forms.CharField(
        label=gettext_lazy("The conversation's id"), strip=True, required=True, max_length=255
    )
    version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    def __init__(self, *args: Any, conversation_id: str, **kwargs: Any) -> None:  # noqa: ANN401 - the base's own
        """Take the id that must be typed."""
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self._conversation_id = conversation_id

    def clean_typed(self) -> str:
        """Accept that id alone.

        Raises:
            ValidationError: it is another text.
        """
        typed: str = self.cleaned_data["typed"]
        if typed != self._conversation_id:
            raise forms.ValidationError(_("This is not the id of the conversation."))
        return typed


def purge_view(admin: ReadOnlyAdmin, request: HttpRequest, row: Any) -> HttpResponse:  # noqa: ANN401 - any host's row
    """Ask for the id, or purge and tell what became of it."""
    where: str = row.conversation_id
    stored = admin.stored()
    shown = {"version": getattr(row, stored.own("version"))}
    if request.method == "POST":
        form = PurgeForm(request.POST, conversation_id=where)
        if form.is_valid():
            told = _purged(admin, request, where, form.cleaned_data["version"])
            messages.add_message(request, *told)
            return HttpResponseRedirect(admin.links.conversation(where) or request.path)
    else:
        form = PurgeForm(initial=shown, conversation_id=where)
    runs, _more = runs_of_conversation(where)
    active = [run for run in (shown_run(one, admin.links) for one in runs) if run.is_active]
    context = {
        "title": _("Purge conversation %(id)s?") % {"id": brief(where)},
        "conversation_id": where,
        "page_url": admin.links.conversation(where),
        "purged_at": getattr(row, stored.own("purged_at")),
        "active": active,
        "form": form,
    }
    return admin.rendered(request, "purge.html", context)


def _purged(
    admin: ReadOnlyAdmin, request: HttpRequest, where: str, version: int
) -> tuple[int, str]:
    try:
        outcome = get_store().purge_conversation(where, expected_version=version)
    except StitchkitError as error:
        level, told = messages.ERROR, _("Nothing was purged: %(error)s") % {"error": error}
    else:
        level, told = _told(outcome)
    admin.log(request, where, where, told, DELETION if level == messages.SUCCESS else CHANGE)
    return level, told


def _told(outcome: Outcome) -> tuple[int, str]:
    match outcome:
        case Applied():
            return messages.SUCCESS, _("The conversation was purged for good.")
        case Conflict(reason=reason, runs=runs) if runs:
            told = _("Nothing was purged: runs are active: %(runs)s")
            named = ", ".join(brief(run.id) for run in runs[:10])
            return messages.WARNING, told % {"runs": named}
        case Conflict(reason=reason):
            told = _("Nothing was purged: %(reason)s. Look at it again.")
            return messages.WARNING, told % {"reason": label(CONFLICTS, reason)}
        case _:
            return messages.WARNING, _("Nothing was purged: nobody has written to it.")
