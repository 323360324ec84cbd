"""The drivers of the package keep every law of the kit."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction
from django.db.models import Model, QuerySet

from stitchkit_django.core import AgentStore, MemoryDriver
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from stitchkit_django.testing import (
    CHECKS,
    RACES,
    check_callbacks_follow_the_commit,
    check_publishers_see_what_was_committed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stitchkit_django.testing import Check, MakeStore, Race

AFTER_COMMIT = (check_callbacks_follow_the_commit, check_publishers_see_what_was_committed)
"""Laws about what comes after the commit, which in a caller's transaction is not the check's."""


@contextmanager
def memory_store(_ids: Sequence[str]) -> Iterator[AgentStore]:
    yield AgentStore(MemoryDriver())


@pytest.fixture
def django_store(alias: str) -> MakeStore:
    """Give what makes a store over each database, and deletes what a check has left there."""

    @contextmanager
    def make(conversation_ids: Sequence[str]) -> Iterator[AgentStore]:
        yield AgentStore(DjangoDriver(alias))
        with transaction.atomic(using=alias):
            for model in (Conversation, Run, AdmissionReceipt, Message):
                rows: QuerySet[Model, Model] = QuerySet(model, using=alias)
                rows.filter(conversation_id__in=conversation_ids).delete()

    return make


@pytest.mark.parametrize("check", CHECKS)
def test_the_memory_driver_keeps_a_law(check: Check) -> None:
    check(memory_store)


@pytest.mark.parametrize("race", RACES)
def test_the_memory_driver_keeps_a_law_when_threads_race(race: Race) -> None:
    race(memory_store)


@pytest.mark.parametrize("check", CHECKS)
def test_the_django_driver_keeps_a_law(check: Check, django_store: MakeStore, alias: str) -> None:
    check(django_store)

    for model in (Conversation, Run, AdmissionReceipt, Message):
        assert not QuerySet(model, using=alias).exists(), "the check has left rows behind"


@pytest.mark.parametrize("race", RACES)
def test_the_django_driver_keeps_a_law_when_threads_race(
    race: Race, django_store: MakeStore
) -> None:
    race(django_store, release=connections.close_all)


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in AFTER_COMMIT])
def test_a_law_holds_inside_a_transaction_of_the_callers(
    check: Check, django_store: MakeStore, alias: str
) -> None:
    with transaction.atomic(using=alias):
        check(django_store)


def test_a_store_gives_its_driver() -> None:
    driver = MemoryDriver()

    assert AgentStore(driver).driver is driver
