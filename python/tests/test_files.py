"""`hash_files` against hashlib and the file system."""

import gc
import hashlib
import io
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from tqdm import tqdm

import verisum
from interrupted import ctrl_c, run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for folder in range(5):
        (root / f"f{folder}").mkdir(parents=True)
        for number in range(40):
            (root / f"f{folder}" / f"{number:03}").write_bytes(bytes([folder, number]) * (number * 50))
    (root / "large").write_bytes(os.urandom(5_000_000))
    return root


def expected(root: Path, name: str) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path): hashlib.new(name, path.read_bytes()).hexdigest() for path in files}


def test_every_file_has_its_digests(tree: Path) -> None:
    rows = list(verisum.hash_files(tree))
    assert {row.path: row.hexdigest for row in rows} == expected(tree, "sha256")
    assert len(rows) == 201
    for row in rows:
        stat = os.stat(row.path)
        assert row.error is None and not row.changed
        assert (row.size, row.inode, row.device) == (stat.st_size, stat.st_ino, stat.st_dev)
        assert (row.mtime_ns, row.ctime_ns) == (stat.st_mtime_ns, stat.st_ctime_ns)
        assert (row.links, row.stored) == (stat.st_nlink, stat.st_blocks * 512)
        assert row.digests == (row.digest,) and row.digest.hex() == row.hexdigest


def test_several_digests_in_one_read(tree: Path) -> None:
    found = verisum.hash_files([tree], ["md5", "blake3", "sha512"])
    assert found.algorithms == ("md5", "blake3", "sha512")
    for row in found:
        data = Path(row.path).read_bytes()
        assert row.digests == tuple(verisum.new(name, data).digest() for name in found.algorithms)


def test_one_digest_needs_no_list(tree: Path) -> None:
    assert verisum.hash_files(tree, "md5").algorithms == ("md5",)
    assert verisum.hash_files(tree, (name for name in ("md5", "crc32c"))).algorithms == ("md5", "crc32c")
    # A table would have two columns of one name.
    with pytest.raises(ValueError, match="sha3-256 is named twice"):
        verisum.hash_files(tree, ["sha3-256", "sha3_256"])


def test_tqdm_shows_how_many(tree: Path) -> None:
    shown = io.StringIO()
    rows = list(tqdm(verisum.hash_files(tree), unit=" files", total=201, file=shown))
    assert len(rows) == 201
    assert "201/201" in shown.getvalue() and " files/s" in shown.getvalue()


def test_rows_in_order(tree: Path) -> None:
    for threads in (0, 1, 5):
        rows = [row.path_bytes for row in verisum.hash_files(tree, ordered=True, threads=threads)]
        assert rows == sorted(rows) and len(rows) == 201
    other = tree.parent / "another"
    other.mkdir()
    (other / "x").touch()
    rows = [row.path_bytes for row in verisum.hash_files([tree, other], ordered=True)]
    assert rows[-1] == os.fsencode(other / "x")


