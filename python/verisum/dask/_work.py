"""Does a task: hashes its files, judges them by their records, and writes a part. Runs on a worker."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

import verisum
from verisum._native import (
    PlaceRead,
    hash_place,
    judge,
    judge_comparison,
    read_again,
    state_after,
    storage_failed,
    verdicts,
)
from verisum.dask._cut import DueFile, Task, chunk_files
from verisum.dask._errors import FleetError, PartError, PlaceError
from verisum.dask._lake import Lake, LakeRecord, part_bytes, task_note
from verisum.dask._place import ListedFile, Place, clamp, look_at
from verisum.dask._version import refuse_other
from verisum.tables import hash_paths

CLASSES = dict(verdicts())

# So many bad files of a task are named; the rest is counted, and in the lake.
NAMED = 1000

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Order:
    """A task and what is needed to do it."""

    place: Place
    lake: str
    task: Task
    judges: bool
    # When the cycle began, in milliseconds since 1970: no file counts as verified before.
    begun: int
    # Since when the task's part may have been written: by this run, or by what is left of a killed one.
    since: int
    version: str
    threads: int
    # The inode of the place's top.
    top: int


class BadFile(NamedTuple):
    """A file that is not as it should be, or that could not be compared."""

    path: bytes
    verdict: str
    detail: str


@dataclass
class Outcome:
    """What a task did."""

    read_files: int = 0
    read_bytes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    bad: list[BadFile] = field(default_factory=list)

    def note(self, path: bytes, verdict: str, detail: str) -> None:
        self.verdicts[verdict] += 1
        if (CLASSES[verdict] in ("corrupt", "unchecked") or verdict == "missing") and len(self.bad) < NAMED:
            self.bad.append(BadFile(path, verdict, detail))

    def to_json(self) -> dict[str, Any]:
        bad = [[os.fsdecode(path), verdict, detail] for path, verdict, detail in self.bad]
        return {"files": self.read_files, "bytes": self.read_bytes, "verdicts": self.verdicts, "bad": bad}

    @staticmethod
    def of_json(note: dict[str, Any]) -> Outcome:
        bad = [BadFile(os.fsencode(path), verdict, detail) for path, verdict, detail in note["bad"]]
        return Outcome(note["files"], note["bytes"], Counter(note["verdicts"]), bad)


def work(order: Order) -> Outcome | FleetError:
    """Does a task, unless its part is there already. What is wrong with the place or the lake is its result."""
    try:
        refuse_other(order.version)
        return done(order)
    except FleetError as error:
        return error


def done(order: Order) -> Outcome:
    """What `work` gives."""
    lake = Lake(order.lake)
    place, task = order.place, order.task
    now = max(milliseconds(), order.begun)
    part = lake.find_part(place.name, task.id, order.since, now)
    if part is not None:
        try:
            return Outcome.of_json(task_note(order.lake, part))
        except PartError:
            pass  # It had what this task finds: it is written anew.
    due = chunk_files(lake.read(task.chunk))
    outcome = Outcome()
    rows = [row for row in judged(order, due, outcome, now) if row is not None]
    if not place.is_remote:
        # Nothing is missing only because its file system was unmounted meanwhile.
        look_at(os.fsencode(place.path), order.top)
    exported = max(now, milliseconds(), max((row.record.exported + 1 for row in due if row.record), default=0))
    columns = columns_of(rows, task.algorithm, exported)
    size = verisum.new(task.algorithm).digest_size
    path = part or lake.part(place.name, task.id, exported)
    lake.write(path, part_bytes(columns, size, outcome.to_json()))
    return outcome


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


class Seen(NamedTuple):
    """A file that was read."""

    size: int | None
    mtime: int | None
    ctime: int | None
    inode: int | None
    digest: bytes
    has_changed: bool


class Row(NamedTuple):
    """A new row of a file."""

    path: bytes
    record: LakeRecord
    replaces: int | None


def judged(order: Order, due: list[DueFile], outcome: Outcome, now: int) -> list[Row | None]:
    """Hashes the files of a task, and gives the new row of each."""
    root = os.fsencode(order.place.path) + b"/"
    found: dict[bytes, Seen | verisum.Error]
    if order.place.is_remote:
        found = read_remote(order, [file.listed for file in due if file.listed is not None])
    else:
        found = read(order, root, [file.path for file in due if file.listed is not None])
    judge_of = Judge(order, root, now, shared_times(due))
    rows = []
    for file in due:
        seen = found.get(file.path) if file.listed is not None else None
        if isinstance(seen, Seen):
            outcome.read_files += 1
            outcome.read_bytes += seen.size or 0
        rows.append(judge_of.row(file, seen, outcome))
    return rows


def shared_times(due: list[DueFile]) -> set[int]:
    """The times of modification that several records of a task have."""
    times = Counter(file.record.mtime for file in due if file.record is not None and file.record.mtime is not None)
    return {mtime for mtime, count in times.items() if count > 1}


def read(order: Order, root: bytes, paths: list[bytes]) -> dict[bytes, Seen | verisum.Error]:
    """Reads and hashes files."""
    place, algorithm = order.place, order.task.algorithm
    table = hash_paths(
        [root + path for path in paths],
        algorithm,
        threads=order.threads,
        limit=place.share(place.bytes_per_second),
        requests=place.share(place.requests_per_second),
    )
    columns = [table[name] for name in ("path", "path_bytes", "error", "size", "mtime", "ctime", "inode")]
    columns += [table[algorithm], table["changed"]]
    lists = [(column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist() for column in columns]
    found: dict[bytes, Seen | verisum.Error] = {}
    for text, other, error, size, mtime, ctime, *seen in zip(*lists, strict=True):
        name = (other if text is None else text.encode())[len(root) :]
        if error is not None:
            found[name] = read_alone(root + name, algorithm)
        else:
            # Arrow has no times that 64 bits do not hold.
            found[name] = Seen(size, mtime or 0, ctime or 0, *seen)
    return found


def read_remote(
    order: Order, files: list[ListedFile], *, settled: bool = False
) -> dict[bytes, Seen | verisum.Error]:
    """Reads and hashes files of a place on another machine."""
    place = order.place
    try:
        asked = [(file.path, file.size, file.mtime) for file in files]
        answers = hash_place(place.path, asked, order.task.algorithm, place.hosts, settled=settled)
    except verisum.Error as error:
        raise PlaceError(f"{place.path}: {error}") from None
    return {file.path: seen_there(place, file, answer) for file, answer in zip(files, answers, strict=True)}


def seen_there(place: Place, file: ListedFile, answer: PlaceRead | None) -> Seen | verisum.Error:
    """What came of a file on another machine."""
    name = f"{place.path}/{os.fsdecode(file.path)}"
    if answer is None:
        return verisum.FileError(f"{name}: read: there was no answer", name, "read")
    if answer.digest is None:
        return verisum.FileError(f"{name}: read: {answer.error}", name, "read")
    mtime = None if answer.mtime_ns is None else clamp(answer.mtime_ns)
    return Seen(answer.size, mtime, None, None, answer.digest, answer.changed)


def read_alone(path: bytes, algorithm: str) -> Seen | verisum.Error:
    """Tries a file again that could not be read: what can be passing gets a second chance, and an error that stays has
    its number here, which a table has not."""
    with verisum.hash_files([path], [algorithm], threads=1) as rows:
        for row in rows:
            if row.error is not None:
                return row.error
            times = (clamp(row.mtime_ns), clamp(row.ctime_ns))
            return Seen(row.size, *times, row.inode, row.digest, row.changed)
    return verisum.FileError(f"{os.fsdecode(path)}: it is no file any more")


# What the system says where there is no such file any more; a link in its place is not the file.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class Judge:
    """Judges the files of a task and makes their new rows."""

    def __init__(self, order: Order, root: bytes, now: int, shared: set[int]) -> None:
        self.order = order
        self.root = root
        self.now = now
        self.shared = shared

    def row(self, due: DueFile, seen: Seen | verisum.Error | None, outcome: Outcome) -> Row | None:
        """The new row of a file; None where there is nothing to say of it."""
        record = due.record if due.record is not None and due.record.state != "gone" else None
        replaces = due.record.exported if due.record is not None else None
        detail = ""
        if isinstance(seen, Seen) and not seen.has_changed:
            verdict, detail = self.compared(due.path, seen, record)
        elif isinstance(seen, Seen):
            verdict, detail = judge("unsettled"), "it changed while it was read, twice"
        elif seen is None or seen.errno in GONE:
            if record is None:
                return None
            verdict = judge("gone")
        else:
            verdict = judge("storage-failed" if storage_failed(seen.errno or 0) else "unreadable")
            detail = seen.message
        if record is None:
            outcome.note(due.path, verdict, detail)
            return Row(due.path, self.first(due.listed, seen, verdict), replaces)
        called, state, is_replaced = state_after(record.state, verdict)
        outcome.note(due.path, called, detail)
        if is_replaced and isinstance(seen, Seen):
            changed = self.now if verdict == "modified" or record.changed is None else record.changed
            kept = record._replace(first_seen=record.first_seen or self.now, changed=changed, verified=self.now)
            return Row(due.path, renewed(kept, seen), replaces)
        return Row(due.path, record._replace(state=state), replaces)

    def first(self, listed: ListedFile | None, seen: Seen | verisum.Error | None, verdict: str) -> LakeRecord:
        """The record of a file that had none; without a digest where it could not be read."""
        size, mtime, ctime, inode = listed[1:] if listed is not None else (None,) * 4
        algorithm = self.order.task.algorithm
        record = LakeRecord(
            size, mtime, ctime, inode, algorithm, None, verdict, self.now, None, None, 0
        )
        if isinstance(seen, Seen) and CLASSES[verdict] == "change":
            return renewed(record._replace(changed=self.now, verified=self.now), seen)
        return record

    def compared(self, path: bytes, seen: Seen, record: LakeRecord | None) -> tuple[str, str]:
        """The verdict on a file that was read."""
        if record is None or record.digest is None:
            return judge("unrecorded"), ""
        same_digest = seen.digest == record.digest
        # A place that tells no times says nothing of who wrote.
        same_mtime = seen.mtime is not None and seen.mtime == record.mtime
        if not self.order.judges:
            return ("touched" if same_digest else "modified"), ""
        same_file = None if not record.inode or seen.inode is None else seen.inode == record.inode
        evidence: dict[str, Any] = {
            "same_digest": same_digest,
            "same_mtime": same_mtime,
            "same_ctime": None if record.ctime is None or seen.ctime is None else seen.ctime == record.ctime,
            "same_file": same_file,
            "time_tells": seen.mtime is not None and seen.mtime % SECOND != 0 and seen.mtime not in self.shared,
        }
        verdict = judge_comparison(**evidence)
        if verdict is not None:
            return verdict, ""
        return self.compared_twice(path, seen, record, evidence)

    def compared_twice(
        self, path: bytes, seen: Seen, record: LakeRecord, evidence: dict[str, Any]
    ) -> tuple[str, str]:
        """The verdict after a second read, past the page cache."""
        if self.order.place.is_remote:
            return self.compared_twice_there(path, seen, record, evidence)
        try:
            again = read_again(os.fsdecode(self.root + path), self.order.task.algorithm)
        except OSError as error:
            if not storage_failed(error.errno or 0):
                return judge("unreadable"), f"second read: {error.strerror}"
            verdict = judge_comparison(**evidence, second="failed")
            return verdict or judge("storage-failed"), f"second read: {error.strerror}"
        if not again.settled or (again.mtime_ns, again.ctime_ns) != (seen.mtime, seen.ctime):
            return judge("unsettled"), "it changed between two reads"
        if evidence["same_file"] and again.born_ms is not None:
            # Numbers of inodes are used again.
            known = max(record.verified or 0, record.changed or 0, record.first_seen or 0)
            evidence["same_file"] = again.born_ms <= known
        second = "same" if again.digest == seen.digest else "different"
        verdict = judge_comparison(**evidence, second=second)
        detail = f"recorded {hex_of(record.digest)}, read {seen.digest.hex()}; second read ({again.source}): {second}"
        return verdict or judge("unsettled"), detail


    def compared_twice_there(
        self, path: bytes, seen: Seen, record: LakeRecord, evidence: dict[str, Any]
    ) -> tuple[str, str]:
        """The verdict after a second read on another machine."""
        file = ListedFile(path, seen.size, seen.mtime, None, None)
        again = read_remote(self.order, [file], settled=True)[path]
        if not isinstance(again, Seen):
            return judge("unreadable"), f"second read: {again.message}"
        if again.has_changed or (again.size, again.mtime) != (seen.size, seen.mtime):
            return judge("unsettled"), "it changed between two reads"
        second = "same" if again.digest == seen.digest else "different"
        verdict = judge_comparison(**evidence, second=second)
        detail = f"recorded {hex_of(record.digest)}, read {seen.digest.hex()}; second read: {second}"
        return verdict or judge("unsettled"), detail


def hex_of(digest: bytes | None) -> str:
    return "nothing" if digest is None else digest.hex()


def renewed(record: LakeRecord, seen: Seen) -> LakeRecord:
    """The record of what was read."""
    return record._replace(
        size=seen.size, mtime=seen.mtime, ctime=seen.ctime, inode=seen.inode, digest=seen.digest, state="ok"
    )


def columns_of(rows: list[Row], algorithm: str, exported: int) -> dict[str, Any]:
    """The columns of a part, as `part_bytes` takes them."""
    columns: dict[str, Any] = {"key": [row.path for row in rows]}
    for number, name in enumerate(LakeRecord._fields):
        columns[name] = [row.record[number] for row in rows]
    columns["algorithm"] = [algorithm] * len(rows)
    columns["exported"] = [exported] * len(rows)
    columns["replaces"] = [row.replaces for row in rows]
    return columns
