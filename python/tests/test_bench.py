"""`verisum.bench.read` over what the command writes."""

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import verisum
import verisum.bench
from conftest import COMMAND


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "a.json"
    words = ["bench", "digests", "--runs", "2", "--only", "process", "-a", "crc32c", "--export-json", str(path)]
    ended = subprocess.run([COMMAND, *words], capture_output=True)
    assert path.exists(), ended.stderr
    return path


def test_every_time_is_a_row(results: Path) -> None:
    rows = verisum.bench.read(results)
    written = json.loads(results.read_text())
    assert len(rows) == sum(len(series["rounds"]) or 1 for series in written["series"])
    assert len({tuple(row) for row in rows}) == 1
    for series in written["series"]:
        mine = [row for row in rows if (row["group"], row["name"]) == (series["group"], series["name"])]
        if series["skipped"] is None:
            assert [row["wall"] for row in mine] == series["wall"]
            assert all(row["rate"] == series["bytes"] / row["wall"] for row in mine if row["bytes"])
        else:
            assert [(row["wall"], row["skipped"]) for row in mine] == [(None, series["skipped"])]
        assert {row["label_digest"] for row in mine} == {series["labels"].get("digest")}


def test_data_frames_take_them(results: Path) -> None:
    rows = verisum.bench.read(results)
    frame = pl.DataFrame(rows)
    first = rows[0]["name"]
    walls = [row["wall"] for row in rows if row["name"] == first and row["group"] == rows[0]["group"]]
    found = frame.filter((pl.col("name") == first) & (pl.col("group") == rows[0]["group"]))
    # The mean of the middle two may be rounded otherwise.
    assert found["wall"].median() == pytest.approx(statistics.median(walls), rel=1e-12)
    assert duckdb.connect().execute("select count(*) from frame").fetchone() == (len(rows),)


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"type": "bench", "version": 2}', '{"type": "bench", "version": 1}']
)
def test_what_is_no_result(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(verisum.FileError, match="x.json: read: "):
        verisum.bench.read(path)
    with pytest.raises(verisum.FileError) as raised:
        verisum.bench.read(tmp_path / "none")
    assert isinstance(raised.value.__cause__, FileNotFoundError) and raised.value.operation == "open"
    # An error about any name can be printed.
    with pytest.raises(verisum.FileError) as raised:
        verisum.bench.read(b"\xff")
    assert raised.value.path == "\udcff" and str(raised.value).encode().startswith(b"?: open: ")
