"""The lake: parts of records in a shared directory or bucket, written whole or not at all. docs/lake.md has its layout."""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

import fsspec
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from verisum.dask._errors import FleetError, LakeError, PartError

# Their types are not complete.
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet

LAYOUT = b"verisum.lake"
TASK = b"verisum.task"

# Stores where a new object appears whole, and a rename would be a copy.
ATOMIC_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory"}

COLUMNS = [
    "path",
    "path_bytes",
    "size",
    "mtime",
    "ctime",
    "inode",
    "algorithm",
    "digest",
    "state",
    "first_seen",
    "changed",
    "verified",
    "exported",
]


class LakeRecord(NamedTuple):
    """The present row of a file. Times of the file are nanoseconds since 1970, all others milliseconds."""

    size: int | None
    mtime: int | None
    ctime: int | None
    inode: int | None
    algorithm: str
    digest: bytes | None
    state: str
    first_seen: int | None
    changed: int | None
    verified: int | None
    exported: int


class Group(NamedTuple):
    """A row group of a part, and the first and last path in it; None where that is not known."""

    part: str
    number: int
    low: bytes | None
    high: bytes | None


class Lake:
    """A lake at an address of fsspec, such as a directory or ``s3://BUCKET/PREFIX``."""

    def __init__(self, url: str) -> None:
        self.url = url
        if not url:
            raise ValueError("empty path")
        try:
            self.files, root = fsspec.core.url_to_fs(url)
        except Exception as error:  # Some file systems connect here.
            raise LakeError(f"{url}: {one_line(error)}") from None
        self.root = root.rstrip("/")
        protocols = self.files.protocol
        self.protocols = {protocols} if isinstance(protocols, str) else set(protocols)
        if "file" in self.protocols:
            # Workers have other working directories.
            self.url = self.files.unstrip_protocol(self.root)

    def folder(self, place: str) -> str:
        """Where the parts of a place are."""
        return f"{self.root}/place={quote(os.fsencode(place), safe='')}"

    def notes(self, place: str) -> str:
        """Where the notes of a run over a place are, which are no parts."""
        return f"{self.root}/.verisum/{quote(os.fsencode(place), safe='')}"

    def part(self, place: str, name: str, exported: int) -> str:
        """The path of a part that was written at this time."""
        return f"{self.folder(place)}/day={day(exported)}/{name}.parquet"

    def parts(self, place: str) -> list[str]:
        """The paths of all parts of a place."""
        folder = self.folder(place)
        with self.asked(folder, "list"):
            try:
                # What a listing remembers may be older than what another machine wrote.
                self.files.invalidate_cache()
                found = self.files.find(folder)
            except FileNotFoundError:
                return []
        names = [(path, path.rsplit("/", 1)[-1]) for path in found]
        return sorted(path for path, name in names if name.endswith(".parquet") and name[0] not in "._")

    def find_part(self, place: str, name: str, since: int, until: int) -> str | None:
        """A part of this name that was written between two times, if there is one."""
        while day(since) <= day(until):
            path = self.part(place, name, since)
            with self.asked(path, "find"):
                if self.files.exists(path):
                    return path
            since += 86_400_000
        return None

    def read(self, path: str) -> bytes:
        with self.reading(path), self.files.open(path, "rb") as file:
            return bytes(file.read())

    def write(self, path: str, data: bytes) -> None:
        """Makes a file appear whole; one that is there already is replaced."""
        folder, name = path.rsplit("/", 1)
        scratch = f"{folder}/.{name}.{uuid.uuid4().hex}"
        with self.asked(path, "write"):
            if self.protocols & ATOMIC_STORES:
                self.files.pipe_file(path, data)
                return
            self.files.makedirs(folder, exist_ok=True)
            try:
                if "file" in self.protocols:
                    write_through(scratch, data)
                    os.rename(scratch, path)
                else:
                    self.files.pipe_file(scratch, data)
                    self.files.mv(scratch, path)
            except BaseException:
                self.remove(scratch)
                raise

    def remove(self, path: str, recursive: bool = False) -> None:
        """Removes what is there; it is no error if that cannot be done."""
        try:
            self.files.rm(path, recursive=recursive)
        except Exception:
            pass

    def read_note(self, place: str, name: str) -> dict[str, Any] | None:
        """A note of a run, if there is one."""
        path = f"{self.notes(place)}/{name}.json"
        with self.asked(path, "read"):
            try:
                data = self.files.cat_file(path)
            except FileNotFoundError:
                return None
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise PartError(f"{self.address(path)}: this note of an earlier run is damaged; remove it")
        return found

    def write_note(self, place: str, name: str, note: dict[str, Any]) -> None:
        self.write(f"{self.notes(place)}/{name}.json", json.dumps(note).encode())

    def address(self, path: str) -> str:
        """A path as errors name it."""
        return path if "file" in self.protocols else str(self.files.unstrip_protocol(path))

    @contextmanager
    def asked(self, path: str, operation: str) -> Iterator[None]:
        """Makes whatever the file system of the lake raises an error of the lake: each has exceptions of its own."""
        try:
            yield
        except FleetError:
            raise
        except Exception as error:
            name, number = self.address(path), error.errno if isinstance(error, OSError) else None
            raise LakeError(f"{name}: {operation}: {one_line(error)}", name, operation, number) from None

    @contextmanager
    def reading(self, part: str) -> Iterator[None]:
        """The same, where a part that is not whole is an error of its place."""
        with self.asked(part, "read"):
            try:
                yield
            except (pa.ArrowException, ValueError, EOFError, OSError) as error:
                raise broken(self.address(part), error) from None

    def groups(self, place: str) -> list[Group]:
        """All row groups of a place."""
        return [group for part in self.parts(place) for group in part_groups(self.url, part)]

    def records(self, groups: list[Group], after: bytes | None, last: bytes | None) -> dict[bytes, LakeRecord]:
        """The present rows of the paths after one and up to another; None for no bound. The groups are the place's."""
        present: dict[bytes, LakeRecord] = {}
        for group in groups:
            is_before = after is not None and group.high is not None and group.high <= after
            is_behind = last is not None and group.low is not None and group.low > last
            if is_before or is_behind:
                continue
            for path, record in rows(group_table(self.url, group.part, group.number), after, last):
                other = present.get(path)
                if other is None or other.exported < record.exported:
                    present[path] = record
        return present


