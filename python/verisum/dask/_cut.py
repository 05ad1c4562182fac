"""Cuts a place into tasks by listing it: runs on a worker that has the place."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from verisum.dask._errors import FleetError, PlaceError
from verisum.dask._lake import Lake, LakeRecord
from verisum.dask._place import ListedFile, Place, RemoteWalk, Walk, look_at
from verisum.dask._version import refuse_other

# A listing is compared with the records of as many files at once.
WINDOW = 50_000

# More files than any place has.
EVERY = 1 << 62

# States of records whose file is known not to be there.
ABSENT = ("missing", "gone")


@dataclass(frozen=True)
class Mode:
    """What is due.

    Attributes:
        judges: Whether files are judged by their records; otherwise only what is new or changed is hashed.
        algorithm: The digest of files that have no record.
        begun: When the cycle began, in milliseconds since 1970: what was found since then stays as it is.
        due_before: Files that were verified before are due; None for `begun`.
        task_files: A task has at least so many files …
        task_bytes: … or so many bytes.
        step_files: A listing comes in steps of at least so many files.
    """

    judges: bool
    algorithm: str
    begun: int
    due_before: int | None = None
    task_files: int = 10_000
    task_bytes: int = 1 << 30
    step_files: int = 200_000


@dataclass(frozen=True)
class Step:
    """A request to list a place from a path on."""

    place: Place
    lake: str
    mode: Mode
    version: str
    after: bytes | None = None
    # The inode of the place's top, where an earlier step has seen it.
    top: int | None = None


class DueFile(NamedTuple):
    """A file of a task, or one that is recorded and gone; with its present row, if there is one."""

    path: bytes
    listed: ListedFile | None
    record: LakeRecord | None


@dataclass(frozen=True)
class Task:
    """A part of a place's work. Its files are in the chunk, a file of the lake."""

    id: str
    chunk: str
    algorithm: str
    files: int
    bytes: int
    # When the stalest of its files was verified; 0 where one never was.
    oldest: int


@dataclass
class Cut:
    """What a step found."""

    tasks: list[Task] = field(default_factory=list)
    # Where the next step begins; None after the last.
    last: bytes | None = None
    top: int = 0
    listed_files: int = 0
    listed_bytes: int = 0
    # Files that this cycle has found bad or missing, with their states.
    bad: list[tuple[bytes, str]] = field(default_factory=list)
    # Files that are due, and were bad when they were read last.
    doubted: list[tuple[bytes, str]] = field(default_factory=list)
    # How many files earlier cycles found missing.
    missing: int = 0
    errors: list[tuple[bytes, str]] = field(default_factory=list)


def cut(step: Step) -> Cut | FleetError:
    """Lists a place from a path on, and writes chunks of what is due into the lake.

    What is wrong with the place or the lake is its result: Dask would write the traceback of an exception into its log.
    """
    try:
        refuse_other(step.version)
        return listed(step)
    except FleetError as error:
        return error


def listed(step: Step) -> Cut:
    """What `cut` gives."""
    lake = Lake(step.lake)
    groups = lake.groups(step.place.name)
    walk: Walk | RemoteWalk
    if step.place.is_remote:
        walk, top = RemoteWalk(step.place, step.after, step.place.excludes()), 0
        # Another step would list it anew.
        step = replace(step, mode=replace(step.mode, step_files=EVERY))
    else:
        root = os.fsencode(step.place.path)
        walk, top = Walk(root, step.after, step.place.excludes()), look_at(root, step.top).st_ino
    files = iter(walk)
    found = Cut(errors=walk.errors, top=top)
    bundles: dict[str, Bundle] = {}
    after = step.after
    while True:
        window = list(islice(files, min(WINDOW, step.mode.step_files)))
        is_last = len(window) < min(WINDOW, step.mode.step_files)
        until = None if is_last else window[-1].path
        records = lake.records(groups, after, until)
        if is_last and not window and after is None:
            refuse_empty(step.place, records, walk)
        found.listed_files += len(window)
        found.listed_bytes += sum(file.size or 0 for file in window)
        for due in select(window, records, walk, step.mode, found):
            algorithm = due.record.algorithm if due.record else step.mode.algorithm
            bundle = bundles.setdefault(algorithm, Bundle(algorithm))
            bundle.add(due)
            if bundle.is_whole(step.mode):
                found.tasks.append(bundles.pop(algorithm).write(lake, step))
        after = until
        # A step ends between two tasks where it can, so that tasks are whole.
        is_enough = found.listed_files >= step.mode.step_files and not bundles
        if is_last or is_enough or found.listed_files >= 10 * step.mode.step_files:
            break
    found.tasks += [bundle.write(lake, step) for bundle in bundles.values()]
    found.last = after
    return found


def refuse_empty(place: Place, records: dict[bytes, LakeRecord], walk: Walk | RemoteWalk) -> None:
    """Fails for a place without files, unless it is known why none is seen: it would look clean, or all missing."""
    there = sum(record.state not in ABSENT for record in records.values())
    if there or not walk.errors:
        known = f", though {there} files of it are recorded" if there else ""
        question = "is its address right?" if place.is_remote else "is it mounted?"
        raise PlaceError(f"{place.path}: no file is there{known}; {question}")


