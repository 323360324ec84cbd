"""Which sections a page can ask for, and how they come into it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stitchkit_docs import (
    diagram,
    errors,
    kit,
    lifecycle,
    measured,
    operations,
    ports,
    structs,
    tables,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECTIONS: Final[Mapping[str, Callable[[], str]]] = {
    "allowed parts": structs.allowed_parts,
    "closed sets": structs.enums,
    "decisions": structs.decisions,
    "endings": lifecycle.endings,
    "errors": errors.described,
    "events": structs.event_records,
    "laws": kit.laws,
    "operations": operations.described_mutations,
    "operations at a glance": operations.overview,
    "outcomes": structs.outcome_records,
    "parts": structs.part_records,
    "port records": ports.port_records,
    "ports": ports.ports,
    "querysets": tables.queryset_methods,
    "races": kit.races,
    "reads": operations.described_reads,
    "records": structs.records,
    "state diagram": diagram.state_diagram,
    "states": lifecycle.states,
    "tables": tables.tables,
    "transitions": lifecycle.transitions,
    **measured.sections(),
}

ASKED: Final = re.compile(r"^<!-- generated: (.+) -->$", re.MULTILINE)
HIDDEN: Final = re.compile(r"^<!-- (?!generated:).*?-->\n", re.MULTILINE | re.DOTALL)
"""What only a test of the page reads: more of its program, or why a block isn't run."""


def expanded(page: str) -> str:
    """Give a page with what it asks for, and without what only its test reads.

    Raises:
        KeyError: there is no such section.
    """
    return ASKED.sub(lambda asked: SECTIONS[asked[1]](), HIDDEN.sub("", page))
