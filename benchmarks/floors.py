"""The floors: the same rows written without the package, by plain prepared statements.

They write the same bytes to the same columns as the store does, and check no more than that each
write has changed one row.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks import statements as sql
from benchmarks.contenders import LEASE, OWNER, PAGE, WINDOW, Claim
from benchmarks.sessions import check_one
from stitchkit_django.core.store import new_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bodies import Body
    from benchmarks.sessions import Row, Session

_PARTS = msgspec.json.Decoder()
_SECONDS = LEASE.total_seconds()


class Transactions:
    """F2: lock the head, read the facts, write head, run and the rest one by one, commit."""

    def __init__(self, session: Session) -> None:
        """Take a connection."""
        self._session = session

    def accept(self, conversation_id: str, key: str, body: Body) -> Claim:
        """Admit an input."""
        session, where = self._session, conversation_id
        # The same ids as the store makes: whether they have an order is felt in every index.
        input_id, run_id, answer_id = new_identifier(), new_identifier(), new_identifier()
        new = (where, input_id, answer_id)
        session.begin()
        version = self._version(where)
        known = session.rows(sql.RECEIPT, (where, key))
        row = session.rows(sql.TAKEN, (*new, *new, *new, where, run_id))[0]
        check_one(1 - len(known) - sum(row[1:]))
        moment = session.moment(row)
        at = session.adapted(moment)
        turn = version + 1
        session.write(sql.UPDATE_HEAD, (turn, at, where, version))
        inputs = f'["{input_id}"]'
        session.write(sql.INSERT_RUN, (where, run_id, turn, inputs, answer_id, at, at))
        stored = stored_message(where, input_id, None, body, moment)
        receipt = (where, key, stored, input_id, run_id, answer_id, at)
        session.write(sql.INSERT_RECEIPT, receipt)
        session.write(sql.INSERT_INPUT, (where, input_id, turn, body.parts, at, at))
        session.commit()
        return Claim(where, run_id, 0)

    def acquire(self, claim: Claim) -> None:
        """Take its run."""
        session, version, row = self._begun(claim, sql.QUEUED_RUN)
        moment = session.moment(row)
        at = session.adapted(moment)
        revision, fence = row[sql.REVISION], (row[sql.FENCE] or 0) + 1
        self._swap(claim, version, at)
        lease = (_SECONDS, session.adapted(moment + LEASE))
        values = (revision + 1, OWNER, fence, at, at, *lease)
        session.write(sql.TAKE_RUN, (*values, claim.conversation_id, claim.run_id, revision))
        session.commit()
        claim.revision, claim.fence = revision + 1, fence

    def checkpoint(self, claim: Claim, body: Body) -> None:
        """Keep what it has answered so far."""
        session, version, row = self._begun(claim, sql.ANSWERED_RUN)
        moment = session.moment(row)
        at = session.adapted(moment)
        revision = row[sql.REVISION]
        self._swap(claim, version, at)
        values = (revision + 1, at, _SECONDS, session.adapted(moment + LEASE))
        session.write(sql.KEEP_RUN, (*values, *_guard(claim, row)))
        self._answer(claim, row, "streaming", body, at)
        session.commit()
        claim.revision = revision + 1

    def check_fence(self, claim: Claim) -> None:
        """Read the run, to see whether it is still the worker's."""
        row = self._session.read(sql.FENCE_CHECK, (claim.conversation_id, claim.run_id))[0]
        check_one(int(row[sql.FENCE] == claim.fence))

    def end(self, claim: Claim, body: Body) -> None:
        """End it with its answer."""
        session, version, row = self._begun(claim, sql.ANSWERED_RUN)
        moment = session.moment(row)
        at = session.adapted(moment)
        self._swap(claim, version, at)
        answer_id = row[sql.ANSWER_ID]
        answer = stored_message(claim.conversation_id, answer_id, claim.run_id, body, moment)
        values = (row[sql.REVISION] + 1, at, at, answer)
        session.write(sql.END_RUN, (*values, *_guard(claim, row)))
        self._answer(claim, row, "completed", body, at)
        session.commit()

    def history(self, conversation_id: str) -> int:
        """Read the newest messages; give how many there were."""
        rows = self._session.read(sql.NEWEST_TEXTS, (conversation_id, WINDOW))
        return len(_decoded(rows))

    def snapshot(self, conversation_id: str) -> int:
        """Read the texts of all messages and of their runs; give how many messages there were."""
        messages = _decoded(self._session.read(sql.ALL_TEXTS, (conversation_id,)))
        runs = self._session.read(sql.ALL_RUN_TEXTS, (conversation_id,))
        [_PARTS.decode(row[sql.INPUTS]) for row in runs]
        return len(messages)

    def recovery_page(self, cursor: Any) -> Any:  # noqa: ANN401 - each has its own kind
        """Read a page of active runs from a cursor on, None for the first; give the next cursor."""
        rows = self._session.read(sql.SCAN, (cursor or 0, PAGE + 1))
        return rows[PAGE - 1][sql.KEY] if len(rows) > PAGE else None

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _version(self, conversation_id: str) -> int:
        rows = self._session.rows(sql.LOCK, (conversation_id,))
        if not rows:
            now = self._session.adapted(datetime.now(UTC))
            rows = self._session.rows(sql.MAKE_HEAD, (conversation_id, now))
        version: int = rows[0][1]
        return version

    def _begun(self, claim: Claim, facts: str) -> tuple[Session, int, Row]:
        self._session.begin()
        version = self._version(claim.conversation_id)
        row = self._session.rows(facts, (claim.conversation_id, claim.run_id))[0]
        return self._session, version, row

    def _swap(self, claim: Claim, version: int, at: Any) -> None:  # noqa: ANN401 - a moment
        values = (version + 1, at, claim.conversation_id, version)
        self._session.write(sql.UPDATE_HEAD, values)

    def _answer(self, claim: Claim, row: Row, status: str, body: Body, at: Any) -> None:  # noqa: ANN401 - likewise
        where, answer_id = claim.conversation_id, row[sql.ANSWER_ID]
        if row[-2] is None:
            place = (where, answer_id, row[sql.TURN], claim.run_id)
            self._session.write(sql.INSERT_ANSWER, (*place, status, body.parts, at, at))
        else:
            self._session.write(sql.UPDATE_ANSWER, (status, body.parts, at, where, answer_id))