def select(
    window: list[ListedFile], records: dict[bytes, LakeRecord], walk: Walk | RemoteWalk, mode: Mode, found: Cut
) -> Iterable[DueFile]:
    """The files that are due, and the recorded ones that are gone, in the order of their paths."""
    due: list[DueFile] = []
    for file in window:
        record = records.pop(file.path, None)
        if record is not None and record.state == "gone":
            # Of a removed record only the time of its row matters.
            record = record._replace(algorithm=mode.algorithm)
        if is_due(file, record, mode):
            due.append(DueFile(file.path, file, record))
            if record is not None and record.state not in ("ok", *ABSENT):
                found.doubted.append((file.path, record.state))
        elif record is not None and record.state != "ok":
            found.bad.append((file.path, record.state))
    hidden = tuple(walk.unlisted)
    absent = {
        path: record
        for path, record in records.items()
        if not path.startswith(hidden) and (walk.excludes is None or not walk.excludes.leaves_out_file(path))
    }
    for path, record in absent.items():
        if record.state == "missing" and record.exported >= mode.begun:
            # The run that found it may have been killed before it named it.
            found.bad.append((path, record.state))
        elif record.state == "missing":
            found.missing += 1
    gone = [
        DueFile(path, None, record)
        for path, record in absent.items()
        if record.state not in ABSENT and record.exported < mode.begun
    ]
    return sorted(due + gone) if gone else due


def is_due(file: ListedFile, record: LakeRecord | None, mode: Mode) -> bool:
    if record is None or record.state in ABSENT:
        return True
    if record.state != "ok":
        # It was found so by this cycle, or by an earlier one.
        return not mode.judges or record.exported < mode.begun
    if (file.size, file.mtime) != (record.size, record.mtime):
        return True
    if not mode.judges:
        return None not in (record.ctime, file.ctime) and file.ctime != record.ctime
    return record.verified is None or record.verified < (mode.due_before or mode.begun)


@dataclass
class Bundle:
    """Files that become a task."""

    algorithm: str
    due: list[DueFile] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    oldest: int | None = None

    def add(self, due: DueFile) -> None:
        self.due.append(due)
        if due.listed is not None:
            self.files += 1
            self.bytes += due.listed.size or 0
        verified = (due.record.verified if due.record else None) or 0
        self.oldest = verified if self.oldest is None else min(self.oldest, verified)

    def is_whole(self, mode: Mode) -> bool:
        return len(self.due) >= mode.task_files or self.bytes >= mode.task_bytes

    def write(self, lake: Lake, step: Step) -> Task:
        """Writes the chunk, whose name comes from what is in it."""
        data = chunk_bytes(self.due)
        parts = (step.place.name, str(step.mode.judges), self.algorithm)
        name = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape") + data).hexdigest()[:32]
        path = f"{lake.notes(step.place.name)}/chunks/{name}.arrow"
        lake.write(path, data)
        return Task(name, path, self.algorithm, self.files, self.bytes, self.oldest or 0)


CHUNK = pa.schema(
    [
        ("path", pa.binary()),
        ("listed", pa.bool_()),
        ("l_size", pa.uint64()),
        ("l_mtime", pa.int64()),
        ("l_ctime", pa.int64()),
        ("l_inode", pa.uint64()),
        ("recorded", pa.bool_()),
        ("size", pa.uint64()),
        ("mtime", pa.int64()),
        ("ctime", pa.int64()),
        ("inode", pa.uint64()),
        ("algorithm", pa.string()),
        ("digest", pa.binary()),
        ("state", pa.string()),
        ("first_seen", pa.int64()),
        ("changed", pa.int64()),
        ("verified", pa.int64()),
        ("exported", pa.int64()),
    ]
)

NOT_LISTED = (None,) * 4
NOT_RECORDED = (None,) * len(LakeRecord._fields)


def chunk_bytes(due: list[DueFile]) -> bytes:
    """The files of a task as an Arrow file."""
    rows: list[tuple[Any, ...]] = [
        (
            file.path,
            file.listed is not None,
            *(file.listed[1:] if file.listed is not None else NOT_LISTED),
            file.record is not None,
            *(file.record or NOT_RECORDED),
        )
        for file in due
    ]
    columns = [pa.array(column, kind.type) for column, kind in zip(zip(*rows, strict=True), CHUNK, strict=True)]
    buffer = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(buffer, CHUNK, options=options) as writer:
        writer.write_table(pa.table(columns, schema=CHUNK))
    return buffer.getvalue()


def chunk_files(data: bytes) -> list[DueFile]:
    """The files of a chunk."""
    table = pa.ipc.open_file(data).read_all()
    columns = [column.to_pylist() for column in table.columns]
    return [
        DueFile(
            path,
            ListedFile(path, *values[:4]) if is_listed else None,
            LakeRecord(*values[5:]) if values[4] else None,
        )
        for path, is_listed, *values in zip(*columns, strict=True)
    ]