def test_every_kind_of_path(tree: Path) -> None:
    path = tree / "large"
    kinds: list[str | bytes | os.PathLike[str]] = [path, str(path), os.fsencode(path)]
    for one in kinds:
        assert [row.path for row in verisum.hash_files(one)] == [str(path)]
    assert [row.path for row in verisum.hash_files(iter([path]))] == [str(path)]
    assert list(verisum.hash_files([])) == []
    with pytest.raises(TypeError):
        verisum.hash_files(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        verisum.hash_files([7])  # type: ignore[list-item]
    with pytest.raises(ValueError):
        verisum.hash_files("a\0b")


def test_what_is_left_out(tree: Path) -> None:
    rows = list(verisum.hash_files(tree, exclude=["f[12]/", "large"]))
    assert {Path(row.path).parent.name for row in rows} == {"f0", "f3", "f4"}
    with pytest.raises(ValueError, match=r"\[z-a\]"):
        verisum.hash_files(tree, exclude=["[z-a]"])


def test_links_below_the_root(tree: Path) -> None:
    (tree / "f0" / "link").symlink_to("../large")
    assert len(list(verisum.hash_files(tree))) == 201
    assert len(list(verisum.hash_files(tree, follow_links=True))) == 202


def test_bad_arguments(tree: Path) -> None:
    with pytest.raises(verisum.DigestError):
        verisum.hash_files(tree, ["sha256", "nosuch"])
    with pytest.raises(ValueError):
        verisum.hash_files(tree, [])


def test_names_that_are_no_utf8_go_both_ways(tmp_path: Path) -> None:
    names = [b"\xff\xfe", "ü€😀".encode(), b"new\nline", b"plain", b"\xed\xb2\x80"]
    for name in names:
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(name)
    rows = list(verisum.hash_files(tmp_path))
    assert {os.path.basename(row.path_bytes) for row in rows} == set(names)
    for row in rows:
        assert os.fsencode(row.path) == row.path_bytes
        name = os.path.basename(row.path_bytes)
        assert row.digest == hashlib.sha256(name).digest()
        # What came out goes in again, as text and as bytes.
        assert [again.digest for again in verisum.hash_files(row.path)] == [row.digest]
        assert [again.digest for again in verisum.hash_files(row.path_bytes)] == [row.digest]
    table = pa.table(verisum.hash_files(tmp_path)).select(["path", "path_bytes"])
    for row in table.to_pylist():
        assert (row["path"] is None) != (row["path_bytes"] is None)
    from_table = [row["path_bytes"] or os.fsencode(row["path"]) for row in table.to_pylist()]
    assert sorted(os.path.basename(name) for name in from_table) == sorted(names)


def test_a_file_that_is_not_there_is_a_row(tree: Path) -> None:
    missing = tree / "missing"
    rows = {row.path: row for row in verisum.hash_files([missing, tree / "large"])}
    assert len(rows) == 2
    assert rows[str(tree / "large")].error is None
    row = rows[str(missing)]
    error = row.error
    assert isinstance(error, verisum.FileError) and isinstance(error, OSError)
    assert (error.path, error.filename, error.operation) == (str(missing), str(missing), "stat")
    assert str(error) == f"{missing}: stat: No such file or directory"
    assert isinstance(error.__cause__, FileNotFoundError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.errno, again.path) == (str(error), error.errno, error.path)
    for field in ("size", "digest", "digests", "hexdigest", "mtime_ns", "ctime_ns", "inode", "changed"):
        with pytest.raises(verisum.FileError):
            getattr(row, field)
    (only,) = pa.table(verisum.hash_files(missing)).to_pylist()
    assert only["sha256"] is None and only["mtime"] is None and str(missing) in only["error"]


def test_a_pipe_or_a_device_that_is_named_is_a_row(tree: Path) -> None:
    pipe = tree / "pipe"
    os.mkfifo(pipe)
    for name in (str(pipe), "/dev/null"):
        (row,) = verisum.hash_files(name)
        assert row.path == name and "not a regular file" in str(row.error)
    # Below a directory they are left out.
    assert str(pipe) not in [row.path for row in verisum.hash_files(tree)]


def test_vanishing_files_do_not_end_it(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    for number in range(5000):
        (root / f"{number:05}").write_bytes(b"x" * 3000)
    stop = threading.Event()

    def remove() -> None:
        for number in range(4999, -1, -2):
            if stop.is_set():
                return
            (root / f"{number:05}").unlink()

    thread = threading.Thread(target=remove)
    thread.start()
    rows = list(verisum.hash_files(root, threads=2))
    stop.set()
    thread.join()
    kept = {row.path for row in rows if row.error is None}
    assert {str(root / f"{number:05}") for number in range(0, 5000, 2)} <= kept
    assert all(isinstance(row.error.__cause__, FileNotFoundError) for row in rows if row.error is not None)


def test_closing_ends_it(tree: Path) -> None:
    with verisum.hash_files(tree) as rows:
        assert next(rows).size >= 0
    assert list(rows) == []
    rows.close()
    del rows
    gc.collect()
    started = time.monotonic()
    for _ in range(20):
        next(verisum.hash_files(tree))
    assert time.monotonic() - started < 200


def test_closing_does_not_wait_for_a_thread_that_takes_rows(tmp_path: Path) -> None:
    slow = slow_tree(tmp_path)
    for rows in (
        verisum.hash_files(slow, limit=1000),
        verisum.scrub(tmp_path, catalog=tmp_path / "c.db", limit=1000),
    ):
        takers = [threading.Thread(target=lambda rows=rows: list(rows)) for _ in range(3)]
        for taker in takers:
            taker.start()
        time.sleep(0.2)
        started = time.monotonic()
        rows.close()
        for taker in takers:
            taker.join()
        assert time.monotonic() - started < 60


def test_an_exception_in_the_loop_leaves_nothing_behind(tree: Path) -> None:
    before = threading.active_count(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with pytest.raises(KeyError):
            for row in verisum.hash_files(tree):
                raise KeyError(row.path)
    gc.collect()
    deadline = time.monotonic() + 100
    while len(os.listdir("/proc/self/task")) > before[1] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= before[1]
    assert len(os.listdir("/proc/self/fd")) <= before[2]


def test_pyarrow_polars_and_duckdb_read_the_rows(tree: Path) -> None:
    want = expected(tree, "sha256")
    table = pa.table(verisum.hash_files(tree, ["sha256", "crc32c"]).to_arrow(batch_rows=50))
    assert table.column("path").num_chunks == 5
    assert table.schema.field("sha256").type == pa.binary(32)
    assert table.schema.field("crc32c").type == pa.binary(4)
    assert table.schema.field("mtime").type == pa.timestamp("ns", "UTC")
    table.validate(full=True)
    # Python's own datetime has no nanoseconds.
    table = table.set_column(4, "mtime", table.column("mtime").cast("int64")).drop_columns(["ctime"])
    assert {row["path"]: row["sha256"].hex() for row in table.to_pylist()} == want
    for row in table.to_pylist():
        stat = os.stat(row["path"])
        assert (row["size"], row["inode"], row["mtime"]) == (stat.st_size, stat.st_ino, stat.st_mtime_ns)
    frame = pl.DataFrame(verisum.hash_files(tree))
    assert {row["path"]: row["sha256"].hex() for row in frame.to_dicts()} == want
    rows = verisum.hash_files(tree).to_arrow()
    query = "select count(*), sum(size), count(distinct sha256) from rows"
    found = duckdb.connect().execute(query).fetchone()
    assert found == (201, sum(os.path.getsize(path) for path in want), len(set(want.values())))
    rows = verisum.hash_files(tree / "large").to_arrow()
    # Without pytz.
    found = duckdb.connect().execute("select epoch_ns(mtime) from rows").fetchone()
    assert found == ((tree / "large").stat().st_mtime_ns,)
    del rows


def test_the_schema_is_told_without_taking_rows(tree: Path) -> None:
    rows = verisum.hash_files(tree)
    schema = pa.schema(rows)
    assert schema.names[:3] == ["path", "path_bytes", "error"] and schema.names[-1] == "sha256"
    assert pa.table(rows).num_rows == 201
    assert pa.schema(rows) == schema
    with pytest.raises(ValueError, match="at least one"):
        verisum.hash_files(tree).to_arrow(batch_rows=0)


def test_rows_that_were_read_are_no_empty_table(tree: Path, tmp_path: Path) -> None:
    def table(rows: Any) -> object:
        return pa.table(rows)

    def frame(rows: Any) -> object:
        return pl.DataFrame(rows)

    def count(rows: Any) -> object:
        return duckdb.connect().execute("select count(*) from rows").fetchone()

    def parquet(rows: Any) -> object:
        return rows.to_parquet(tmp_path / "rows.parquet")

    def stream(rows: Any) -> object:
        return rows.to_arrow()

    for first in (table, frame, count, parquet, list, next, verisum.HashFiles.close):
        for then in (table, frame, count, parquet, stream):
            rows = verisum.hash_files(tree)
            first(rows)
            with pytest.raises((ValueError, duckdb.Error), match="already read"):
                then(rows)
    for read in (table, frame, count):
        once = verisum.hash_files(tree).to_arrow()
        read(once)
        with pytest.raises((ValueError, duckdb.Error), match="already read"):
            read(once)
    # Of two streams one has all rows.
    rows = verisum.hash_files(tree)
    one, other = pa.RecordBatchReader.from_stream(rows), pa.RecordBatchReader.from_stream(rows)
    assert other.read_all().num_rows == 201
    with pytest.raises(Exception, match="already read"):
        one.read_all()
    # Iterators end as Python's do.
    rows = verisum.hash_files(tree)
    assert len(list(rows)) == 201 and list(rows) == []


def test_the_first_row_does_not_wait_for_others(tmp_path: Path) -> None:
    # All of them take eight minutes.
    for number in range(1000):
        (tmp_path / str(number)).write_bytes(b"x" * 1000)
    begun = time.monotonic()
    with verisum.hash_files(tmp_path, limit=2000, threads=1) as rows:
        assert next(rows).size == 1000
    assert time.monotonic() - begun < 100


def test_a_stream_that_nobody_reads_is_dropped(tree: Path) -> None:
    for _ in range(10):
        capsule = verisum.hash_files(tree).to_arrow().__arrow_c_stream__()
        del capsule
    gc.collect()


def slow_tree(tmp_path: Path) -> Path:
    path = tmp_path / "slow"
    with open(path, "wb") as file:
        file.write(b"x" * 1_000_000)
    return path


TAKE = {
    "the iterator": "list(rows)",
    "pyarrow": "pyarrow.table(rows)",
    "polars": "polars.DataFrame(rows)",
}


@pytest.mark.parametrize("take", TAKE)
def test_ctrl_c_ends_the_wait_for_a_row(take: str, tmp_path: Path) -> None:
    # At a thousand bytes a second, a row takes a quarter of an hour.
    ctrl_c(
        f"import polars, pyarrow; rows = verisum.hash_files({str(slow_tree(tmp_path))!r}, limit=1000)",
        f"""
        try:
            {TAKE[take]}
        except Exception as error:
            time.sleep(0)
            raise
        """,
    )


def test_a_forked_process_has_no_threads_to_wait_for(tree: Path) -> None:
    ended = run(f"""
        import os, verisum
        rows = verisum.hash_files({str(tree)!r})
        next(rows)
        child = os.fork()
        if child == 0:
            try:
                next(rows)
            except RuntimeError as error:
                print(error, flush=True)
            del rows
            again = list(verisum.hash_files({str(tree)!r}))
            print(len(again), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(len(list(rows)) + 1)
    """)
    assert "forked" in ended.stdout and ended.stdout.endswith("\n201\n201\n"), ended


def test_the_interpreter_may_end_in_the_middle(tree: Path) -> None:
    for code in (
        f"import verisum; rows = verisum.hash_files({str(tree)!r}); next(rows)",
        f"import verisum, sys; rows = verisum.hash_files({str(tree)!r}); sys.exit(0)",
        f"import verisum, atexit; rows = verisum.hash_files({str(tree)!r}); atexit.register(next, rows)",
    ):
        ended = run(code)
        assert (ended.returncode, ended.stderr) == (0, "")


def many(root: Path, count: int) -> Iterator[Path]:
    for number in range(count):
        path = root / f"{number // 1000}" / f"{number}"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        yield path


def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        code = """if True:
            import resource, sys, verisum
            rows = sum(1 for _ in verisum.hash_files(sys.argv[1], threads=2))
            print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        """
        root = tmp_path / str(count)
        root.mkdir()
        made = sum(1 for _ in many(root, count))
        said = subprocess.run([sys.executable, "-c", code, str(root)], capture_output=True, check=True).stdout
        rows, kilobytes = map(int, said.split())
        assert rows == made == count
        return kilobytes

    few, lots = peak(2_000), peak(int(os.environ.get("VERISUM_FILES", "40000")))
    assert lots - few < 8_000, (few, lots)
