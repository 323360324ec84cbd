"""A document is imported whole, once, and never over what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from stitchkit_django.core import AgentStore, CorruptRecordError, MemoryDriver
from stitchkit_django.core.documents import exported
from stitchkit_django.core.driver import ActiveRuns
from stitchkit_django.core.records import Head
from stitchkit_django.core.transfer import Import, ImportResult, import_document
from tests.core.aggregates import aggregate, answer, completed, line, message
from tests.core.planting import head, sound
from tests.core.steps import answered, view
from tests.factories import MOMENT

if TYPE_CHECKING:
    from stitchkit_django.core.driver import ConversationRows

AGGREGATE = line(aggregate([completed("r1", "i1")], [message("i1"), answer("r1")], version=3))
IMPORTED = Import(result=ImportResult.IMPORTED, conversation_id="c")
UNCHANGED = Import(result=ImportResult.UNCHANGED, conversation_id="c")


@pytest.fixture
def driver() -> MemoryDriver:
    return MemoryDriver()


def rows(driver: MemoryDriver) -> ConversationRows | None:
    return driver.rows("c")


@pytest.mark.parametrize("text", [AGGREGATE, exported(sound())], ids=["aggregate", "export"])
def test_a_second_import_changes_nothing(driver: MemoryDriver, text: str) -> None:
    assert import_document(driver, text) == IMPORTED
    first = rows(driver)

    assert import_document(driver, text) == UNCHANGED

    assert first is not None
    assert rows(driver) == first


def test_rows_go_out_of_one_driver_and_into_another_the_same(driver: MemoryDriver) -> None:
    assert import_document(driver, exported(sound())) == IMPORTED

    assert rows(driver) == sound()


def test_a_conversation_of_another_version_is_left_as_it_is(driver: MemoryDriver) -> None:
    import_document(driver, AGGREGATE)
    answered(AgentStore(driver), "9")
    held = rows(driver)

    done = import_document(driver, AGGREGATE)

    assert done.result is ImportResult.REFUSED
    assert done.reason == (
        "is there at version 6, while the document has version 3: what is stored is left as it is"
    )
    assert rows(driver) == held


def test_a_purged_conversation_is_not_brought_back(driver: MemoryDriver) -> None:
    import_document(driver, AGGREGATE)
    AgentStore(driver).purge_conversation("c")

    done = import_document(driver, AGGREGATE)

    assert done.result is ImportResult.REFUSED
    assert done.reason is not None
    assert "is there at version 4 and purged" in done.reason
    (purged,) = [rows(driver)]
    assert purged is not None
    assert import_document(driver, exported(purged)) == UNCHANGED
    alive = replace(purged, head=replace(purged.head, purged_at=None))
    assert import_document(driver, exported(alive)).result is ImportResult.REFUSED


def test_a_dry_run_says_the_same_and_writes_nothing(driver: MemoryDriver) -> None:
    assert import_document(driver, AGGREGATE, dry_run=True) == IMPORTED
    assert rows(driver) is None
    import_document(driver, AGGREGATE)

    assert import_document(driver, AGGREGATE, dry_run=True) == UNCHANGED
    assert import_document(driver, exported(sound()), dry_run=True).result is ImportResult.REFUSED
    assert import_document(driver, "{", dry_run=True).result is ImportResult.REFUSED


def test_what_can_not_be_read_is_refused_and_named_where_it_can_be(driver: MemoryDriver) -> None:
    broken = import_document(driver, "{")
    spoilt = import_document(driver, AGGREGATE.replace('"success"', '"bored"'))

    assert (broken.result, broken.conversation_id) == (ImportResult.REFUSED, None)
    assert (spoilt.result, spoilt.conversation_id) == (ImportResult.REFUSED, "c")
    assert spoilt.reason is not None
    assert spoilt.reason.startswith("$.state.runs[0].terminal_reason: 'bored'")


def test_the_first_contradiction_is_told_and_the_others_are_counted(driver: MemoryDriver) -> None:
    text = exported(head(sound(), version=18, updated_at=MOMENT))

    done = import_document(driver, text)

    assert done.reason == (
        "contradicts itself: run 'r7': has turn 19; the head's version is 18 (version); "
        "1 more findings"
    )
    assert rows(driver) is None


def test_nothing_is_imported_of_a_conversation_that_nobody_has_written_to(
    driver: MemoryDriver,
) -> None:
    nothing = replace(head(sound(), version=0), runs=(), receipts=(), messages=())

    done = import_document(driver, exported(nothing))

    assert done.result is ImportResult.REFUSED
    assert done.reason is not None
    assert "nothing to import" in done.reason


class Racing(MemoryDriver):
    """Says first that a conversation isn't there, as another is about to import it."""

    def __init__(self, head_seen: Head | None = None) -> None:
        super().__init__()
        self.seen = [ActiveRuns(head=head_seen)]

    def active_runs(self, conversation_id: str) -> ActiveRuns:
        return self.seen.pop() if self.seen else super().active_runs(conversation_id)


def test_the_slower_of_two_imports_finds_the_conversation_there() -> None:
    driver = Racing()
    held = sound()
    driver.transaction(lambda transaction: transaction.restore(held))

    assert import_document(driver, exported(held)) == UNCHANGED
    driver.seen = [ActiveRuns()]
    assert import_document(driver, AGGREGATE).result is ImportResult.REFUSED
    assert rows(driver) == held


def test_a_row_that_was_made_before_anybody_wrote_is_no_conversation() -> None:
    driver = Racing(Head(conversation_id="c", version=0, updated_at=MOMENT))

    assert import_document(driver, AGGREGATE) == IMPORTED
    assert view(AgentStore(driver)).run.id == "r1"


class Unreadable(MemoryDriver):
    def active_runs(self, conversation_id: str) -> ActiveRuns:
        raise CorruptRecordError(f"the head in conversation {conversation_id!r}", "it says so")


def test_a_conversation_that_is_there_and_can_not_be_read_is_left_as_it_is() -> None:
    done: Any = import_document(Unreadable(), AGGREGATE)

    assert done.result is ImportResult.REFUSED
    assert done.conversation_id == "c"
    assert done.reason == (
        "is there, but can't be read: the head in conversation 'c' is corrupt: it says so"
    )
