"""What the benchmarks have printed, as tables: no figure of the pages is written by hand."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stitchkit_docs.markdown import paragraphs, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

RECORDS: Final = Path(__file__).parents[2] / "measured"
"""What `--json` of the benchmarks wrote, a file for each run."""
POSTGRES: Final = ("postgres-django-5.2", "postgres-django-6.1")
SQLITE: Final = ("sqlite",)
PEERS: Final = ("peers",)


class Shown(NamedTuple):
    """What a section of a page shows: the measurements of some runs whose sections begin so."""

    records: tuple[str, ...]
    prefixes: tuple[str, ...]


SHOWN: Final[Mapping[str, Shown]] = {
    "measured operations": Shown(POSTGRES, ("operations",)),
    "measured turns": Shown(POSTGRES, ("whole turns, one client",)),
    "measured threads": Shown(POSTGRES, ("whole turns, 8 threads", "admissions")),
    "measured reads": Shown(POSTGRES, ("load_",)),
    "measured upkeep": Shown(POSTGRES, ("scan_recoverable", "purge_runs")),
    "measured hops": Shown(POSTGRES, ("async",)),
    "measured sqlite": Shown(SQLITE, ("",)),
    "measured peer turns": Shown(PEERS, ("turn",)),
    "measured peer reads": Shown(PEERS, ("read",)),
}
"""By the name that a page asks for."""


class Column(NamedTuple):
    """A column of a table; it is left out where no measurement has a value."""

    title: str
    key: str
    form: str

    def cell(self, one: Mapping[str, Any]) -> str:
        """Give what a measurement has in this column."""
        value = one[self.key]
        return "" if value is None else format(value, self.form)


COLUMNS: Final = (
    Column("p50 µs", "p50_us", ",.0f"),
    Column("p95 µs", "p95_us", ",.0f"),
    Column("in a second", "per_second", ",.1f"),
    Column("ratio", "ratio", ".2f"),
    Column("WAL bytes", "written_bytes", ",d"),
    Column("growth", "growth", ".2f"),
    Column("of WAL", "growth_of_written", ".2f"),
)


@cache
def record(name: str) -> Mapping[str, Any]:
    """Give what a run found."""
    found: Mapping[str, Any] = json.loads((RECORDS / f"{name}.json").read_text())
    return found


def sections() -> Mapping[str, Callable[[], str]]:
    """Give what makes each section, by the name that a page asks for."""
    return {
        "measured on": _machines,
        **{name: partial(_tables, shown) for name, shown in SHOWN.items()},
    }


def measurements(name: str, shown: Shown) -> list[Mapping[str, Any]]:
    """Give what a section shows of one run, in the order of the run."""
    return [
        one for one in record(name)["measurements"] if one["section"].startswith(shown.prefixes)
    ]


def _machines() -> str:
    facts = {name: record(name)["machine"] for name in (*POSTGRES, *SQLITE, *PEERS)}
    titles = dict.fromkeys(fact for machine in facts.values() for fact in machine)
    return table(
        ["", *(f"`{name}`" for name in facts)],
        [
            [title.replace("_", " "), *(_fact(facts[name].get(title, "")) for name in facts)]
            for title in titles
        ],
    )


def _fact(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _tables(shown: Shown) -> str:
    return paragraphs(*(_table(name, measurements(name, shown)) for name in shown.records))


def _table(name: str, found: Sequence[Mapping[str, Any]]) -> str:
    columns = [one for one in COLUMNS if any(each[one.key] is not None for each in found)]
    machine = record(name)["machine"]
    return paragraphs(
        f"**Django {machine['django']} on {machine['database']}**",
        table(["what", "by", *(one.title for one in columns)], _rows(found, columns)),
    )


def _rows(found: Iterable[Mapping[str, Any]], columns: Sequence[Column]) -> Iterable[list[str]]:
    section = None
    for one in found:
        if one["section"] != section:
            section = one["section"]
            yield [f"**{section}**", *([""] * (len(columns) + 1))]
        yield [one["name"], one["contender"], *(column.cell(one) for column in columns)]
