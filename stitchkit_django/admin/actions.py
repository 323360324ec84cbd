"""What can be done to runs: by which permission, with which words, and how the store is asked.

No page is drawn here, and nothing is decided: an action that the store refuses is told as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from stitchkit_django.admin.labels import CONFLICTS, STATES, label
from stitchkit_django.admin.texts import brief
from stitchkit_django.core.lifecycle import (
    TRANSITIONS,
    Operation,
    RecoveryAction,
    RunState,
)
from stitchkit_django.core.outcomes import Applied, Conflict, ConflictReason
from stitchkit_django.core.records import MAX_DETAIL_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.utils.functional import _StrPromise

    from stitchkit_django.admin.timeline import ShownRun
    from stitchkit_django.core.outcomes import Outcome
    from stitchkit_django.core.store import AgentStore

    Answers: TypeAlias = Mapping[str, Any]
    """What a form has asked for."""


class Target(NamedTuple):
    """A run, as it was when the action was confirmed."""

    key: int
    """Primary key of its row."""
    conversation_id: str
    run_id: str
    revision: int
    has_lease: bool


@dataclass(frozen=True, kw_only=True)
class RunAction:
    """One thing that can be done to runs."""

    name: str
    """Of its URL, and of its permission before `_run`."""
    operation: Operation
    title: _StrPromise
    """Of its button, and of its choice in a list."""
    question: _StrPromise
    """Over the page that asks."""
    done: _StrPromise
    """What is told and written down of a run that it was done to."""
    perform: Callable[[AgentStore, Target, Answers], Outcome]
    consequence: Callable[[ShownRun], str]

    @property
    def permission(self) -> str:
        """The codename of its permission."""
        return f"{self.name}_run"

    def allows(self, run: ShownRun) -> bool:
        """Tell whether the store does this to a run in its state."""
        state = run.row.state
        return state in STATES and (RunState(state), self.operation) in TRANSITIONS

    def told(self, run: ShownRun) -> str:
        """Say what it will do to a run."""
        if self.allows(run):
            return self.consequence(run)
        return _("Nothing: the run is %(state)s.") % {"state": label(STATES, run.row.state)}


class ActionForm(forms.Form):
    """What an action asks besides a confirmation; nothing, unless a subclass says more."""

    def __init__(self, *args: Any, runs: list[ShownRun], **kwargs: Any) -> None:  # noqa: ANN401 - the base's own
        """Take the runs that it is about."""
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.runs = runs


class RecoveryForm(ActionForm):
    """Asks whether an owner whose lease is valid may lose its run."""

    even_leased = forms.BooleanField(
        required=False,
        label=gettext_lazy("Even while the owner's lease is valid"),
        help_text=gettext_lazy(
            "Its worker may still be at work. Without this, such a run is left alone."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the base's own
        """Ask only where there is a lease."""
        super().__init__(*args, **kwargs)
        if not any(run.row.lease_expires_at for run in self.runs):
            del self.fields["even_leased"]


class AbandonForm(RecoveryForm):
    """Asks for the reason, which is kept with the run."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_DETAIL_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Kept with the run, for whoever asks later."),
    )
    field_order = ("reason",)


class RequeueForm(RecoveryForm):
    """Asks for the evidence that work which has begun may be repeated."""

    replay_safe = forms.BooleanField(
        label=gettext_lazy("The work may be repeated"),
        help_text=gettext_lazy(
            "A worker may have acted before it was lost: a mail that it sent would be sent again."
        ),
    )
    evidence = forms.CharField(
        label=gettext_lazy("How do you know?"),
        max_length=MAX_DETAIL_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Kept in the history of the run."),
    )
    field_order = ("replay_safe", "evidence")

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the base's own
        """Ask only where a run was taken."""
        super().__init__(*args, **kwargs)
        if not any(run.is_acquired for run in self.runs):
            del self.fields["replay_safe"], self.fields["evidence"]


