"""The page that says what an action will do to each run, and does it once that is confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponseRedirect
from django.utils.translation import gettext as _

from stitchkit_django.admin.actions import FORMS, Target, told_outcome
from stitchkit_django.admin.reading import RUN_FIELDS, Stored
from stitchkit_django.admin.texts import brief
from stitchkit_django.admin.timeline import ShownRun, shown_run
from stitchkit_django.core.errors import StitchkitError
from stitchkit_django.core.outcomes import Applied
from stitchkit_django.core.values import MAX_COUNT
from stitchkit_django.registry import get_store

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from stitchkit_django.admin.actions import Answers, RunAction
    from stitchkit_django.admin.readonly import ReadOnlyAdmin

MOST_RUNS: Final = 100
"""At once: each is an operation of its own."""


class Choice(NamedTuple):
    """A run that was chosen, and what will happen to it."""

    run: ShownRun
    told: str
    is_allowed: bool
    value: str
    """Of the form: the primary key and the revision that was shown."""


def confirm_view(admin: ReadOnlyAdmin, request: HttpRequest, action: RunAction) -> HttpResponse:
    """Ask, or act and tell what became of each run.

    Raises:
        BadRequest: the URL or the form names no runs, or too many.
        Http404: none of them is there.
    """
    posted = request.method == "POST"
    asked = dict(map(_key_and_revision, (request.POST if posted else request.GET).getlist("run")))
    if posted and None in asked.values():
        raise BadRequest(_("The form doesn't say which revisions it is about."))
    if not 0 < len(asked) <= MOST_RUNS:
        told = _("Choose at least one run, and at most %(most)s.") % {"most": MOST_RUNS}
        raise BadRequest(told)
    runs = _runs(admin, request, asked)
    if not runs:
        raise Http404(_("These runs are gone."))
    form = FORMS[action.name](request.POST if posted else None, runs=runs)
    if posted and form.is_valid():
        for run in runs:
            _act(admin, request, action, _target(run, asked[run.row.pk]), form.cleaned_data)
        return HttpResponseRedirect(_afterwards(admin, runs) or request.path)
    return admin.rendered(request, "confirm.html", _context(admin, action, runs, form))


def _context(
    admin: ReadOnlyAdmin,
    action: RunAction,
    runs: list[ShownRun],
    form: Any,  # noqa: ANN401 - a form
) -> dict[str, Any]:
    choices = [
        Choice(run, action.told(run), action.allows(run), f"{run.row.pk}:{run.row.revision}")
        for run in runs
    ]
    return {
        "title": action.question,
        "action": action,
        "choices": choices,
        "is_any_allowed": any(choice.is_allowed for choice in choices),
        "form": form,
        "back_url": _afterwards(admin, runs),
    }


def _key_and_revision(text: str) -> tuple[int, int | None]:
    key, colon, revision = text.partition(":")
    numbers = [key, revision] if colon else [key]
    if not all(one.isascii() and one.isdigit() and int(one) <= MAX_COUNT for one in numbers):
        raise BadRequest(_("%(text)s names no run.") % {"text": brief(text)})
    return int(key), int(revision) if colon else None


def _runs(
    admin: ReadOnlyAdmin, request: HttpRequest, asked: dict[int, int | None]
) -> list[ShownRun]:
    # Of those that the user may see; by the queue, so that a conversation is settled in order.
    stored = Stored("run")
    rows = admin.get_queryset(request).filter(pk__in=asked).order_by("pk")
    return [shown_run(row, admin.links) for row in stored.read(rows, *RUN_FIELDS, "moment")]


def _target(run: ShownRun, revision: int | None) -> Target:
    row = run.row
    return Target(
        key=row.pk,
        conversation_id=row.conversation_id,
        run_id=row.run_id,
        revision=row.revision if revision is None else revision,
        has_lease=row.lease_expires_at is not None,
    )


def _act(
    admin: ReadOnlyAdmin,
    request: HttpRequest,
    action: RunAction,
    target: Target,
    answers: Answers,
) -> None:
    try:
        outcome = action.perform(get_store(), target, answers)
    except StitchkitError as error:
        level, told = messages.ERROR, _("Nothing was changed: %(error)s") % {"error": error}
    else:
        level = messages.SUCCESS if isinstance(outcome, Applied) else messages.WARNING
        told = told_outcome(action, outcome)
    messages.add_message(
        request, level, _("Run %(id)s: %(told)s") % {"id": brief(target.run_id), "told": told}
    )
    given = [answers[name] for name in ("reason", "evidence") if answers.get(name)]
    noted = f"{action.title}. {' '.join([told, *given])}"
    admin.log(request, target.key, target.run_id, noted)


def _afterwards(admin: ReadOnlyAdmin, runs: list[ShownRun]) -> str | None:
    return runs[0].url if len(runs) == 1 else admin.links.runs()
