"""`hash_files` over whatever fsspec opens: a filesystem in memory, local files, archives."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import polars
import pyarrow as pa
import pytest
from fsspec.implementations.dirfs import DirFileSystem

import verisum

CONTENTS = {f"photos/{number:03}": bytes([number % 256]) * (number * 37) for number in range(600)}
LONG = bytes(range(256)) * 20_000


@pytest.fixture
def memory() -> Iterator[Any]:
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    filesystem.pipe({f"/{name}": content for name, content in CONTENTS.items()})
    filesystem.pipe("/photos/sub/long", LONG)
    filesystem.pipe("/other", b"other")
    yield filesystem
    filesystem.store.clear()


def test_a_filesystem(memory: Any) -> None:
    rows = {row.path: row for row in verisum.hash_files(memory, ["sha256", "md5"])}
    expected = {f"/{name}": content for name, content in CONTENTS.items()}
    expected |= {"/photos/sub/long": LONG, "/other": b"other"}
    assert set(rows) == set(expected)
    for name, content in expected.items():
        row = rows[name]
        assert row.digests == (hashlib.sha256(content).digest(), hashlib.md5(content).digest())
        assert (row.size, row.host, row.inode, row.error) == (len(content), "memory", None, None)
        assert abs(row.mtime_ns - memory.modified(name).timestamp() * 1e9) < 60e9


def test_a_part_of_a_filesystem(memory: Any) -> None:
    names = {f"/{name}" for name in CONTENTS} | {"/photos/sub/long"}
    mapping = memory.get_mapper("photos")
    assert {row.path for row in verisum.hash_files(mapping)} == names
    below = DirFileSystem("/photos/sub", memory)
    ((name, digest),) = ((row.path, row.hexdigest) for row in verisum.hash_files(below))
    assert (name, digest) == ("long", hashlib.sha256(LONG).hexdigest())


def test_files_and_paths_together(memory: Any, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"local")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("inside", b"inside")
    inside = fsspec.open(f"zip://inside::{tmp_path}/archive.zip")
    with memory.open("/other") as opened, fsspec.open(local) as plain:
        opened.read(2)
        sources = [local, opened, inside, plain, io.BytesIO(b"bytes")]
        found = [row.digest for row in verisum.hash_files(sources)]
    wanted = [b"local", b"her", b"inside", b"local", b"bytes"]
    assert sorted(found) == sorted(hashlib.sha256(content).digest() for content in wanted)


def test_tables(memory: Any, tmp_path: Path) -> None:
    table = pa.table(verisum.hash_files(memory, "blake3"))
    assert table.num_rows == 602 and set(table.column("host").to_pylist()) == {"memory"}
    assert len(polars.DataFrame(verisum.hash_files(memory))) == 602
    assert verisum.hash_files(memory).to_parquet(tmp_path / "rows.parquet") == 602


def test_what_fails_is_a_row(memory: Any) -> None:
    missing = memory.get_mapper("nowhere")
    (row,) = verisum.hash_files(missing)
    assert isinstance(row.error, verisum.FileError) and "FileNotFoundError" in str(row.error)

    class Broken(type(memory)):  # type: ignore[misc]
        cachable = False

        def cat_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
            if path.endswith("7"):
                raise OSError(5, "Input/output error")
            return super().cat_file(path, *args, **kwargs)

    rows = list(verisum.hash_files(Broken()))
    failed = {row.path for row in rows if row.error is not None}
    assert failed == {f"/{name}" for name in CONTENTS if name.endswith("7")} and len(rows) == 602
    error = next(row.error for row in rows if row.error is not None)
    assert error.errno == 5 and error.operation == "read"
    text = fsspec.open("memory://other", "r")
    (row,) = verisum.hash_files(text)
    assert row.error is not None and "TypeError" in str(row.error)


def test_an_end_in_the_middle(memory: Any) -> None:
    with verisum.hash_files(memory) as rows:
        next(rows)
    assert list(rows) == []
    with pytest.raises(ValueError, match="ordered"):
        verisum.hash_files(memory, ordered=True)
    with pytest.raises(TypeError):
        verisum.hash_files([3])  # type: ignore[list-item]