def told_outcome(action: RunAction, outcome: Outcome) -> str:
    """Say what became of an action on one run."""
    match outcome:
        case Applied():
            return str(action.done)
        case Conflict(reason=ConflictReason.LEASE):
            return _("Nothing was changed: its owner's lease is still valid, or was renewed.")
        case Conflict(reason=reason, run=run) if run is not None:
            told = _("Nothing was changed: %(reason)s; it is %(state)s now.")
            return told % {"reason": label(CONFLICTS, reason), "state": label(STATES, run.state)}
        case Conflict(reason=reason):
            return _("Nothing was changed: %(reason)s.") % {"reason": label(CONFLICTS, reason)}
        case _:
            return _("Nothing was changed: the run is gone.")


def _interrupt(store: AgentStore, run: Target, _answers: Answers) -> Outcome:
    return store.request_interrupt(run.conversation_id, run.run_id, expected_revision=run.revision)


def _cancel(store: AgentStore, run: Target, _answers: Answers) -> Outcome:
    return store.cancel_run(run.conversation_id, run.run_id, expected_revision=run.revision)


def _requeue(store: AgentStore, run: Target, answers: Answers) -> Outcome:
    return store.recover_run(
        run.conversation_id,
        run.run_id,
        expected_revision=run.revision,
        action=RecoveryAction.REQUEUE,
        replay_safe=bool(answers.get("replay_safe")),
        require_expired_lease=run.has_lease and not answers.get("even_leased"),
    )


def _abandon(store: AgentStore, run: Target, answers: Answers) -> Outcome:
    return store.recover_run(
        run.conversation_id,
        run.run_id,
        expected_revision=run.revision,
        action=RecoveryAction.ABANDON,
        require_expired_lease=run.has_lease and not answers.get("even_leased"),
        detail=answers["reason"],
    )


def _interrupts(run: ShownRun) -> str:
    told = _("%(owner)s is asked to stop. The run goes on until its owner notices.")
    return told % {"owner": _owner(run)}


def _cancels(_run: ShownRun) -> str:
    return _("It ends as cancelled, and no worker will take it. What it had answered is kept.")


def _requeues(run: ShownRun) -> str:
    if not run.is_acquired:
        return _("It stays in the queue, and workers are told of it once more.")
    told = _(
        "%(owner)s loses it, and another worker begins attempt %(attempt)s. What it had answered "
        "is kept."
    )
    return told % {"owner": _owner(run), "attempt": run.row.fencing_token + 1}


def _abandons(run: ShownRun) -> str:
    told = _(
        "It ends as abandoned, for good. What it had answered is kept as failed, and the next run "
        "of its conversation can begin."
    )
    if not run.is_acquired:
        return told
    return _("%(owner)s loses it. %(told)s") % {"owner": _owner(run), "told": told}


def _owner(run: ShownRun) -> str:
    return brief(run.row.owner_id or "")


ACTIONS: Final[Mapping[str, RunAction]] = {
    "interrupt": RunAction(
        name="interrupt",
        operation=Operation.INTERRUPT,
        title=gettext_lazy("Request interrupt"),
        question=gettext_lazy("Ask the owners of these runs to stop?"),
        done=gettext_lazy("Its owner was asked to stop."),
        perform=_interrupt,
        consequence=_interrupts,
    ),
    "cancel": RunAction(
        name="cancel",
        operation=Operation.CANCEL,
        title=gettext_lazy("Cancel"),
        question=gettext_lazy("Cancel these queued runs?"),
        done=gettext_lazy("It was cancelled."),
        perform=_cancel,
        consequence=_cancels,
    ),
    "requeue": RunAction(
        name="requeue",
        operation=Operation.REQUEUE,
        title=gettext_lazy("Requeue"),
        question=gettext_lazy("Queue these runs again?"),
        done=gettext_lazy("It was queued again."),
        perform=_requeue,
        consequence=_requeues,
    ),
    "abandon": RunAction(
        name="abandon",
        operation=Operation.ABANDON,
        title=gettext_lazy("Abandon"),
        question=gettext_lazy("Give these runs up?"),
        done=gettext_lazy("It was abandoned."),
        perform=_abandon,
        consequence=_abandons,
    ),
}
FORMS: Final[Mapping[str, type[ActionForm]]] = {
    "interrupt": ActionForm,
    "cancel": ActionForm,
    "requeue": RequeueForm,
    "abandon": AbandonForm,
}
