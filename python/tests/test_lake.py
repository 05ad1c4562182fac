"""The recipes of docs/lake.md, and parts that other programs read and write."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lake.md"
RECIPES = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)

Rows = list[dict[str, Any]]


def verisum(folder: Path, *words: str, code: int = 0) -> str:
    """Runs the command that the package brings."""
    command = Path(sys.executable).with_name("verisum")
    ended = subprocess.run([command, *words], cwd=folder, capture_output=True, text=True)
    assert ended.returncode == code, ended.stderr
    return ended.stdout + ended.stderr


def scrub(folder: Path, *trees: str) -> None:
    verisum(folder, "scrub", "--quiet", "--max-age", "90d", "--catalog", "c.db", *trees)


def export(folder: Path) -> str:
    return verisum(folder, "catalog", "export", "--catalog", "c.db", "--format", "parquet", "lake")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with a lake of two trees and two exports."""
    files = {
        "photos": {"one.raw": b"one", "two.raw": b"only here", "gone.raw": b"was here"},
        "backup": {"one.raw": b"one", "again/one.raw": b"one", os.fsdecode(b"\xff"): b"no text"},
    }
    for tree, names in files.items():
        for name, content in names.items():
            path = tmp_path / tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    scrub(tmp_path, "photos", "backup")
    assert export(tmp_path) == "6 new or changed, 0 gone, 0 as before\n"
    (tmp_path / "photos" / "gone.raw").unlink()
    (tmp_path / "photos" / "two.raw").write_bytes(b"only here, and longer")
    (tmp_path / "photos" / "new.raw").write_bytes(b"new")
    scrub(tmp_path, "photos")
    assert export(tmp_path) == "3 new or changed, 0 gone, 4 as before\n"
    return tmp_path


def answers(folder: Path) -> list[Rows]:
    """What the last statement of each recipe answers."""
    connection = duckdb.connect()
    found = []
    for recipe in RECIPES:
        recipe = recipe.replace("'lake/", f"'{folder}/lake/")
        rows: Rows = []
        for statement in connection.extract_statements(recipe):
            answer = connection.sql(statement)
            rows = answer.to_arrow_table().to_pylist() if answer else []
        found.append(rows)
    return found


def test_the_recipes_answer_what_they_say(lake: Path) -> None:
    _, stalest, copies, duplicates, changed, only = answers(lake)
    photos, backup = str(lake / "photos"), str(lake / "backup")
    assert len(stalest) == 7
    assert stalest == sorted(stalest, key=lambda row: row["verified"])
    assert [(row["place"], row["path"], row["size"]) for row in copies] == [
        (backup, "again/one.raw", 3),
        (backup, "one.raw", 3),
        (photos, "one.raw", 3),
    ]
    assert [(row["files"], row["room"]) for row in duplicates] == [(3, 6)]
    latest = max(row["exported"] for row in changed)
    last = {(row["what"], row["path"]) for row in changed if row["exported"] == latest}
    assert last == {("missing", "gone.raw"), ("changed", "two.raw"), ("new", "new.raw")}
    assert sum(row["what"] == "new" for row in changed) == 7
    assert [(row["place"], row["files"], row["bytes"]) for row in only] == [(photos, 2, 24), (backup, 1, 7)]


def test_a_rotten_copy_counts_as_none(lake: Path) -> None:
    rotten = lake / "backup" / "one.raw"
    times = rotten.stat()
    rotten.write_bytes(b"eno")
    os.utime(rotten, ns=(times.st_atime_ns, times.st_mtime_ns))
    verisum(lake, "scrub", "--quiet", "--catalog", "c.db", "backup", code=1)
    export(lake)
    _, _, copies, duplicates, _, _ = answers(lake)
    assert [row["state"] == "ok" for row in copies] == [True, False, True]
    assert [(row["files"], row["room"]) for row in duplicates] == [(2, 3)]

    (lake / "backup" / "again" / "one.raw").unlink()
    verisum(lake, "scrub", "--quiet", "--catalog", "c.db", "backup", code=1)
    export(lake)
    _, _, _, duplicates, _, only = answers(lake)
    assert duplicates == []
    assert [(row["place"], row["files"]) for row in only] == [(str(lake / "photos"), 3), (str(lake / "backup"), 1)]


def test_the_recipes_pass_over_repairs(lake: Path) -> None:
    (lake / "backup" / "one.raw").unlink()
    verisum(lake, "scrub", "--quiet", "--catalog", "c.db", "backup")
    verisum(lake, "repair", "--quiet", "--catalog", "c.db", "--from", "photos", "backup")
    export(lake)
    assert len(list(lake.glob("lake/_repairs/*/*.parquet"))) == 1
    assert [row["state"] for row in answers(lake)[2]] == ["ok", "ok", "ok"]


def test_what_was_removed_is_gone(lake: Path) -> None:
    verisum(lake, "accept", "--catalog", "c.db", "photos/gone.raw")
    assert export(lake) == "0 new or changed, 1 gone, 6 as before\n"
    changed = answers(lake)[4]
    assert [row["path"] for row in changed if row["what"] == "gone"] == ["gone.raw"]
    assert all(row["path"] != "gone.raw" for row in answers(lake)[1])


