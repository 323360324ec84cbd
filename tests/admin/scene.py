"""Conversations as a support engineer finds them: answered, running, stuck, waiting, compacted.

They are made through the store; only what the clock would have to wait for is moved back.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from django.db.models.functions import Now

from stitchkit_django import get_store
from stitchkit_django.core import (
    Applied,
    Cost,
    FilePart,
    Provenance,
    ReasoningPart,
    SourcePart,
    TextPart,
    TokenCount,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
    Usage,
)
from stitchkit_django.models import AdmissionReceipt, Message, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stitchkit_django.core import AgentStore, Part
    from stitchkit_django.core import Run as RunRecord

ORDER: Final = "order-4711"
"""A conversation of several turns, one of them stuck."""
STUCK: Final = "run-refund"
"""The run of it whose lease has lapsed."""
WAITING: Final = "run-thanks"
"""The run behind it."""


def make(alias: str) -> None:
    """Make the scene in the store's database."""
    store = get_store(alias)
    _delivery(store)
    _address(store)
    _refund(store)
    _others(store)
    _age(alias)


def usage(amount: str) -> Usage:
    """Give what a run has used up, as a provider reports it."""
    reported = Provenance.PROVIDER_REPORTED
    return Usage(
        input_tokens=TokenCount(value=5_210, provenance=reported),
        output_tokens=TokenCount(value=318, provenance=reported),
        cache_read_tokens=TokenCount(value=4_096, provenance=reported),
        reasoning_tokens=TokenCount(provenance=Provenance.UNAVAILABLE),
        cost=Cost(amount=Decimal(amount), currency="EUR", provenance=Provenance.COMPUTED),
    )


def answer(
    store: AgentStore, where: str, run_id: str, parts: str | Sequence[Part], **fields: Any
) -> None:
    """Take a run and end it."""
    run = take(store, where, run_id)
    given: dict[str, Any] = {"reason": "success", "usage": usage("0.0213"), **fields}
    done(
        store.commit_terminal(
            where,
            run_id,
            expected_revision=run.revision,
            owner_id="worker-1",
            fencing_token=run.fencing_token,
            parts=parts,
            **given,
        )
    )


def take(store: AgentStore, where: str, run_id: str, **fields: Any) -> RunRecord:
    """Take a run; give it."""
    view = store.load_run(where, run_id)
    assert view is not None
    given = {"owner_id": "worker-1", "expected_revision": view.run.revision, **fields}
    return done(store.acquire_run(where, run_id, **given))


def done(outcome: Any) -> RunRecord:
    """Give the run of an operation that was applied."""
    assert isinstance(outcome, Applied), outcome
    assert outcome.run is not None
    return outcome.run


def _delivery(store: AgentStore) -> None:
    parts: list[Any] = [
        TextPart(text="Hello, where is my parcel? This is the confirmation that I got."),
        FilePart(
            media_type="application/pdf",
            reference="https://files.example/4711/confirmation.pdf",
            filename="confirmation.pdf",
        ),
    ]
    metadata: dict[str, Any] = {"channel": "web", "locale": "en"}
    ids: dict[str, Any] = {"run_id": "run-delivery", "input_message_id": "input-1"}
    store.accept_input(ORDER, "web-1", parts, metadata=metadata, **ids)
    parts = [
        ReasoningPart(text="The customer gives an order number, so I look it up first."),
        ToolCallPart(call_id="c1", tool_name="find_order", input={"order": 4711}),
        ToolResultPart(
            call_id="c1",
            tool_name="find_order",
            outcome=ToolOutcome.SUCCESS,
            output={"status": "shipped", "carrier": "Pigeon Post", "eta": "2026-03-04"},
        ),
        TextPart(
            text="Your order **4711** left our warehouse yesterday. Pigeon Post brings it on "
            "4 March.\n\nIs there anything else that I can do?"
        ),
        SourcePart(
            source_id="tracking", url="https://track.example/4711", title="Tracking of order 4711"
        ),
    ]
    answer(store, ORDER, "run-delivery", parts)


