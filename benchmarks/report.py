"""What a run has found: measurements, and how they compare with each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, Final

from benchmarks.timing import Samples

BASE_LENGTH: Final = 100
"""What longer conversations are compared with."""


@dataclass
class Measurement:
    """One thing that was done by one contender."""

    section: str
    name: str
    contender: str
    samples: Samples = field(default_factory=Samples)
    floor: str | None = None
    """The contender that it is compared with, by the same name in the same section."""
    by_rate: bool = False
    """Whether operations a second are compared, as where threads wait for each other."""
    written: list[int] = field(default_factory=list)
    """Bytes written ahead, each time."""
    length: int | None = None
    """Messages of the conversation."""
    is_flat: bool = False
    """Whether it should cost the same at any length."""

    def middle_written(self) -> int | None:
        """Give the median of the bytes written ahead; None where they weren't measured."""
        return median_low(self.written) if self.written else None


@dataclass
class Report:
    """All measurements of a run, and what could not be measured."""

    machine: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """What was not measured, and why."""

    def as_json(self) -> dict[str, Any]:
        """Give all of it as plain values; what was taken in microseconds."""
        return {
            "machine": self.machine,
            "options": self.options,
            "measurements": [self._plain(one) for one in self.measurements],
            "missing": self.missing,
        }

    def ratio(self, one: Measurement) -> float | None:
        """Give what a contender took as a multiple of its floor; by rate, what it did."""
        floors = [
            other
            for other in self.measurements
            if (other.section, other.name, other.contender) == (one.section, one.name, one.floor)
        ]
        if not floors:
            return None
        if one.by_rate:
            return one.samples.per_second() / floors[0].samples.per_second()
        return one.samples.percentile(50) / floors[0].samples.percentile(50)

    def growth(self, one: Measurement) -> tuple[float, float | None] | None:
        """Give time and bytes as multiples of the same contender's at the base length.

        That is the least one measured from 100 messages on; None for that one itself, and for
        shorter ones.
        """
        base = self._base(one)
        if base is None or one.length is None or one.length <= (base.length or 0):
            return None
        written, least = one.middle_written(), base.middle_written()
        return (
            one.samples.percentile(50) / base.samples.percentile(50),
            written / least if written and least else None,
        )

    def _base(self, one: Measurement) -> Measurement | None:
        if not one.is_flat:
            return None
        return min(
            (
                other
                for other in self.measurements
                if (other.section, other.contender) == (one.section, one.contender)
                and (other.length or 0) >= BASE_LENGTH
            ),
            key=lambda other: other.length or 0,
            default=None,
        )

    def _plain(self, one: Measurement) -> dict[str, Any]:
        grown = self.growth(one) or (None, None)
        return {
            "section": one.section,
            "name": one.name,
            "contender": one.contender,
            "count": len(one.samples.seconds),
            "p50_us": round(one.samples.percentile(50) * 1e6, 1),
            "p95_us": round(one.samples.percentile(95) * 1e6, 1),
            "per_second": round(one.samples.per_second(), 2),
            "floor": one.floor,
            "ratio_of": "rate" if one.by_rate else "p50",
            "ratio": _rounded(self.ratio(one)),
            "length": one.length,
            "written_bytes": one.middle_written(),
            # Without the whole pages that a first change after a checkpoint writes.
            "written_bytes_least": min(one.written, default=None),
            "growth": _rounded(grown[0]),
            "growth_of_written": _rounded(grown[1]),
        }


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)
