"""Values of options, from a command line or `call_command`; what can't be is exit status 2."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from django.core.management.base import CommandError
from django.db import connections

from stitchkit_django.core.errors import InvalidIdentifierError, shown
from stitchkit_django.core.values import identifier

COULD_NOT_RUN: Final = 2
"""Exit status of a command that has done nothing."""
LONGEST: Final = timedelta(days=36_500)
"""Longer durations would reach back before the first year of a calendar."""
DURATION: Final = "such as 30d, 12h, 90m, 45s or 1d12h"

_DURATION: Final = re.compile(r"(?=\d)(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")


def refused(option: str, reason: str) -> CommandError:
    """Make the error of an option, which it names; nothing was done."""
    return CommandError(f"{option}: {reason}", returncode=COULD_NOT_RUN)


def whole_number(option: str, given: object, *, least: int = 1, most: int | None = None) -> int:
    """Give a whole number.

    Args:
        option: as it is written, for the error.
        given: an int, or its digits.
        least: the lowest that it can be.
        most: the highest; None: any.

    Raises:
        CommandError: it is none, or out of bounds.
    """
    number = int(given) if isinstance(given, str) and _WHOLE.fullmatch(given) else given
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"
    if type(number) is not int or number < least or (most is not None and number > most):
        raise refused(option, f"{shown(given)} is not a whole number {bounds}")
    return number


def optional_number(option: str, given: object, *, least: int = 1) -> int | None:
    """Give a whole number, or None where none was given; otherwise as `whole_number`."""
    return None if given is None else whole_number(option, given, least=least)


def duration(option: str, given: object) -> timedelta:
    """Give a duration.

    Args:
        option: as it is written, for the error.
        given: days, hours, minutes and seconds, in this order and each at most once: `1d12h`. Or
            a timedelta, from `call_command`.

    Raises:
        CommandError: it is none, or longer than 36,500 days.
    """
    found = given if isinstance(given, timedelta) else _parsed(given)
    if found is None:
        reason = f"{shown(given)} is not a duration {DURATION}: whole numbers, in this order"
        raise refused(option, reason)
    if not timedelta() <= found <= LONGEST:
        raise refused(option, f"{shown(given)} is not from 0s to {LONGEST.days}d")
    return found


def optional_duration(option: str, given: object) -> timedelta | None:
    """Give a duration, or None where none was given; otherwise as `duration`."""
    return None if given is None else duration(option, given)


def optional_seconds(option: str, given: object) -> timedelta | None:
    """Give so many seconds, a whole number or None; otherwise as `whole_number`."""
    if given is None:
        return None
    most = int(LONGEST.total_seconds())
    return timedelta(seconds=whole_number(option, given, least=0, most=most))


def alias(given: str | None) -> str | None:
    """Give the alias of `--database`; None: the one that the settings name.

    Raises:
        CommandError: there is no such database.
    """
    if given is not None and given not in connections.databases:
        known = ", ".join(sorted(connections.databases))
        raise refused("--database", f"{shown(given)} is no alias in DATABASES: it knows {known}")
    return given


def conversation_id(option: str, given: str) -> str:
    """Give a conversation's id.

    Raises:
        CommandError: it breaks the rule for ids.
    """
    try:
        return identifier(option, given)
    except InvalidIdentifierError as error:
        raise refused(option, f"{shown(given)} {error.reason}") from error


def optional_conversation_id(option: str, given: str | None) -> str | None:
    """Give a conversation's id, or None where none was given; otherwise as `conversation_id`."""
    return None if given is None else conversation_id(option, given)


def one_of(option: str, given: str, known: tuple[str, ...]) -> str:
    """Give one of a few words.

    Raises:
        CommandError: it is another one.
    """
    if given not in known:
        raise refused(option, f"{shown(given)} is not one of {', '.join(known)}")
    return given


def _parsed(given: object) -> timedelta | None:
    match = _DURATION.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
