"""Measures what Dask costs: `python fleet.py FOLDER [FILES SIZE]` hashes a tree of files, which it makes in FOLDER.

In each round the same tasks are done by one process a core, and by a cluster of four workers; what counts is the best
round of each. Listing, which both do alike, is not in it.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from dask.config import set as set_dask
from distributed import Client, LocalCluster

from verisum.dask import Place
from verisum.dask._cut import Cut, Mode, Step, cut
from verisum.dask._run import Run
from verisum.dask._version import VERSION
from verisum.dask._work import Order, Outcome, milliseconds, work

# As docs/fleet.md says: what else workers do all the time costs more than the tasks' way to them.
set_dask({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"})

ROUNDS = 5
WORKERS = 4


def make(tree: Path, files: int, size: int) -> None:
    for number in range(files):
        folder = tree / f"{number // 1000:05}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number % 1000:03}").write_bytes(random.randbytes(size))


def orders(tree: Path, lake: Path, task_files: int) -> list[Order]:
    """The tasks of the tree."""
    place = Place(str(tree))
    # All of it in one step.
    mode = Mode(False, "sha256", milliseconds(), None, task_files, step_files=1 << 40)
    found = cut(Step(place, str(lake), mode, VERSION))
    assert isinstance(found, Cut), found
    return [Order(place, str(lake), task, False, mode.begun, mode.begun, VERSION, 1, found.top) for task in found.tasks]


def alone(pool: Any, tree: Path, lake: Path, task_files: int) -> float:
    """Seconds of one process a core."""
    tasks = orders(tree, lake, task_files)
    begun = time.perf_counter()
    outcomes = pool.map(work, tasks, chunksize=1)
    assert all(isinstance(outcome, Outcome) for outcome in outcomes)
    return time.perf_counter() - begun


def cluster(client: Client, tree: Path, lake: Path, task_files: int) -> float:
    """Seconds of the cluster, from its first task on."""
    # A second step of the listing would run beside the tasks.
    mode = Mode(False, "sha256", milliseconds(), None, task_files, step_files=1 << 40)
    report = Run(client, [Place(str(tree))], str(lake), mode).go()
    assert report.exit_code == 0
    return report.places[0].seconds


def measure(folder: Path, files: int, size: int, task_files: int) -> None:
    tree, lake = folder / f"{files}x{size}", folder / "lake"
    if not tree.exists():
        make(tree, files, size)
    best: dict[str, float] = {}
    options: dict[str, Any] = {"dashboard_address": None}
    cores = len(os.sched_getaffinity(0))
    with get_context("spawn").Pool(cores) as pool:
        with LocalCluster(n_workers=WORKERS, threads_per_worker=1, **options) as made, Client(made) as client:
            for _ in range(ROUNDS):
                for name, seconds in (
                    ("alone", lambda: alone(pool, tree, lake, task_files)),
                    ("cluster", lambda: cluster(client, tree, lake, task_files)),
                ):
                    shutil.rmtree(lake, ignore_errors=True)
                    best[name] = min(best.get(name, 1e9), seconds())
    tasks = -(-files // task_files)
    rates = {name: f"{seconds:.2f} s, {tasks / seconds:.1f} tasks/s" for name, seconds in best.items()}
    print(f"{files} files of {size} bytes in {tasks} tasks; {cores} processes: {rates['alone']}; "
          f"{WORKERS} workers: {rates['cluster']}; overhead {best['cluster'] / best['alone'] - 1:+.1%}", flush=True)


if __name__ == "__main__":
    where = Path(sys.argv[1])
    count, length = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 2 else (200_000, 4096)
    measure(where, count, length, 10_000)
    measure(where, 2000, 16, 1)
