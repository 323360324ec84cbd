"""Drivers that break one law each; importing the package registers them in `DEFECTS`."""

from __future__ import annotations

from tests.testing.broken import admission, guards, history, ownership, reads, retention
from tests.testing.broken.defect import DEFECTS, BrokenDriver, Defect
from tests.testing.broken.races import ForgetfulDriver, TearingDriver, UnlockedDriver

__all__ = [
    "DEFECTS",
    "BrokenDriver",
    "Defect",
    "ForgetfulDriver",
    "TearingDriver",
    "UnlockedDriver",
    "admission",
    "guards",
    "history",
    "ownership",
    "reads",
    "retention",
]
