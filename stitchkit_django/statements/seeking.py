"""The key at which a table's rows reach a moment: found by halving, for want of another index.

Rows are numbered as they come, so a table's keys rise with its moments; where they don't (an
imported conversation keeps its moments), a place is found at which rows go from before the moment
to after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db import connections

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import Field

# Each step reads the next row at or after the middle, once for either end. Rows below `low` are
# from before the moment, those from `high` on are not.
_EARLIER: Final = (
    "(SELECT {moment} FROM {table} WHERE {key} >= (low + high) / 2 ORDER BY {key} LIMIT 1) < %s"
)
_SEEK: Final = f"""
WITH RECURSIVE seek(low, high) AS (
    SELECT MIN({{key}}), MAX({{key}}) + 1 FROM {{table}}
    UNION ALL
    SELECT
        CASE WHEN {_EARLIER} THEN (low + high) / 2 + 1 ELSE low END,
        CASE WHEN {_EARLIER} THEN high ELSE (low + high) / 2 END
    FROM seek WHERE low < high
)
SELECT low FROM seek WHERE low = high
"""


def first_key_since(
    using: str, key: Field[Any, Any], moment: Field[Any, Any], since: datetime
) -> int | None:
    """Give the key from which on a table's rows are not from before a moment.

    It reads twice as many rows as the number of keys has binary digits, in one statement.

    Args:
        using: alias of the database.
        key: the table's whole-number primary key.
        moment: the field that rises with it.
        since: aware.

    Returns:
        A key, one past the last where all rows are from before; None where there are no rows.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    sql = _SEEK.format(
        table=quote(key.model._meta.db_table),
        key=quote(str(key.column)),
        moment=quote(str(moment.column)),
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [connection.ops.adapt_datetimefield_value(since)] * 2)
        row = cursor.fetchone()
    return None if row is None else int(row[0])
