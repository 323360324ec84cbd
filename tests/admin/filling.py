"""So many rows that each could be found by looking at all of them: made by the database itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.db import connections

from stitchkit_django.core import wire
from stitchkit_django.core.driver import LAST_SLOT
from stitchkit_django.models import AdmissionReceipt, Conversation, Message, Run
from tests.factories import MessageFactory

if TYPE_CHECKING:
    from django.db.models import Model

LONG: Final = "long"
"""The conversation that every tenth run belongs to; the others have ten runs each."""

_NUMBERS: Final = {
    "postgresql": "generate_series(1, {count}) AS number (n)",
    "sqlite": (
        "(WITH RECURSIVE number (n) AS "
        "(SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count}) SELECT n FROM number)"
    ),
}
_MOMENTS: Final = {
    "postgresql": "TIMESTAMPTZ '2026-01-10 00:00:00+00' + n * INTERVAL '1 second'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%S', '2026-01-10', '+' || n || ' seconds')",
}
_WHERE: Final = f"CASE WHEN n % 10 = 0 THEN '{LONG}' ELSE 'c-' || (n / 10 + 1) END"


def fill(alias: str, count: int) -> None:
    """Make so many runs, each with its receipt, its input and its answer.

    Args:
        alias: of the database, which has no rows of the store.
        count: of runs; one in twenty, the newest ones, waits.
    """
    waiting = count - count // 20
    _insert(alias, Run, count, _run(waiting))
    _insert(alias, AdmissionReceipt, count, _receipt())
    _insert(alias, Message, count, _message("user"))
    _insert(alias, Message, count, _message("assistant"))
    _insert(alias, Conversation, count // 10, _head("'c-' || n"))
    _insert(alias, Conversation, 1, _head(f"'{LONG}'"))
    if connections[alias].vendor == "postgresql":
        # Only there are plans looked at; SQLite's statistics would outlast the rows, and tell on
        # the plans of other tests.
        with connections[alias].cursor() as cursor:
            cursor.execute("ANALYZE")


def _insert(alias: str, model: type[Model], count: int, columns: dict[str, str]) -> None:
    connection = connections[alias]
    moment = _MOMENTS[connection.vendor]
    expressions = [text.replace("MOMENT", moment) for text in columns.values()]
    numbers = _NUMBERS[connection.vendor].format(count=count)
    sql = f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) "
    sql += f"SELECT {', '.join(expressions)} FROM {numbers}"
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _run(waiting: int) -> dict[str, str]:
    # Every hundredth run waits, and so do the newest ones; every thousandth runs, in conversations
    # of their own; few have failed. A filter for what is rare must not look through the rest.
    state = (
        f"CASE WHEN n % 1000 = 1 THEN 'running' WHEN n % 100 = 5 OR n > {waiting} THEN 'queued' "
        "WHEN n % 5000 = 2 THEN 'failed' ELSE 'completed' END"
    )
    is_queued = f"({state}) = 'queued'"
    is_active = f"({state}) IN ('queued', 'running')"
    answer = MessageFactory.build(answer=True)
    return {
        "conversation_id": _WHERE,
        "run_id": "'r-' || n",
        "schema_version": "1",
        "turn": "n",
        "input_message_ids": "'[\"i-' || n || '\"]'",
        "assistant_message_id": "'a-' || n",
        "state": state,
        "revision": "0",
        "owner_id": _null_where(is_queued, "'worker'"),
        "fencing_token": _null_where(is_queued, "1"),
        "lease_seconds": f"CASE WHEN ({state}) = 'running' THEN 60.0 END",
        "lease_expires_at": f"CASE WHEN ({state}) = 'running' THEN MOMENT END",
        "terminal_reason": (
            f"CASE ({state}) WHEN 'completed' THEN 'success' WHEN 'failed' "
            "THEN 'provider_failure' END"
        ),
        "terminal_assistant": _null_where(is_active, f"'{wire.MESSAGE.encode(answer)}'"),
        "created_at": "MOMENT",
        "updated_at": "MOMENT",
        "acquired_at": _null_where(is_queued, "MOMENT"),
        "ended_at": _null_where(is_active, "MOMENT"),
    }


def _receipt() -> dict[str, str]:
    return {
        "conversation_id": _WHERE,
        "idempotency_key": "'k-' || n",
        "schema_version": "1",
        "input": f"'{wire.MESSAGE.encode(MessageFactory.build())}'",
        "input_message_id": "'i-' || n",
        "run_id": "'r-' || n",
        "assistant_message_id": "'a-' || n",
        "created_at": "MOMENT",
    }


def _message(role: str) -> dict[str, str]:
    is_answer = role == "assistant"
    return {
        "conversation_id": _WHERE,
        "message_id": "'a-' || n" if is_answer else "'i-' || n",
        "schema_version": "1",
        "turn": "n",
        "slot": str(LAST_SLOT if is_answer else 0),
        "run_id": "'r-' || n" if is_answer else "NULL",
        "role": f"'{role}'",
        "status": "'completed'" if is_answer else "'committed'",
        "parts": '\'[{"type":"text","text":"Hello."}]\'',
        "created_at": "MOMENT",
        "updated_at": "MOMENT",
    }


def _head(conversation_id: str) -> dict[str, str]:
    return {
        "conversation_id": conversation_id,
        "schema_version": "1",
        "version": "1",
        "updated_at": "MOMENT",
    }


def _null_where(condition: str, value: str) -> str:
    return f"CASE WHEN {condition} THEN NULL ELSE {value} END"
