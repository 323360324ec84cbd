"""A report as text: one line a measurement, a heading for each section."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.report import Measurement, Report

_COLUMNS: Final = ("count", "p50 µs", "p95 µs", "ops/s", "ratio", "WAL", "growth", "of WAL")
_WIDTH: Final = 11


def lines(report: Report) -> Iterator[str]:
    """Give the lines of a report."""
    yield ", ".join(f"{name} {value}" for name, value in report.machine.items())
    section = None
    for one in report.measurements:
        if one.section != section:
            section = one.section
            yield ""
            yield _line(section, "", _COLUMNS)
        yield _line(f"  {one.name}", one.contender, list(_cells(report, one)))
    if report.missing:
        yield ""
    for name, why in report.missing.items():
        yield f"not measured: {name}: {why}"


def _cells(report: Report, one: Measurement) -> Iterator[str]:
    yield f"{len(one.samples.seconds):,}"
    for percent in (50, 95):
        yield f"{one.samples.percentile(percent) * 1e6:,.0f}"
    yield f"{one.samples.per_second():,.1f}"
    yield _ratio(report.ratio(one))
    written = one.middle_written()
    yield "" if written is None else f"{written:,}"
    for grown in report.growth(one) or (None, None):
        yield _ratio(grown)


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _line(name: str, contender: str, cells: Sequence[str]) -> str:
    # A heading of a section is longer than a name, and has no contender.
    first = f"{name:<26}{contender:<26}" if contender else f"{name:<52}"
    return (first + "".join(f"{cell:>{_WIDTH}}" for cell in cells)).rstrip()
