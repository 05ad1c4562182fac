"""Compares what was recorded of two places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from verisum.dask._cut import ABSENT
from verisum.dask._lake import Group, Lake, LakeRecord
from verisum.dask._report import Report, bad_json
from verisum.dask._work import BadFile

# So many differences are named; the rest is counted.
NAMED = 1000


@dataclass
class FleetComparison:
    """How two places differ.

    Attributes:
        report: What was read for it.
        same: How many files have the same content under the same path.
        different: How many have different content.
        only_a: How many are only in the first place.
        only_b: How many are only in the second place.
        not_compared: How many could not be read in one of them.
        named: The first files that are not the same; the verdict is ``different``, ``only in a``, ``only in b`` or
            ``not compared``.
    """

    report: Report
    same: int = 0
    different: int = 0
    only_a: int = 0
    only_b: int = 0
    not_compared: int = 0
    named: list[BadFile] | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of a program that has this to report."""
        if self.different or self.only_a or self.only_b:
            return 1
        return self.report.exit_code or (3 if self.not_compared else 0)

    def to_json(self) -> dict[str, Any]:
        """The comparison as what `json.dumps` takes."""
        return {
            "version": 1,
            "type": "comparison",
            "same": self.same,
            "different": self.different,
            "only_a": self.only_a,
            "only_b": self.only_b,
            "not_compared": self.not_compared,
            "named": [bad_json(file) for file in self.named or []],
            "run": self.report.to_json(),
        }

    def __str__(self) -> str:
        counts = f"{self.same} same, {self.different} different, {self.only_a} only in a, {self.only_b} only in b"
        return f"{counts}, {self.not_compared} not compared"


def compare_records(lake: Lake, a: str, b: str, report: Report) -> FleetComparison:
    """Compares the present rows of two places, a range of paths after the other."""
    result = FleetComparison(report, named=[])
    sides = [lake.groups(a), lake.groups(b)]
    for after, last in ranges(sides[0] + sides[1]):
        ours, theirs = (lake.records(groups, after, last) for groups in sides)
        for path in sorted(ours.keys() | theirs.keys()):
            verdict = compared(ours.get(path), theirs.get(path))
            if verdict is None:
                continue
            name = verdict.replace("only in ", "only_").replace(" ", "_")
            setattr(result, name, getattr(result, name) + 1)
            if verdict != "same" and result.named is not None and len(result.named) < NAMED:
                result.named.append(BadFile(path, verdict, ""))
    return result


def ranges(groups: list[Group]) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Ranges of paths that together are all, each about as long as a row group."""
    edges = sorted({group.high for group in groups if group.high is not None})
    after: bytes | None = None
    for edge in edges[:-1]:
        yield after, edge
        after = edge
    yield after, None


def compared(one: LakeRecord | None, other: LakeRecord | None) -> str | None:
    """How a file of two places differs; None where it is in neither."""
    is_there = [record is not None and record.state not in ABSENT for record in (one, other)]
    if one is None or not is_there[0]:
        return "only in b" if is_there[1] else None
    if other is None or not is_there[1]:
        return "only in a"
    if one.digest is None or other.digest is None or one.state != "ok" or other.state != "ok":
        return "not compared"
    if one.algorithm != other.algorithm:
        return "not compared" if one.size == other.size else "different"
    return "same" if one.digest == other.digest else "different"