def _address(store: AgentStore) -> None:
    ids: dict[str, Any] = {"run_id": "run-address", "input_message_id": "input-2"}
    store.accept_input(ORDER, "web-2", "Can you bring it to my neighbour instead?", **ids)
    parts: list[Any] = [
        ToolCallPart(
            call_id="c2", tool_name="redirect", input={"order": 4711, "to": "neighbour, no. 12"}
        ),
        ToolResultPart(
            call_id="c2",
            tool_name="redirect",
            outcome=ToolOutcome.ERROR,
            output={"error": "the carrier does not answer"},
        ),
        TextPart(text="I could not reach the carrier. Please try again in an hour."),
    ]
    answer(store, ORDER, "run-address", parts, reason="policy_stop", policy_name="two-tries")


def _refund(store: AgentStore) -> None:
    ids: dict[str, Any] = {"run_id": STUCK, "input_message_id": "input-3"}
    store.accept_input(ORDER, "web-3", "Then I want my money back, please.", **ids)
    lease = timedelta(seconds=60)
    run = take(store, ORDER, STUCK, owner_id="worker-7", lease=lease)
    done(
        store.checkpoint_run(
            ORDER,
            STUCK,
            expected_revision=run.revision,
            owner_id="worker-7",
            fencing_token=run.fencing_token,
            parts=[
                TextPart(text="I understand. Let me see what I can do."),
                ToolCallPart(
                    call_id="c3",
                    tool_name="request_refund",
                    input={"order": 4711, "amount": "39.90"},
                ),
            ],
            usage=usage("0.0087"),
        )
    )
    store.accept_input(
        ORDER, "web-4", "Are you still there?", run_id=WAITING, input_message_id="input-4"
    )


def _others(store: AgentStore) -> None:
    store.accept_input("chat-paris", "1", "What is the capital of France?", run_id="run-paris")
    answer(store, "chat-paris", "run-paris", "Paris.")
    store.accept_input("chat-weather", "1", "Will it rain?", run_id="run-weather")
    failed: dict[str, Any] = {
        "reason": "provider_failure",
        "detail": "503 Service Unavailable\nupstream: eu-2",
    }
    answer(store, "chat-weather", "run-weather", "", **failed)
    store.accept_input("chat-poem", "1", "Write a poem about tests.", run_id="run-poem")
    take(store, "chat-poem", "run-poem", owner_id="worker-2", lease=timedelta(hours=1))
    store.accept_input("chat-new", "1", "Is anybody there?", run_id="run-new")
    _compacted(store)


def _compacted(store: AgentStore) -> None:
    for number, (question, reply) in enumerate(
        [("Hi!", "Hello."), ("What is 2 + 2?", "4."), ("And 3 + 3?", "6.")], 1
    ):
        store.accept_input("chat-long", str(number), question, run_id=f"run-long-{number}")
        answer(store, "chat-long", f"run-long-{number}", reply)
    snapshot = store.load_snapshot("chat-long")
    store.compact_history(
        "chat-long",
        expected_version=snapshot.version,
        message_ids=[message.id for message in snapshot.messages[:4]],
        summary_parts="The user greeted and asked for 2 + 2, which is 4.",
        summary_id="summary-long",
    )


def _age(alias: str) -> None:
    # What was made in a second happened over some hours, a turn every seven minutes.
    runs = Run.objects.using(alias)
    for number, run in enumerate(runs.order_by("pk")):
        spread = timedelta(hours=3) - timedelta(minutes=7 * number)
        taken = timedelta(seconds=1.4 + number)
        end = taken + timedelta(seconds=9 + 3 * number)
        _shift_run(run, spread, taken, end)
        mine = {"conversation_id": run.conversation_id, "turn": run.turn}
        inputs = Message.objects.using(alias).filter(**mine)
        inputs.exclude(role="assistant").update(created_at=run.created_at)
        inputs.filter(role="assistant").update(created_at=run.created_at + end)
        receipts = AdmissionReceipt.objects.using(alias).filter(run_id=run.run_id)
        receipts.update(created_at=run.created_at)
    runs.filter(run_id="run-poem").update(lease_expires_at=Now() + timedelta(minutes=52))


def _shift_run(run: Run, spread: timedelta, taken: timedelta, end: timedelta) -> None:
    run.created_at -= spread
    run.updated_at = run.created_at
    if run.acquired_at:
        run.acquired_at = run.created_at + taken
        run.updated_at = run.created_at + end
    if run.ended_at:
        run.ended_at = run.updated_at
    if run.lease_expires_at:
        run.lease_expires_at = run.updated_at + timedelta(seconds=60)
    run.save()
