"""A driver that breaks a law is found by that law's check, and by those that rest on it alone."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

from stitchkit_django import testing
from stitchkit_django.core import (
    AgentStore,
    MemoryDriver,
    StitchkitError,
    StoreUnavailableError,
)
from stitchkit_django.testing import (
    CHECKS,
    RACES,
    check_a_lease_is_judged_as_stored,
    check_a_snapshot_is_never_torn,
    check_of_racing_acquisitions_one_is_applied,
    check_of_racing_admissions_of_one_key_one_is_applied,
    check_of_racing_ends_one_is_applied,
    check_racing_admissions_are_all_applied,
)
from tests.factories import MOMENT
from tests.testing.broken import (
    DEFECTS,
    BrokenDriver,
    Defect,
    ForgetfulDriver,
    TearingDriver,
    UnlockedDriver,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stitchkit_django.core.memory import MemoryTransaction
    from stitchkit_django.testing import Check, MakeStore, Race

T = TypeVar("T")


def store_maker(driver: type[MemoryDriver]) -> MakeStore:
    @contextmanager
    def make(_ids: Sequence[str]) -> Iterator[AgentStore]:
        yield AgentStore(driver())

    return make


def law(check: Check | Race) -> str:
    name: str = check.__name__  # type: ignore[union-attr] # a check is a function
    return name.removeprefix("check_")


def failing(driver: type[MemoryDriver]) -> set[str]:
    """Give the laws that a driver is found to break, by an assert or by what the store raises."""
    found = set()
    for check in CHECKS:
        try:
            check(store_maker(driver))
        except (AssertionError, StitchkitError):
            found.add(law(check))
    return found


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.driver.__name__)
def test_a_broken_law_is_found_by_its_own_check_and_few_others(defect: Defect) -> None:
    found = failing(defect.driver)

    assert found == {defect.check, *defect.also}


def test_each_law_has_a_driver_that_breaks_it() -> None:
    broken = [defect.check for defect in DEFECTS]

    assert sorted(broken) == sorted(map(law, CHECKS))


def test_a_driver_with_hooks_alone_breaks_no_law() -> None:
    assert failing(BrokenDriver) == set()


def test_no_law_is_found_kept_because_nothing_is_there() -> None:
    found = failing(ForgetfulDriver)

    assert set(map(law, CHECKS)) - found == {
        "a_refused_admission_makes_no_conversation",
        "no_callback_follows_a_failure",
        "only_an_admission_makes_a_conversation",
    }


@pytest.mark.parametrize(
    "race",
    [
        check_of_racing_admissions_of_one_key_one_is_applied,
        check_racing_admissions_are_all_applied,
        check_of_racing_acquisitions_one_is_applied,
        check_of_racing_ends_one_is_applied,
    ],
)
def test_a_driver_without_a_lock_is_found_by_threads_alone(race: Race) -> None:
    assert failing(UnlockedDriver) == set()

    with pytest.raises(AssertionError):
        race(store_maker(UnlockedDriver))


def test_a_torn_snapshot_is_found() -> None:
    with pytest.raises(AssertionError, match="snapshot of version"):
        check_a_snapshot_is_never_torn(store_maker(TearingDriver))


def test_every_check_is_in_one_of_the_lists() -> None:
    named = [getattr(testing, name) for name in testing.__all__ if name.startswith("check_")]

    assert len({*CHECKS, *RACES}) == len(CHECKS) + len(RACES) == len(named)
    assert {*CHECKS, *RACES} == set(named)
    assert all(check.__doc__ for check in named)


def test_a_clock_that_stands_still_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stitchkit_django.testing.leases.PATIENCE_SECONDS", 0)

    class StandingDriver(MemoryDriver):
        def __init__(self) -> None:
            super().__init__(lambda: MOMENT)

    with pytest.raises(AssertionError, match="the driver's clock stands still"):
        check_a_lease_is_judged_as_stored(store_maker(StandingDriver))


def test_a_writer_that_fails_in_its_thread_says_why() -> None:
    class OneThreadDriver(MemoryDriver):
        def __init__(self) -> None:
            super().__init__()
            self.home = threading.get_ident()

        def transaction(self, work: Callable[[MemoryTransaction], T]) -> T:
            if threading.get_ident() != self.home:
                message = "this is another thread's"
                raise StoreUnavailableError(message)
            return super().transaction(work)

    for race in RACES:
        with pytest.raises(StoreUnavailableError, match="this is another thread's"):
            race(store_maker(OneThreadDriver))
