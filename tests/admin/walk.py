"""Every page of the admin, for what holds of each of them."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.admin.filling import LONG
from tests.admin.pages import act_url, conversation_url, row_url, url_of

LISTS: Final = (Conversation, Run, AdmissionReceipt, Message)


def pages(alias: str) -> dict[str, str]:
    """Give the URL of each kind of page, over rows as `filling` makes them; by its name.

    Pages that Django draws by itself (a row's history) are not among them.
    """
    found = {f"list of {model._meta.verbose_name_plural}": url_of(model) for model in LISTS}
    found |= _narrowed()
    found |= {
        "conversation": conversation_url(LONG),
        "conversation, older": conversation_url(LONG) + "?before=500.0",
        "conversation, newer": conversation_url(LONG) + "?after=2.0",
        "conversation, raw": conversation_url(LONG, "raw"),
        "conversation, purge": conversation_url(LONG, "purge"),
        "operations": url_of(Run, "operations"),
        "operations, month": url_of(Run, "operations") + "?window=month",
    }
    for state, run_id in (("running", "r-1"), ("queued", "r-5"), ("completed", "r-10")):
        found[f"{state} run"] = row_url(alias, Run, run_id)
        found[f"{state} run, raw"] = row_url(alias, Run, run_id, "raw")
    for name in ("interrupt", "cancel", "requeue", "abandon"):
        found[f"{name} runs"] = act_url(alias, name, "r-1", "r-5", "r-10")
    for model, identity in ((Message, "a-10"), (AdmissionReceipt, "k-10")):
        name = str(model._meta.verbose_name)
        found[name] = row_url(alias, model, identity)
        found[f"{name}, raw"] = row_url(alias, model, identity, "raw")
    return found


def _narrowed() -> dict[str, str]:
    runs, conversations = url_of(Run), url_of(Conversation)
    found = {
        f"runs {name}": f"{runs}?{query}"
        for name, query in {
            "queued": "state=queued",
            "running": "state=running",
            "asked to stop": "state=interrupt_requested",
            "completed": "state=completed",
            "failed": "state=failed",
            "abandoned": "state=abandoned",
            "timed out": "reason=timeout",
            "that succeeded": "reason=success",
            "of a provider's failures": "state=failed&reason=provider_failure",
            "that can't be": "state=failed&reason=success",
            "older": "before=500",
            "newer": "after=1",
            "failed, older": "state=failed&before=500",
            "of a year": "date=2026",
            "of a day": "date=2026-01-10",
            "queued on a day": "state=queued&date=2026-01-10",
        }.items()
    }
    found |= {
        "conversations that wait": f"{conversations}?active=yes",
        "older conversations": f"{conversations}?before=500",
        "newer conversations": f"{conversations}?after=1",
        "conversations of a month": f"{conversations}?date=2026-01",
    }
    for model in LISTS:
        for what, sought in (
            ("conversation", LONG),
            ("run", "r-10"),
            ("input", "i-10"),
            ("answer", "a-10"),
            ("key", "k-10"),
            ("nothing", "none"),
        ):
            name = f"{model._meta.verbose_name_plural} by {what}"
            found[name] = f"{url_of(model)}?{urlencode({'q': sought})}"
    return found
