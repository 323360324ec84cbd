"""Bars over time, stacked by series, laid out for a template to draw; nothing is counted here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from decimal import Decimal

WIDTH: Final = 1_200
HEIGHT: Final = 200
TOP: Final = 16
LEFT: Final = 8
BASE: Final = TOP + HEIGHT
_GAP: Final = 4
_THINNEST: Final = 2
_LABELS: Final = 8


class Series(NamedTuple):
    """One value for each bucket of time."""

    code: str
    """Of its colour."""
    name: str
    values: Sequence[int | Decimal]
    shade: int = 0
    """Tells it from others of its colour."""


class Rectangle(NamedTuple):
    """A piece of a bar."""

    x: int
    y: int
    width: int
    height: int
    code: str
    shade: int
    told: str


class Tick(NamedTuple):
    """A time under the bars."""

    x: int
    text: str


class Plot(NamedTuple):
    """A plot, and the table behind it."""

    rectangles: list[Rectangle]
    ticks: list[Tick]
    legend: list[Series]
    rows: list[tuple[str, list[str]]]
    """By bucket: its time, and each series' value."""
    most: str
    """The value of the highest bar."""
    is_empty: bool


def plot(
    times: Sequence[str], series: Sequence[Series], told: Callable[[int | Decimal], str]
) -> Plot:
    """Lay out a plot.

    Args:
        times: of each bucket, as text.
        series: in the order of their stacking; those without any value are left out.
        told: gives a value as text.
    """
    shown = [one for one in series if any(one.values)]
    totals = [sum(values) for values in zip(*(one.values for one in shown), strict=True)]
    most = max(totals, default=0)
    step = WIDTH // max(1, len(times))
    rectangles = []
    for index, time in enumerate(times):
        base = BASE
        for one in shown:
            value = one.values[index]
            if value:
                height = max(_THINNEST, round(value / most * HEIGHT))
                base -= height
                text = f"{time}: {one.name} {told(value)}"
                x = LEFT + index * step
                rectangles.append(
                    Rectangle(x, base, step - _GAP, height, one.code, one.shade, text)
                )
    return Plot(
        rectangles=rectangles,
        ticks=_ticks(times, step),
        legend=shown,
        rows=[
            (time, [told(one.values[index]) for one in shown]) for index, time in enumerate(times)
        ],
        most=told(most),
        is_empty=not shown,
    )


def _ticks(times: Sequence[str], step: int) -> list[Tick]:
    every = max(1, -(-len(times) // _LABELS))
    return [
        Tick(LEFT + index * step, text) for index, text in enumerate(times) if index % every == 0
    ]
