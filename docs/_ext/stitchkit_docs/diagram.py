"""The state diagram: an SVG whose edges are those of the transition table, and no others.

Where a thing stands is set here, by hand. What is joined to what is computed from the table. An
edge or a state that has no place stops the build, so that the picture can't fall behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stitchkit_django.core.lifecycle import (
    ACQUIRED_STATES,
    ACTIVE_STATES,
    ENDINGS,
    RESERVED_REASONS,
    TRANSITIONS,
    Operation,
    RunState,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH: Final = 920
HEIGHT: Final = 430
TITLE: Final = "States of a run; the tables on this page say the same"
CAPTION: Final = (
    "Inside a state: the operations that leave it as it is. From a frame: the operations that each "
    "state in it has."
)
ARROW: Final = (
    '<defs><marker id="arrow" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="8" '
    'markerHeight="8" orient="auto"><path d="M0,0 L10,5 L0,10 z"/></marker></defs>'
)


class Box(NamedTuple):
    """A rectangle."""

    x: int
    y: int
    width: int
    height: int


class Edge(NamedTuple):
    """An operation that leads from a state, or a group of them, to a state."""

    source: str
    operation: Operation
    target: str


class Line(NamedTuple):
    """How an edge is drawn."""

    points: str
    label_at: tuple[int, int] | None


GROUPS: Final = {"active": ACTIVE_STATES, "acquired": ACQUIRED_STATES}
GROUP_BOXES: Final = {"active": Box(10, 10, 590, 400), "acquired": Box(300, 140, 280, 250)}
STATE_BOXES: Final = {
    "queued": Box(40, 225, 160, 60),
    "running": Box(325, 175, 230, 60),
    "interrupt_requested": Box(325, 305, 230, 60),
    "cancelled": Box(740, 30, 160, 36),
    "superseded": Box(740, 95, 160, 36),
    "completed": Box(740, 160, 160, 36),
    "interrupted": Box(740, 225, 160, 36),
    "failed": Box(740, 290, 160, 36),
    "abandoned": Box(740, 355, 160, 36),
}
# Of each edge: its points, and where its operation is written.
LINES: Final = {
    Edge("queued", Operation.ACQUIRE, "running"): Line("200,245 325,205", (258, 212)),
    Edge("queued", Operation.CANCEL, "cancelled"): Line("90,225 90,42 740,42", (400, 36)),
    Edge("queued", Operation.ABSORB, "superseded"): Line("150,225 150,107 740,107", (400, 101)),
    Edge("running", Operation.INTERRUPT, "interrupt_requested"): Line(
        "440,235 440,305", (480, 275)
    ),
    Edge("acquired", Operation.REQUEUE, "queued"): Line("300,310 200,270", (262, 312)),
    Edge("active", Operation.ABANDON, "abandoned"): Line("600,373 740,373", (660, 367)),
    Edge("acquired", Operation.END, "cancelled"): Line("580,255 740,54", None),
    Edge("acquired", Operation.END, "superseded"): Line("580,255 740,119", None),
    Edge("acquired", Operation.END, "completed"): Line("580,255 740,178", None),
    Edge("acquired", Operation.END, "interrupted"): Line("580,255 740,243", (668, 320)),
    Edge("acquired", Operation.END, "failed"): Line("580,255 740,308", None),
}


def edges() -> set[Edge]:
    """Give every edge; one that all states of a group have is the group's."""
    found = {edge for edge in _single() if edge.source != edge.target}
    for name, states in sorted(GROUPS.items(), key=lambda group: -len(group[1])):
        for edge in list(found):
            alike = {edge._replace(source=str(state)) for state in states}
            if alike <= found:
                found = (found - alike) | {edge._replace(source=name)}
    return found


def loops(state: str) -> list[str]:
    """Give the operations that leave a state as it is."""
    return [
        str(operation) for operation in Operation if Edge(state, operation, state) in set(_single())
    ]


def state_diagram() -> str:
    """Give the diagram as one block of HTML, which needs no script and no font of its own.

    Raises:
        LookupError: a state or an edge has no place in the picture.
    """
    missing = (edges() ^ set(LINES)) | ({str(state) for state in RunState} ^ set(STATE_BOXES))
    if missing:
        raise LookupError(f"the state diagram and the transition table differ: {missing}")
    return "\n".join(
        [
            '<figure class="state-diagram">',
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="states-title">',
            f'<title id="states-title">{TITLE}</title>',
            ARROW,
            *(_group(name, box) for name, box in GROUP_BOXES.items()),
            *(_line(edge, line) for edge, line in LINES.items()),
            *(_state(name, box) for name, box in STATE_BOXES.items()),
            "</svg>",
            f"<figcaption>{CAPTION}</figcaption>",
            "</figure>",
        ]
    )


def _single() -> Iterator[Edge]:
    for (source, operation), target in TRANSITIONS.items():
        if target is not None:
            yield Edge(str(source), operation, str(target))
            continue
        for reason, ending in ENDINGS.items():
            if reason not in RESERVED_REASONS:
                yield Edge(str(source), operation, str(ending.state))


def _group(name: str, box: Box) -> str:
    return (
        f'<rect class="group" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" '
        f'rx="12"/><text class="group" x="{box.x + 14}" y="{box.y + box.height - 10}">{name}</text>'
    )


def _state(name: str, box: Box) -> str:
    centre, same = box.x + box.width // 2, loops(name)
    first = box.y + box.height // 2 + (-4 if same else 5)
    rect = (
        f'<rect class="state" x="{box.x}" y="{box.y}" width="{box.width}" '
        f'height="{box.height}" rx="8"/>'
    )
    text = f'<text class="state" x="{centre}" y="{first}">{name}</text>'
    inside = f'<text class="loop" x="{centre}" y="{first + 20}">{", ".join(same)}</text>'
    return rect + text + (inside if same else "")


def _line(edge: Edge, line: Line) -> str:
    drawn = f'<polyline points="{line.points}" marker-end="url(#arrow)"/>'
    if line.label_at is None:
        return drawn
    x, y = line.label_at
    told = "end, by its reason" if edge.operation is Operation.END else str(edge.operation)
    return f'{drawn}<text class="edge" x="{x}" y="{y}">{told}</text>'
