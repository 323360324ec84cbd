"""What is done to runs: asked before, through the store, logged, and told for each run."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db.models import F

from stitchkit_django import get_store
from stitchkit_django.core import RunState
from stitchkit_django.models import Run
from tests.admin.pages import READING, act_url, got, row_url, seen, told, url_of
from tests.admin.scene import ORDER, STUCK, WAITING, make
from tests.core.steps import acquire, admit, answered, checkpoint
from tests.core.steps import view as view_of
from tests.django.hooks import tables

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.pages import LogIn

EVIDENCE = {"replay_safe": "on", "evidence": "It had only read."}


def confirm(client: Client, url: str, **answers: Any) -> Any:
    """Open the page that asks, and post what it holds with some answers."""
    page = got(client, url)
    runs = re.findall(r'name="run" value="([^"]*)"', page)
    return client.post(url.partition("?")[0], {"run": runs, **answers}, follow=True)


def state(alias: str, run_id: str = "r1") -> str:
    return Run.objects.using(alias).get(run_id=run_id).state


def version(alias: str) -> int:
    return get_store(alias).load_snapshot("c").version


@pytest.mark.parametrize(
    ("name", "answers", "becomes"),
    [
        ("interrupt", {}, RunState.INTERRUPT_REQUESTED),
        ("requeue", EVIDENCE, RunState.QUEUED),
        ("abandon", {"reason": "The host is gone."}, RunState.ABANDONED),
    ],
)
def test_a_running_run_is_settled_once_that_is_confirmed(
    alias: str, client: Client, name: str, answers: dict[str, str], becomes: RunState
) -> None:
    store = get_store(alias)
    acquire(store, admit(store))
    before = version(alias)

    page = got(client, act_url(alias, name, "r1"))
    asked = (state(alias), version(alias))
    response = confirm(client, act_url(alias, name, "r1"), **answers)

    assert asked == ("running", before)
    assert "worker" in seen(page)
    assert state(alias) == becomes
    assert version(alias) == before + 1
    assert [one.startswith("Run r1: ") for one in told(response)] == [True]
    assert response.redirect_chain == [(row_url(alias, Run, "r1"), 302)]


def test_a_queued_run_is_cancelled(alias: str, client: Client) -> None:
    admit(get_store(alias))

    response = confirm(client, act_url(alias, "cancel", "r1"))

    assert state(alias) == "cancelled"
    assert told(response) == ["Run r1: It was cancelled."]


def test_a_queued_run_is_requeued_without_evidence(alias: str, client: Client) -> None:
    admit(get_store(alias))

    page = got(client, act_url(alias, "requeue", "r1"))
    response = confirm(client, act_url(alias, "requeue", "r1"))

    assert "How do you know?" not in page
    assert told(response) == ["Run r1: It was queued again."]
    assert view_of(get_store(alias)).run.revision == 1


def test_the_reason_is_kept_with_the_run_and_in_the_log(alias: str, client: Client) -> None:
    make(alias)

    confirm(client, act_url(alias, "abandon", STUCK), reason="worker-7's host is gone")

    view = get_store(alias).load_run(ORDER, STUCK)
    assert view is not None
    assert view.run.terminal_detail == "worker-7's host is gone"
    entry = LogEntry.objects.get()
    assert entry.get_change_message() == "Abandon. It was abandoned. worker-7's host is gone"
    assert entry.user_id is not None
    history = got(client, row_url(alias, Run, STUCK, "history"))
    assert "worker-7&#x27;s host is gone" in history
    assert entry.get_admin_url() == row_url(alias, Run, STUCK)


def test_the_evidence_is_kept_in_the_log(alias: str, client: Client) -> None:
    store = get_store(alias)
    acquire(store, admit(store))

    confirm(client, act_url(alias, "requeue", "r1"), **EVIDENCE)

    assert "It had only read." in LogEntry.objects.get().change_message


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("requeue", {}),
        ("requeue", {"replay_safe": "on", "evidence": " "}),
        ("requeue", {"evidence": "yes"}),
        ("abandon", {}),
        ("abandon", {"reason": " \n"}),
        ("abandon", {"reason": "x" * 4_097}),
        ("abandon", {"reason": "a\0b"}),
    ],
)
def test_an_action_without_its_evidence_or_reason_asks_again(
    alias: str, client: Client, name: str, answers: dict[str, str]
) -> None:
    store = get_store(alias)
    acquire(store, admit(store))
    before = tables(alias)

    response = confirm(client, act_url(alias, name, "r1"), **answers)

    assert 'class="errorlist"' in response.content.decode()
    assert tables(alias) == before
    assert not LogEntry.objects.exists()


def test_a_run_that_moved_after_the_question_is_left_alone_and_that_is_told(
    alias: str, client: Client
) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))
    url = act_url(alias, "abandon", "r1")
    form = {"run": re.findall(r'name="run" value="([^"]*)"', got(client, url)), "reason": "late"}
    checkpoint(store, run, "Still here.")
    before = tables(alias)

    response = client.post(url.partition("?")[0], form, follow=True)

    assert tables(alias) == before
    assert told(response) == [
        "Run r1: Nothing was changed: the run has been written since; it is running now."
    ]
    assert "Nothing was changed" in LogEntry.objects.get().change_message


def test_a_run_that_ended_after_the_question_is_left_alone(alias: str, client: Client) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store))
    url = act_url(alias, "interrupt", "r1")
    form = {"run": re.findall(r'name="run" value="([^"]*)"', got(client, url))}
    store.commit_terminal(
        "c", "r1", expected_revision=run.revision, owner_id="worker", parts="", reason="success"
    )

    response = client.post(url.partition("?")[0], form, follow=True)

    (message,) = told(response)
    assert "it is completed now" in message


@pytest.mark.parametrize(
    ("name", "answers"), [("requeue", EVIDENCE), ("abandon", {"reason": "gone"})]
)
def test_an_owner_whose_lease_is_valid_keeps_its_run_unless_that_is_confirmed(
    alias: str, client: Client, name: str, answers: dict[str, str]
) -> None:
    store = get_store(alias)
    acquire(store, admit(store), lease=timedelta(hours=1))
    url = act_url(alias, name, "r1")

    refused = confirm(client, url, **answers)
    kept = state(alias)
    confirm(client, url, **answers, even_leased="on")

    assert "lease is still valid" in told(refused)[0]
    assert kept == "running"
    assert state(alias) != "running"


def test_an_owner_that_renews_after_the_question_keeps_its_run(alias: str, client: Client) -> None:
    store = get_store(alias)
    run = acquire(store, admit(store), lease=timedelta(seconds=60))
    Run.objects.using(alias).update(lease_expires_at=F("lease_expires_at") - timedelta(hours=1))
    url = act_url(alias, "abandon", "r1")
    form = {"run": re.findall(r'name="run" value="([^"]*)"', got(client, url)), "reason": "late"}
    assert run.fencing_token is not None
    store.renew_lease(
        "c", "r1", owner_id="worker", fencing_token=run.fencing_token, lease=timedelta(seconds=60)
    )

    response = client.post(url.partition("?")[0], form, follow=True)

    assert "lease is still valid, or was renewed" in told(response)[0]
    assert state(alias) == "running"


def test_each_run_of_several_has_its_own_outcome(alias: str, client: Client) -> None:
    make(alias)
    url = act_url(alias, "cancel", STUCK, WAITING, "run-paris", "run-new")

    page = seen(got(client, url))
    response = confirm(client, url)

    assert page.count("no worker will take it") == 2
    assert "Nothing: the run is running." in page
    assert "Nothing: the run is completed." in page
    refused = "Nothing was changed: the run's state doesn't allow it"
    assert sorted(told(response)) == [
        "Run run-new: It was cancelled.",
        f"Run run-paris: {refused}; it is completed now.",
        f"Run run-refund: {refused}; it is running now.",
        "Run run-thanks: It was cancelled.",
    ]
    assert LogEntry.objects.count() == 4


def test_a_run_that_can_t_be_read_hides_no_other(alias: str, client: Client) -> None:
    store = get_store(alias)
    admit(store)
    store.accept_input("other", "k", "Hello?", run_id="r2")
    Run.objects.using(alias).filter(run_id="r1").update(schema_version=2)

    response = confirm(client, act_url(alias, "cancel", "r1", "r2"))

    first, second = sorted(told(response))
    assert "schema version 2" in first
    assert second == "Run r2: It was cancelled."


def test_a_purged_conversation_s_run_is_told_as_gone(alias: str, client: Client) -> None:
    store = get_store(alias)
    admit(store)
    url = act_url(alias, "cancel", "r1")
    form = {"run": re.findall(r'name="run" value="([^"]*)"', got(client, url))}
    store.cancel_run("c", "r1")
    store.purge_conversation("c")

    assert client.post(url.partition("?")[0], form).status_code == 404


def test_runs_are_chosen_in_the_list(alias: str, client: Client) -> None:
    make(alias)
    keys = list(Run.objects.using(alias).active().values_list("pk", flat=True))
    chosen = {"action": "abandon", "_selected_action": keys, "index": 0}

    response = client.post(url_of(Run), chosen, follow=True)

    assert response.redirect_chain[0][0].startswith(url_of(Run, "act_abandon"))
    assert seen(response.content.decode()).count("It ends as abandoned") == 4
    assert set(Run.objects.using(alias).values_list("state", flat=True)) >= {"queued", "running"}


@pytest.mark.parametrize("more", [{"select_across": 1}, {"_selected_action": list(range(1, 102))}])
def test_too_many_runs_are_not_acted_on_at_once(
    alias: str, client: Client, more: dict[str, Any]
) -> None:
    answered(get_store(alias))
    key = Run.objects.using(alias).get().pk
    chosen = {"action": "abandon", "_selected_action": [key], "index": 0} | more

    response = client.post(url_of(Run), chosen, follow=True)

    assert told(response) == ["Choose at least one run, and at most 100."]


@pytest.mark.parametrize("query", ["", "run=", "run=x", "run=1:2:3", "run=" + "9" * 30, "run=1\0"])
def test_a_question_about_no_run_is_refused(alias: str, client: Client, query: str) -> None:
    assert alias
    assert client.get(f"{url_of(Run, 'act_cancel')}?{query}").status_code == 400


def test_an_answer_must_say_which_revision_it_is_about(alias: str, client: Client) -> None:
    admit(get_store(alias))
    key = Run.objects.using(alias).get().pk

    response = client.post(url_of(Run, "act_cancel"), {"run": [str(key)]})

    assert response.status_code == 400
    assert state(alias) == "queued"


@pytest.mark.parametrize("name", ["interrupt", "cancel", "requeue", "abandon"])
def test_an_action_needs_its_own_permission(alias: str, log_in: LogIn, name: str) -> None:
    make(alias)
    others = {"interrupt", "cancel", "requeue", "abandon"} - {name}
    url = act_url(alias, name, STUCK)
    keys = re.findall(r"run=(\d+)", url)
    form = {"run": [f"{keys[0]}:2"], "reason": "x", **EVIDENCE}
    before = tables(alias)

    for codenames in (READING, (*READING, *(f"{other}_run" for other in others)), (f"{name}_run",)):
        client = log_in(*codenames)
        assert client.get(url).status_code == 403
        assert client.post(url, form).status_code == 403

    assert tables(alias) == before
    assert log_in(*READING, f"{name}_run").get(url).status_code == 200
