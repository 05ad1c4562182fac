"""Results of `verisum bench`, as rows that pandas, Polars and DuckDB take.

`verisum bench digests --export-json FILE` and its siblings write what `read` reads.
"""

from __future__ import annotations

import json
import os

from verisum._errors import FileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read"]

_TYPE = "bench"
_VERSION = 1


def read(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> list[dict[str, Any]]:
    """Reads a file of results: a row for each time that was taken.

    All rows have the same keys: `bench`, `processor`, `group`, `name`, `control`, `skipped`, `cache`, `bytes` (of one
    repetition), `round`, `wall`, `user` and `system` (seconds of one repetition), `cycles` and `crowding` (None where
    they were not counted), `rate` (bytes a second, None where bytes have no meaning), and `label_NAME` for each label,
    such as `label_digest`. What could not be measured is one row with the reason as `skipped`, and without times.

    Args:
        path: What `--export-json` wrote.

    Returns:
        The rows, in the order of the file: `pandas.DataFrame(rows)` and `polars.DataFrame(rows)` take them.

    Raises:
        FileError: It cannot be read, or holds no results of this version. It is an `OSError`.
    """
    name = os.fsdecode(path)
    try:
        with open(path, "rb") as file:
            results: Any = json.load(file)
    except OSError as error:
        raise FileError(f"{name}: open: {error.strerror}", name, "open", error.errno) from error
    except ValueError as error:
        raise FileError(f"{name}: read: {error}", name, "read") from error
    if not isinstance(results, dict) or results.get("type") != _TYPE:
        raise FileError(f"{name}: read: no results of verisum bench", name, "read")
    if results.get("version") != _VERSION:
        message = f"{name}: read: its version is {results.get('version')}, and {_VERSION} is known here"
        raise FileError(message, name, "read")
    try:
        labels = sorted({label for series in results["series"] for label in series["labels"]})
        return [row for series in results["series"] for row in _rows(results, series, labels)]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise FileError(f"{name}: read: damaged: {error!r}", name, "read") from error


def _rows(results: dict[str, Any], series: dict[str, Any], labels: list[str]) -> list[dict[str, Any]]:
    known = {key: series[key] for key in ("group", "name", "control", "skipped", "cache", "bytes")}
    known = {"bench": results["bench"], "processor": results["host"]["processor"], **known}
    named = {f"label_{label}": series["labels"].get(label) for label in labels}
    rounds = series["rounds"] or [None]

    def one(at: int, round_: int | None) -> dict[str, Any]:
        def of(key: str) -> Any:
            values = series.get(key) or []
            return values[at] if values else None

        wall = of("wall")
        rate = series["bytes"] / wall if wall and series["bytes"] else None
        times = {key: of(key) for key in ("wall", "user", "system", "cycles", "crowding")}
        return {**known, "round": round_, **times, "rate": rate, **named}

    return [one(at, round_) for at, round_ in enumerate(rounds)]