def test_others_read_the_parts(lake: Path) -> None:
    parts = sorted(lake.glob("lake/place=*/day=*/*.parquet"))
    table = ds.dataset(lake / "lake", partitioning="hive").to_table()
    assert table.num_rows == 9
    frame = polars.read_parquet(parts, hive_partitioning=True)
    assert set(frame["place"].unique()) == {str(lake / "photos"), str(lake / "backup")}
    names = [name for name in table.column_names if name not in ("place", "day")]
    table_of_page = re.findall(r"^\| (`.*?`) \|", PAGE.read_text(), re.MULTILINE)
    assert names == re.findall(r"`(\w+)`", " ".join(table_of_page))
    assert [value for value in table["path_bytes"].to_pylist() if value is not None] == [b"\xff"]


def write_part(lake: Path, name: str, version: str | None, options: dict[str, Any] | None = None, **changed: Any) -> Path:
    """Writes a part with pyarrow, with the schema that another part has but for some values."""
    part = next(iter(sorted(lake.glob("lake/place=*photos/*/*.parquet"))))
    table = pq.ParquetFile(part).read()
    for column, values in changed.items():
        at = table.column_names.index(column)
        field = table.schema.field(at)
        table = table.set_column(at, field, pa.chunked_array([values], field.type))
    table = table.replace_schema_metadata({"verisum.lake": version} if version else None)
    folder = lake / "lake" / "place=%2Felsewhere" / "day=2026-01-01"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, **{"compression": "zstd", **(options or {})})
    return folder / name


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_parts_of_other_writers_are_taken(lake: Path, compression: str) -> None:
    write_part(lake, "a.parquet", "1", {"compression": compression})
    told = verisum(lake, "catalog", "import", "--catalog", "other.db", "lake")
    assert told == "10 recorded, 0 known already\n"
    told = verisum(lake, "catalog", "status", "--catalog", "other.db")
    assert "/elsewhere" in told


@pytest.mark.parametrize(
    ("version", "changed", "why"),
    [
        (None, {}, "its metadata has no verisum.lake"),
        ("2", {}, "its version is 2, and this program knows 1"),
        ("1", {"path": ["b", "a", "c"]}, "its rows are not in the order of their paths"),
        ("1", {"path": ["../b", "c", "d"]}, "an impossible path below a place: ../b"),
        ("1", {"size": [1, None, 1]}, "a row has no size"),
        ("1", {"exported": [2**62, 1, 1]}, "a row was written after the year 9999"),
        ("1", {"options": {"compression": "gzip"}}, "it is compressed with GZIP, and not with zstd or snappy"),
        ("1", {"path": [None, "c", "d"]}, "a row has no path, or two"),
    ],
)
def test_parts_that_make_no_sense_are_refused(
    lake: Path, version: str | None, changed: dict[str, Any], why: str
) -> None:
    write_part(lake, "a.parquet", version, **changed)
    told = verisum(lake, "catalog", "import", "--catalog", "other.db", "lake", code=3)
    assert re.fullmatch(rf"verisum: .*/a.parquet: read: not a part of a lake: {re.escape(why)}\n", told)


def test_a_later_row_is_later_also_without_limits(lake: Path) -> None:
    write_part(lake, "a.parquet", "1")
    verisum(lake, "catalog", "import", "--catalog", "other.db", "lake")
    in_2100 = [4_102_444_800_000] * 3
    write_part(lake, "b.parquet", "1", {"write_statistics": False}, size=[7, 8, 9], exported=in_2100)
    again = ("catalog", "export", "--catalog", "other.db", "--format", "parquet", "lake")
    assert verisum(lake, *again).startswith("2 new or changed")
    assert verisum(lake, *again).startswith("0 new or changed")


def test_what_is_damaged_is_told_in_one_line(lake: Path) -> None:
    part = write_part(lake, "a.parquet", "1")
    whole = part.read_bytes()
    damaged = [whole[:-8] + b"\xff\xff\xff\x7fPAR1"]
    for at in range(len(whole) - 1500, len(whole), 31):
        damaged.append(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
    refused = 0
    for content in damaged:
        part.write_bytes(content)
        command = Path(sys.executable).with_name("verisum")
        words = ["catalog", "import", "--dry-run", "--catalog", "other.db", "lake"]
        ended = subprocess.run([command, *words], cwd=lake, capture_output=True, text=True)
        if ended.returncode != 0:
            assert ended.returncode == 3 and ended.stderr.count("\n") == 1, ended.stderr
            refused += 1
    assert refused > 0
    part.unlink()
    part.parent.parent.rename(lake / "lake" / "place=%2felsewhere")
    told = verisum(lake, "catalog", "import", "--dry-run", "--catalog", "other.db", "lake", code=3)
    assert told.endswith("place=%2felsewhere: read: not a part of a lake: its name is no place\n")
