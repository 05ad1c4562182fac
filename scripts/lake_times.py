#!/usr/bin/env python3
"""Asks a lake what docs/lake.md asks of the present rows, and prints how long each answer takes. Needs duckdb and pyarrow.

    python3 scripts/lake_times.py LAKE [THREADS]
"""

import re
import sys
import time
from pathlib import Path

import duckdb

PAGE = Path(__file__).resolve().parents[1] / "docs" / "lake.md"


def recipes() -> list[tuple[str, str]]:
    """What each recipe asks, and the recipe."""
    return re.findall(r"^([^\n]*):\n\n```sql\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def main(lake: str, threads: int) -> None:
    connection = duckdb.connect(config={"threads": threads})
    for title, recipe in recipes():
        recipe = recipe.replace("'lake/", f"'{lake}/")
        if "set variable since" in recipe:
            # Of a lake with one export, all files are new.
            continue
        if "one.raw" in recipe:
            [(count,)] = connection.sql("select count(*) from rows").fetchall()
            [(path,)] = connection.sql(f"select path from rows limit 1 offset {count // 2}").fetchall()
            recipe = recipe.replace("one.raw", path)
        begun = time.monotonic()
        answer = None
        for statement in connection.extract_statements(recipe):
            answer = connection.sql(statement)
        count = answer.to_arrow_table().num_rows if answer else 0
        print(f"{time.monotonic() - begun:8.2f} s  {count:>9} rows  {title}", flush=True)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2)
