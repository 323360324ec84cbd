"""What must hold between the rows of one conversation, as pure rules; no reading of rows.

A record checks itself when it is built; a rule here compares it with the others. Rows may be
absent for good reason: a purge of old runs takes ended runs with their receipts, a purge of the
history takes archived messages, and a store that doesn't archive deletes what it compacts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchkit_django.core.integrity.answers import check_answers
from stitchkit_django.core.integrity.finding import LAWS, Finding, Rule
from stitchkit_django.core.integrity.heads import check_head
from stitchkit_django.core.integrity.history import check_history
from stitchkit_django.core.integrity.identities import check_identities
from stitchkit_django.core.integrity.indexed import Indexed
from stitchkit_django.core.integrity.inputs import check_inputs
from stitchkit_django.core.integrity.receipts import check_receipts
from stitchkit_django.core.integrity.runs import check_runs

if TYPE_CHECKING:
    from stitchkit_django.core.driver import ConversationRows

__all__ = ["LAWS", "Finding", "Rule", "findings"]


def findings(rows: ConversationRows, *, whole: bool = True) -> tuple[Finding, ...]:
    """Give everything that is wrong between the rows of a conversation.

    Args:
        rows: of the conversation.
        whole: whether they are all there is; False: others can't be read, so nothing is said
            about what seems to be missing.

    Returns:
        One finding for each row, or group of rows, that breaks a rule; none where all is well.
    """
    found = Indexed(rows, whole=whole)
    if rows.head.purged_at is not None:
        # What should not be there at all is not compared any further.
        return tuple(check_head(found))
    return (
        *check_head(found),
        *check_identities(found),
        *check_runs(found),
        *check_inputs(found),
        *check_answers(found),
        *check_history(found),
        *check_receipts(found),
    )
