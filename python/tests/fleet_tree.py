"""Trees for the tests of fleets, and what a lake says of them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from distributed import Client, WorkerPlugin

import verisum
from verisum.dask._cut import ABSENT
from verisum.dask._lake import Lake, LakeRecord


def make_tree(root: Path, files: int, size: int = 100) -> Path:
    """A tree of small files, some with names that are hard to write down."""
    for number in range(files):
        folder = root / f"d{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number:05}").write_bytes(f"{number} ".encode() * (size // 4))
    for name in (b"new\nline", b"not\xffutf-8", b"d1.txt", b"d1-", b'quote"', b" "):
        Path(os.fsdecode(bytes(root) + b"/" + name)).write_bytes(name)
    return root


def present(lake: Path, place: str) -> dict[bytes, LakeRecord]:
    """The present rows of a place, without those of files that are not there."""
    opened = Lake(str(lake))
    rows = opened.records(opened.groups(place), None, None)
    return {path: row for path, row in rows.items() if row.state not in ABSENT}


def expected(root: Path) -> dict[bytes, tuple[int, bytes]]:
    """Size and digest of each file, by one process."""
    top = len(bytes(root)) + 1
    with verisum.hash_files(bytes(root), ["sha256"]) as rows:
        return {row.path_bytes[top:]: (row.size, row.digest) for row in rows}


def contents(lake: Path, place: str) -> dict[bytes, tuple[int | None, bytes | None]]:
    """Size and digest of each file, as the lake has them."""
    return {path: (row.size, row.digest) for path, row in present(lake, place).items()}


def wait_until_idle(client: Client) -> None:
    """Waits until no worker does a task any more, not even one that was taken back."""

    def running(dask_worker: Any) -> int:
        return int(dask_worker.state.executing_count)

    while True:
        counts: Any = client.run(running)
        if not any(counts.values()):
            return
        time.sleep(0.05)


class Trace(WorkerPlugin):
    """Notes in a file which tasks a worker begins because it finds no part of theirs, also on workers that come later."""

    name = "verisum-trace"

    def __init__(self, log: Path) -> None:
        self.log = log

    def setup(self, worker: Any) -> None:
        self.find_part = Lake.find_part

        def traced(lake: Lake, place: str, name: str, *arguments: int) -> str | None:
            now = time.time_ns()
            found = self.find_part(lake, place, name, *arguments)
            if found is None:
                note = {"worker": list(worker.state.total_resources), "place": place, "name": name, "time": now}
                with open(self.log, "a") as log:
                    log.write(json.dumps(note) + "\n")
            return found

        patched: Any = Lake
        patched.find_part = traced

    def teardown(self, worker: Any) -> None:
        patched: Any = Lake
        patched.find_part = self.find_part


def notes(log: Path) -> list[dict[str, Any]]:
    """What was traced. The last line of a killed worker may be half written."""
    found = []
    for line in log.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
