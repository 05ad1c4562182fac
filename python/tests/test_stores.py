"""`hash_files` over whatever fsspec opens: a filesystem in memory, local files, archives."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import fsspec
import polars
import pyarrow as pa
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import verisum
from interrupted import run

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


def test_files_that_are_opened_together(memory: Any) -> None:
    opened = fsspec.open_files("memory://photos/00*")
    names = {f"/{name}" for name in CONTENTS if name.startswith("photos/00")}
    assert {row.path for row in verisum.hash_files(opened) if row.digest} == names
    assert {row.path for row in verisum.hash_files([opened, memory.get_mapper("photos/sub")])} == {
        *names,
        "/photos/sub/long",
    }


def test_names_that_are_not_utf8(memory: Any, tmp_path: Path) -> None:
    names = [os.fsencode(tmp_path) + b"/" + name for name in (b"plain", b"r\xe9sum\xe9", b"long\xff", b"zebra")]
    for name in names:
        with open(name, "wb") as file:
            file.write(LONG if b"long" in name else name[-1:])
    rows = list(verisum.hash_files(fsspec.filesystem("file").get_mapper(tmp_path)))
    assert {row.path_bytes for row in rows if row.error is None} == set(names)
    assert {row.path for row in rows} == {os.fsdecode(name) for name in names}

    # A name that is no name of a file here.
    memory.pipe("/photos/\ud800", b"surrogate")
    rows = list(verisum.hash_files(memory.get_mapper("photos")))
    ((failed),) = (row for row in rows if row.error is not None)
    assert len(rows) == 602 and failed.path == "/photos/\\ud800" and "UnicodeEncodeError" in str(failed.error)


def test_the_interpreter_may_end_while_a_store_is_read(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / str(number)).write_bytes(bytes(number))
    with open(tmp_path / "long", "wb") as file:
        file.truncate(1 << 40)
    for number in range(20):
        keep = ("del rows", "rows.close()", "pass", "os.fork() or sys.exit(0)")[number % 4]
        ended = run(f"""
            import fsspec, os, sys, verisum
            rows = verisum.hash_files(fsspec.filesystem("file").get_mapper({str(tmp_path)!r}))
            for row in rows:
                break
            {keep}
            print("done", flush=True)
        """)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", ""), keep


def test_a_forked_process_drops_rows_that_are_still_coming(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / str(number)).write_bytes(bytes(number))
    ended = run(f"""
        import fsspec, os, select, signal, verisum
        lost = 0
        for _ in range(100):
            rows = verisum.hash_files(fsspec.filesystem("file").get_mapper({str(tmp_path)!r}))
            next(rows)
            forked, told = os.pipe()
            # The other thread puts rows into the channel just now: the child has it as it stands.
            child = os.fork()
            if not child:
                os.write(told, b".")
            del rows
            if not child:
                os._exit(0)
            # CPython 3.11 may itself wait within `fork` for a thread that the child lacks: in one of 9,000, seen.
            if not select.select([forked], [], [], 20)[0]:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                lost += 1
            else:
                assert os.waitpid(child, 0)[1] == 0
            os.close(forked)
            os.close(told)
        assert lost <= 3, lost
    """)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_first_rows_of_a_slow_store_come_before_many_files_are_read() -> None:
    go_on = threading.Event()

    class Slow(MemoryFileSystem):  # type: ignore[misc]
        cachable = False
        read = 0

        def cat_file(self, path: str, *arguments: Any, **options: Any) -> bytes:
            self.read += 1
            if self.read > 100:
                # As slow as can be; the time is a guard.
                assert go_on.wait(60)
            return cast(bytes, super().cat_file(path, *arguments, **options))

    slow = Slow()
    slow.store.clear()
    slow.pipe({f"/slow/{number:03}": b"content" for number in range(1000)})
    with verisum.hash_files(slow.get_mapper("/slow")) as rows:
        assert next(rows).error is None and not go_on.is_set()
    go_on.set()
    slow.store.clear()
