"""The report of a run over all its places, as text and as JSON."""

from __future__ import annotations

import os
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from verisum.dask._work import CLASSES, NAMED, BadFile, Outcome

ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# What reverses the order of the characters after it.
TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@dataclass
class PlaceReport:
    """What a run did in a place.

    Attributes:
        name: The place's name.
        listed_files: Regular files of the place; `None` where the listing did not come to its end.
        listed_bytes: Their bytes; `None` as above.
        read_files: Files that were read.
        read_bytes: Their bytes.
        verdicts: How many files have each verdict.
        still_missing: Files that runs of earlier cycles found missing and named.
        bad: Files that are bad, missing, or could not be compared: the first ones.
        errors: What went wrong with the place itself, one line each.
        left_files: Files that are due and were not read; `None` where the listing did not come to its end.
        left_bytes: Their bytes; `None` as above.
        seconds: How long the place was worked on.
    """

    name: str
    listed_files: int | None = None
    listed_bytes: int | None = None
    read_files: int = 0
    read_bytes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    still_missing: int = 0
    bad: list[BadFile] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    left_files: int | None = None
    left_bytes: int | None = None
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Counts what a task did."""
        self.read_files += outcome.read_files
        self.read_bytes += outcome.read_bytes
        self.verdicts.update(outcome.verdicts)
        self.bad += outcome.bad[: max(0, NAMED - len(self.bad))]

    @property
    def seconds_left(self) -> float | None:
        """In how many seconds of work everything that is due will have been read, at the rate of this run."""
        if not self.left_files or self.left_bytes is None:
            return None if self.left_files is None else 0.0
        rates = [(self.left_files, self.read_files), (self.left_bytes, self.read_bytes)]
        if self.seconds <= 0 or any(left and not done for left, done in rates):
            return None
        return max(left / done * self.seconds for left, done in rates if left)

    @property
    def exit_code(self) -> int:
        """The exit code that this place asks for."""
        classes = {CLASSES[verdict] for verdict, count in self.verdicts.items() if count}
        if "corrupt" in classes:
            return 1
        return 3 if "unchecked" in classes or self.errors else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "place": self.name,
            "listed_files": self.listed_files,
            "listed_bytes": self.listed_bytes,
            "read_files": self.read_files,
            "read_bytes": self.read_bytes,
            "verdicts": dict(sorted(self.verdicts.items())),
            "still_missing": self.still_missing,
            "bad": [bad_json(bad) for bad in self.bad],
            "errors": self.errors,
            "left_files": self.left_files,
            "left_bytes": self.left_bytes,
            "seconds": round(self.seconds, 3),
            "seconds_left": self.seconds_left,
        }


def moment(milliseconds: int) -> str:
    """A moment as the other JSON of verisum has it: RFC 3339 in UTC, with nanoseconds."""
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest * 1_000_000:09}Z"


def bad_json(bad: BadFile) -> dict[str, Any]:
    """A file as the other JSON of verisum names it."""
    found = {"path": bad.path.decode("utf-8", "replace"), "outcome": bad.verdict}
    try:
        bad.path.decode()
    except UnicodeDecodeError:
        found["path_bytes_hex"] = bad.path.hex()
    return {**found, "detail": bad.detail} if bad.detail else found


@dataclass
class Report:
    """What a run did in all its places.

    Attributes:
        places: One for each place.
        started: When the run began, in milliseconds since 1970.
        seconds: How long it took.
        interrupted: Whether Ctrl-C ended it.
        refused: Workers that came during the run and got no work, because they have another version of verisum: one
            line each.
    """

    places: list[PlaceReport]
    started: int
    seconds: float = 0.0
    interrupted: bool = False
    refused: list[str] = field(default_factory=list)

    @property
    def read_files(self) -> int:
        """Files that were read."""
        return sum(place.read_files for place in self.places)

    @property
    def read_bytes(self) -> int:
        """Bytes that were read."""
        return sum(place.read_bytes for place in self.places)

    @property
    def verdicts(self) -> Counter[str]:
        """How many files have each verdict."""
        return sum((place.verdicts for place in self.places), Counter())

    @property
    def seconds_left(self) -> float | None:
        """In how many seconds of work everything will have been read, as the slowest place says; None if that is not
        known."""
        left = [place.seconds_left for place in self.places]
        return None if None in left else max((seconds for seconds in left if seconds is not None), default=0.0)

    @property
    def exit_code(self) -> int:
        """The exit code of a program that has this to report."""
        codes = [place.exit_code for place in self.places]
        if self.interrupted:
            return 130
        return next((code for code in (1, 3) if code in codes), 0)

    def to_json(self) -> dict[str, Any]:
        """The report as what `json.dumps` takes."""
        return {
            "version": 1,
            "type": "fleet",
            "started": moment(self.started),
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "refused": self.refused,
            "read_files": self.read_files,
            "read_bytes": self.read_bytes,
            "verdicts": dict(sorted(self.verdicts.items())),
            "seconds_left": self.seconds_left,
            "places": [place.to_json() for place in self.places],
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        head = ["place", "files", "read", "bytes", "verdicts", "left", "all verified"]
        rows = [head] + [row_of(place) for place in self.places]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        for row in rows:
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield from map(printable, self.refused)
        for place in self.places:
            for error in place.errors:
                yield f"{named(place.name)}: {printable(error)}"
            for bad in place.bad:
                detail = f": {printable(bad.detail)}" if bad.detail else ""
                yield f"{bad.verdict}: {named(place.name)}: {named(bad.path)}{detail}"
            counts = Counter(bad.verdict for bad in place.bad)
            more = sum(place.verdicts[verdict] - count for verdict, count in counts.items())
            if more > 0:
                yield f"{named(place.name)}: {more} more such files are in the lake"


def row_of(place: PlaceReport) -> list[str]:
    def number(value: int | None) -> str:
        return "?" if value is None else str(value)

    counts = [*sorted(place.verdicts.items()), ("missing since earlier", place.still_missing)]
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
    left = place.seconds_left
    if place.left_files == 0:
        forecast = "now" if place.listed_files and not place.errors else "?"
    elif left is None:
        forecast = "?"
    else:
        forecast = datetime.fromtimestamp(time.time() + left, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    done = [number(place.listed_files), str(place.read_files), str(place.read_bytes)]
    return [named(place.name), *done, verdicts or "-", number(place.left_files), forecast]


def named(name: str | bytes) -> str:
    """A name as the command prints it: as it is, or as ``$'…'`` of a shell if something of it cannot be printed, or if it
    would be taken for that.
    """
    text = os.fsdecode(name)
    if text and text != "''" and not text.startswith("$'") and all(map(is_printable, text)):
        return text
    if not text:
        return "''"
    return "$'" + "".join(f"\\{char}" if char in "\\'" else escaped(char) for char in text) + "'"


def printable(text: str) -> str:
    """Text that keeps to its line and does nothing to a terminal."""
    return "".join(map(escaped, text))


def is_printable(char: str) -> bool:
    """Whether it is no surrogate, moves no cursor, ends no line, and turns nothing around."""
    return unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") and char not in TURNING


def escaped(char: str) -> str:
    """A character, or its bytes in octal if it cannot be printed."""
    if is_printable(char):
        return char
    return ESCAPES.get(char) or "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))
