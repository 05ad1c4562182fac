"""`to_parquet`: what other programs read is what the rows were, and a file is whole or not there."""

import os
import subprocess
import threading
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import verisum
from conftest import loud_skip
from interrupted import ctrl_c


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    for number in range(300):
        (root / f"{number:03}").write_bytes(b"%d" % number)
    with open(os.fsencode(root) + b"/\xff", "wb") as file:
        file.write(b"no utf-8")
    return root


def test_other_programs_read_the_rows(tree: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    rows = verisum.hash_files([tree, tree / "none"], ["sha256", "crc32c"])
    assert rows.to_parquet(path) == 302
    assert list(rows) == []
    table = pq.read_table(path)
    want = {row.path_bytes: row for row in verisum.hash_files(tree, ["sha256", "crc32c"])}
    found = 0
    for line in table.drop_columns(["mtime", "ctime"]).to_pylist():
        if line["error"] is not None:
            assert line["path"] == str(tree / "none") and line["sha256"] is None
            continue
        row = want[line["path_bytes"] or os.fsencode(line["path"])]
        assert (line["sha256"], line["crc32c"], line["size"], line["inode"]) == (*row.digests, row.size, row.inode)
        found += 1
    assert found == len(want) == 301
    times = dict(zip(table.column("inode").to_pylist(), table.column("mtime").cast("int64").to_pylist()))
    assert all(times[row.inode] == row.mtime_ns for row in want.values())
    assert len(pl.read_parquet(path)) == 302
    query = f"select count(*) from '{path}' where sha256 = unhex('{verisum.new('sha256', b'7').hexdigest()}')"
    assert duckdb.connect().execute(query).fetchone() == (1,)


def test_the_records_of_a_catalogue(tree: Path, tmp_path: Path) -> None:
    verisum.scrub(tree, catalog=tmp_path / "c.db").finish()
    catalog = verisum.Catalog(tmp_path / "c.db")
    assert catalog.rows().to_parquet(tmp_path / "records.parquet") == 301
    table = pq.read_table(tmp_path / "records.parquet")
    assert sorted(table.column("digest").to_pylist()) == sorted(row.digest for row in catalog.rows())
    assert set(table.column("place").to_pylist()) == {str(tree)}
    assert catalog.rows(state="rot").to_parquet(tmp_path / "none.parquet") == 0
    assert pq.read_table(tmp_path / "none.parquet").schema.equals(table.schema)


def test_a_folder_that_is_not_there(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(verisum.FileError) as raised:
        verisum.hash_files(tree).to_parquet(tmp_path / "none" / "rows.parquet")
    assert isinstance(raised.value.__cause__, FileNotFoundError) and "none" in str(raised.value)


def test_a_full_disk_leaves_the_old_file(tree: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode:
        loud_skip("no file system can be mounted")
    try:
        path = disk / "rows.parquet"
        path.write_text("old")
        (disk / "fill").write_bytes(b"x" * 50_000)
        with pytest.raises(verisum.FileError, match="No space left on device"):
            verisum.hash_files([tree] * 20, ["sha512"]).to_parquet(path)
        assert path.read_text() == "old" and sorted(os.listdir(disk)) == ["fill", "rows.parquet"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_ctrl_c_leaves_the_old_file(tree: Path, tmp_path: Path) -> None:
    (tree / "large").write_bytes(b"x" * 1_000_000)
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "rows.parquet").write_text("old")
    ctrl_c(
        f"rows = verisum.hash_files({str(tree)!r}, limit=1000)",
        f"rows.to_parquet({str(folder / 'rows.parquet')!r})",
        delay=0.5,
    )
    assert os.listdir(folder) == ["rows.parquet"] and (folder / "rows.parquet").read_text() == "old"


def test_rows_that_are_closed_meanwhile_are_no_table(tree: Path, tmp_path: Path) -> None:
    (tree / "large").write_bytes(b"x" * 1_000_000)
    path = tmp_path / "rows.parquet"
    path.write_text("old")
    rows = verisum.hash_files(tree, limit=1000)
    with pytest.raises(verisum.Error, match="closed before all results came"):
        rows.to_parquet(path, progress=lambda _: rows.close())
    assert path.read_text() == "old"
    rows = verisum.hash_files(tree, limit=1000)
    threading.Timer(0.2, rows.close).start()
    with pytest.raises(Exception, match="closed before all results came"):
        pa.table(rows)


def test_progress_and_its_exceptions(tree: Path, tmp_path: Path) -> None:
    told: list[int] = []
    path = tmp_path / "rows.parquet"
    count = verisum.hash_files([tree] * 50, ["sha512"]).to_parquet(path, progress=told.append)
    assert told == sorted(told) and told[-1] == count == pq.read_metadata(path).num_rows
    os.remove(path)

    def fail(rows: int) -> None:
        raise KeyError("enough")

    with open(tree / "large", "wb") as file:
        file.truncate(64 << 30)
    with pytest.raises(KeyError):
        verisum.hash_files(tree, ["sha512"]).to_parquet(path, progress=fail)
    assert os.listdir(tmp_path) == [tree.name] or "rows.parquet" not in os.listdir(tmp_path)
