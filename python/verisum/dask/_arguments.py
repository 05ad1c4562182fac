"""Checks arguments of fleets: what is wrong with one is an error that names it."""

from __future__ import annotations

import math
import operator
import os
from datetime import timedelta
from numbers import Real
from typing import SupportsIndex


def number(name: str, given: SupportsIndex, *, least: int = 1, most: int | None = None) -> int:
    """A whole number. True is none here, though Python counts with it."""
    try:
        found = operator.index(given)
    except TypeError:
        found = None
    if found is None or isinstance(given, bool):
        raise TypeError(f"{name}: a whole number is needed, not {given!r}")
    if found < least or (most is not None and found > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{name}: must be {bounds}, not {found}")
    return found


def seconds(name: str, given: float | timedelta, *, is_zero_allowed: bool = True) -> float:
    """A time in seconds."""
    found = given.total_seconds() if isinstance(given, timedelta) else given
    if not isinstance(found, Real) or isinstance(found, bool):
        raise TypeError(f"{name}: a number of seconds or a timedelta is needed, not {given!r}")
    if not math.isfinite(found) or found < 0 or (found == 0 and not is_zero_allowed):
        raise ValueError(f"{name}: must be {'0 or more' if is_zero_allowed else 'more than 0'} seconds, not {given}")
    return float(found)


def text(name: str, given: str | os.PathLike[str]) -> str:
    """Text, or a path as text."""
    found = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(found, str):
        raise TypeError(f"{name}: text is needed, not {given!r}")
    return found
