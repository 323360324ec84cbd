"""Puts hash-partitioned tables in the place of PostgreSQL's plain ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.apps import apps

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

PARTITIONS: Final = 4


def partition(connection: BaseDatabaseWrapper) -> None:
    """Partition the package's tables by conversation, as a large installation would.

    A unique constraint of a partitioned table has the partition's key in it, so a surrogate key is
    one together with the conversation; all others begin with the conversation anyway.
    """
    with connection.cursor() as cursor:
        for model in apps.get_app_config("stitchkit_django").get_models():
            table = model._meta.db_table
            cursor.execute(
                "SELECT indexdef FROM pg_indexes WHERE tablename = %s AND schemaname = 'public'",
                (table,),
            )
            indexes = [sql for (sql,) in cursor.fetchall()]
            cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_plain")
            cursor.execute(
                f"CREATE TABLE {table} (LIKE {table}_plain INCLUDING DEFAULTS INCLUDING GENERATED "
                "INCLUDING CONSTRAINTS INCLUDING COMPRESSION) "
                "PARTITION BY HASH (conversation_id)"
            )
            for number in range(PARTITIONS):
                cursor.execute(
                    f"CREATE TABLE {table}_{number} PARTITION OF {table} "
                    f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
                )
            if "id" in {field.column for field in model._meta.concrete_fields}:
                cursor.execute(f"CREATE SEQUENCE {table}_keys")
                cursor.execute(
                    f"ALTER TABLE {table} ALTER id SET DEFAULT nextval('{table}_keys'), "
                    "ADD PRIMARY KEY (id, conversation_id)"
                )
            cursor.execute(f"DROP TABLE {table}_plain")
            for sql in indexes:
                if not sql.endswith(" (id)"):
                    cursor.execute(sql.replace(f" ON public.{table}_plain ", f" ON {table} "))