class OneStatement(Transactions):
    """F1: a checkpoint as one statement in one round trip, which trusts what its worker knows."""

    def checkpoint(self, claim: Claim, body: Body) -> None:
        """Keep what it has answered so far; the first time as F2 does."""
        if claim.revision == 1:
            super().checkpoint(claim, body)
            return
        run = (claim.conversation_id, claim.run_id, claim.revision, OWNER, claim.fence)
        values = (claim.conversation_id, claim.revision + 1, _SECONDS, _SECONDS, *run, body.parts)
        self._session.write_alone(sql.CHECKPOINT_AT_ONCE, (*values, claim.conversation_id))
        claim.revision += 1


class WholeRows(Transactions):
    """Reads of every column that a record is made of: numbers and moments, too."""

    def history(self, conversation_id: str) -> int:
        """Read the newest messages; give how many there were."""
        rows = self._session.read(sql.NEWEST, (conversation_id, WINDOW))
        return len(_decoded(rows))

    def snapshot(self, conversation_id: str) -> int:
        """Read all messages and their runs; give how many messages there were."""
        messages = _decoded(self._session.read(sql.ALL, (conversation_id,)))
        runs = self._session.read(sql.ALL_RUNS, (conversation_id,))
        [_PARTS.decode(row[sql.INPUTS]) for row in runs]
        return len(messages)


def _guard(claim: Claim, row: Row) -> tuple[object, ...]:
    return (claim.conversation_id, claim.run_id, row[sql.REVISION], OWNER, claim.fence)


def stored_message(
    conversation_id: str, identity: str, run_id: str | None, body: Body, moment: datetime
) -> str:
    """Give a message as JSON, as its record has it: a user's without a run, else its answer."""
    fields = {
        "schemaVersion": 1,
        "id": identity,
        "conversationId": conversation_id,
        **({} if run_id is None else {"runId": run_id}),
        "role": "user" if run_id is None else "assistant",
        "status": "committed" if run_id is None else "completed",
        "parts": msgspec.Raw(body.parts.encode()),
        "createdAt": moment,
        "updatedAt": moment,
    }
    return msgspec.json.encode(fields).decode()


def _decoded(rows: Sequence[Row]) -> list[Any]:
    return [(_PARTS.decode(row[4]), row[5] and _PARTS.decode(row[5])) for row in rows]
