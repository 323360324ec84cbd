"""The async form of an operation, beside one hop to a thread around the sync form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from asgiref.sync import sync_to_async

import stitchkit_django
from benchmarks.bodies import body
from benchmarks.cases import WARM_UP
from benchmarks.contenders import OWNER, Store
from benchmarks.databases import ALIASES
from benchmarks.filling import MESSAGE_SIZE, fill
from benchmarks.report import Measurement
from benchmarks.timing import Samples, rotated, rounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.contenders import Claim
    from benchmarks.databases import Database
    from benchmarks.plan import Plan

SECTION: Final = "async, one client"
NAME: Final = "checkpoint, 2 KB"
SIZE: Final = 2000
LENGTH: Final = 100
HOP: Final = "one hop around sync"


def measure(database: Database, plan: Plan) -> list[Measurement]:
    """Measure checkpoints of a run; both forms use the connection of one thread."""
    alias = ALIASES[plan.options[0]]
    conversations = fill(database, 2, LENGTH)
    database.settle()
    hop = Measurement(SECTION, NAME, HOP)
    whole = Measurement(SECTION, NAME, f"async store ({plan.options[0]})", floor=HOP)
    asyncio.run(_measure(alias, conversations, (hop.samples, whole.samples), plan.seconds))
    return [hop, whole]


async def _measure(
    alias: str, conversations: list[str], samples: tuple[Samples, Samples], seconds: float
) -> None:
    sync = Store(alias)
    claims = [await sync_to_async(_claim)(sync, where) for where in conversations]
    keep = sync_to_async(sync.checkpoint)
    cases: list[tuple[Samples, Callable[[Claim], Awaitable[None]], Claim]] = [
        (samples[0], lambda claim: keep(claim, body(SIZE)), claims[0]),
        (samples[1], _async_checkpoint(alias), claims[1]),
    ]
    for _, work, claim in cases * WARM_UP:
        await work(claim)
    for number in rounds(seconds * len(cases)):
        for one, work, claim in rotated(cases, number):
            with one.one():
                await work(claim)
    await sync_to_async(sync.close)()


def _claim(store: Store, conversation_id: str) -> Claim:
    claim = store.accept(conversation_id, str(uuid4()), body(MESSAGE_SIZE))
    store.acquire(claim)
    return claim


def _async_checkpoint(alias: str) -> Callable[[Claim], Awaitable[None]]:
    store = stitchkit_django.get_store(alias)

    async def checkpoint(claim: Claim) -> None:
        await store.acheckpoint_run(
            claim.conversation_id,
            claim.run_id,
            expected_revision=claim.revision,
            owner_id=OWNER,
            fencing_token=claim.fence,
            parts=body(SIZE).text,
        )
        claim.revision += 1

    return checkpoint