def write_through(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def day(milliseconds: int) -> str:
    """The day in UTC."""
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)).strftime("%Y-%m-%d")


def opened(url: str, part: str) -> Any:
    """A part that is open; a part that is not whole is an error that names it."""
    lake = Lake(url)
    with lake.reading(part):
        file = pq.ParquetFile(lake.files.open(part, "rb"), page_checksum_verification=True)
    version = (file.metadata.metadata or {}).get(LAYOUT)
    if version != b"1" or not set(COLUMNS) <= set(file.schema_arrow.names):
        raise PartError(f"{lake.address(part)}: this is no part of a lake of layout 1")
    return file


def one_line(error: Exception) -> str:
    """What an exception says."""
    said = (error.strerror if isinstance(error, OSError) else None) or error
    return " ".join(str(said).split()) or type(error).__name__


def broken(part: str, error: Exception) -> PartError:
    # pyarrow has no other class for a footer that makes no sense, but then without a number.
    if isinstance(error, OSError) and (error.errno or type(error) is not OSError):
        return PartError(f"{part}: read: {one_line(error)}", part, "read", error.errno)
    lost = "this part is not whole, so its records are lost; put back a whole copy, or remove it and have its files read again"
    return PartError(f"{part}: {lost} ({error})", part, "read")


# Parts never change, so what was read of them once stays true.
@lru_cache(maxsize=50_000)
def part_groups(url: str, part: str) -> tuple[Group, ...]:
    with opened(url, part) as file:
        metadata = file.metadata
        names = metadata.schema.names
        columns = [names.index("path"), names.index("path_bytes")]
        found = []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            bounds = [bounds_of(group.column(column)) for column in columns]
            # Where one column has values and no bounds, nothing is known of the group.
            known = [] if None in bounds else [bound for bound in bounds if bound is not None]
            low = min((low for low, _ in known if low is not None), default=None)
            high = max((high for _, high in known if high is not None), default=None)
            found.append(Group(part, number, low, high))
        return tuple(found)


def bounds_of(column: Any) -> tuple[bytes | None, bytes | None] | None:
    """The least and the greatest value of a column of a row group; two Nones where all are null."""
    found = column.statistics
    if found is None:
        return None
    if not found.has_min_max:
        return (None, None) if found.num_values == 0 else None
    return encoded(found.min), encoded(found.max)


def encoded(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


@lru_cache(maxsize=4)
def group_table(url: str, part: str, number: int) -> pa.Table:
    """A row group with its paths as bytes, and times as numbers."""
    with opened(url, part) as file, Lake(url).reading(part):
        table = file.read_row_group(number, columns=COLUMNS)
    paths = pc.coalesce(table["path"].cast(pa.binary()), table["path_bytes"])
    columns = {"key": paths}
    for name in LakeRecord._fields:
        column = table[name]
        columns[name] = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return pa.table(columns)


def rows(table: pa.Table, after: bytes | None, last: bytes | None) -> list[tuple[bytes, LakeRecord]]:
    """The rows of the paths after one and up to another."""
    wanted = None
    if after is not None:
        wanted = pc.greater(table["key"], pa.scalar(after, pa.binary()))
    if last is not None:
        until = pc.less_equal(table["key"], pa.scalar(last, pa.binary()))
        wanted = until if wanted is None else pc.and_(wanted, until)
    if wanted is not None:
        table = table.filter(wanted)
    columns = [table[name].to_pylist() for name in ("key", *LakeRecord._fields)]
    return [(path, LakeRecord(*values)) for path, *values in zip(*columns, strict=True)]


def part_bytes(columns: dict[str, Any], digest_size: int, note: dict[str, Any]) -> bytes:
    """A part in memory. Columns are lists, with the names of the lake; `key` has the paths."""
    keys = columns.pop("key")
    texts = [text_of(key) for key in keys]
    milliseconds, nanoseconds = pa.timestamp("ms", tz="UTC"), pa.timestamp("ns", tz="UTC")
    types = {
        "size": pa.uint64(),
        "mtime": nanoseconds,
        "ctime": nanoseconds,
        "inode": pa.uint64(),
        "algorithm": pa.string(),
        "digest": pa.binary(digest_size),
        "state": pa.string(),
        "first_seen": milliseconds,
        "changed": milliseconds,
        "verified": milliseconds,
        "exported": milliseconds,
        "replaces": milliseconds,
    }
    arrays = {
        "path": pa.array(texts, pa.string()),
        "path_bytes": pa.array(
            [key if text is None else None for key, text in zip(keys, texts, strict=True)], pa.binary()
        ),
    }
    for name, kind in types.items():
        arrays[name] = pa.array(columns[name], kind)
    table = pa.table(arrays).replace_schema_metadata({LAYOUT: b"1", TASK: json.dumps(note).encode()})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", use_dictionary=["algorithm", "state"], write_page_checksum=True)
    return buffer.getvalue()


def text_of(path: bytes) -> str | None:
    """A path as text, or None where it is no UTF-8."""
    try:
        return path.decode()
    except UnicodeDecodeError:
        return None


def task_note(url: str, part: str) -> dict[str, Any]:
    """What the task that wrote a part noted of its work."""
    with opened(url, part) as file:
        try:
            note = json.loads((file.metadata.metadata or {}).get(TASK, b"{}"))
        except ValueError:
            note = None
    if not isinstance(note, dict):
        raise PartError(f"{Lake(url).address(part)}: its note of the task is damaged")
    return note
