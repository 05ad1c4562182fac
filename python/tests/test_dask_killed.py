"""Workers and clients are killed at any time: nothing is lost, and no finished task is hashed twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.config
import pytest
from distributed import Client, LocalCluster, Status
from fleet_tree import Trace, contents, expected, make_tree, notes

from verisum.dask import Place, hash_places
from verisum.dask._cut import chunk_files

KILLS = 50

# More rounds than any run needs.
ROUNDS = 200

# The clock of file systems ticks in so many nanoseconds.
CLOCK = 10_000_000

CLIENT = """
import sys
from distributed import Client
from verisum.dask import Place, hash_places
scheduler, tree, lake, name = sys.argv[1:]
with Client(scheduler) as client:
    # Slow enough that there is always something to kill.
    place = Place(tree, name=name, requests_per_second=400, tasks=4)
    report = hash_places(client, place, lake, task_files=20, patience=600)
sys.exit(report.exit_code)
"""


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    options: dict[str, Any] = {"dashboard_address": None, "memory_limit": "512MiB"}
    # A worker is a fork of a process that has all modules: importing them takes a worker a second.
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        made: Any = LocalCluster(n_workers=4, threads_per_worker=1, **options)
        with made:
            yield made


def start(cluster: LocalCluster, tree: Path, lake: Path, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CLIENT, cluster.scheduler_address, str(tree), str(lake), name]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(what: Callable[[], bool], client: subprocess.Popen[Any]) -> None:
    """Waits until something is so, or the client ends."""
    while client.poll() is None and not what():
        time.sleep(0.02)


def has_grown(cluster: LocalCluster, log: Path, begun: int) -> bool:
    """Whether more tasks were begun. Where a nanny gave up, there is another."""
    if len(cluster.workers) < 4:
        cluster.scale(4)
    return len(notes(log)) > begun


def worker_of(cluster: LocalCluster, pick: random.Random) -> int | None:
    """The process of some worker. One that is just being started is left alone: its nanny would give it up."""
    scheduler: Any = cluster.scheduler
    known = scheduler.workers
    nannies = [nanny for nanny in list(cluster.workers.values()) if nanny.process and nanny.worker_address in known]
    pids = [nanny.process.pid for nanny in nannies if nanny.process.status == Status.running]
    return pick.choice(pids) if pids else None


def kill(process: int) -> bool:
    """Kills a process, unless it has ended already."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def test_killed_workers_and_clients_lose_nothing(cluster: LocalCluster, tmp_path: Path) -> None:
    tree, lake, log = make_tree(tmp_path / "tree", 2000), tmp_path / "lake", tmp_path / "log"
    log.touch()
    pick = random.Random(50)
    with Client(cluster) as watcher:
        watcher.register_plugin(Trace(log))
    killed: int = 0
    names = []
    for round_ in range(ROUNDS):
        names.append(f"place {round_}")
        client = start(cluster, tree, lake, names[-1])
        while client.poll() is None:
            begun = len(notes(log))
            # The next one dies when something more was begun.
            wait_for(lambda begun=begun: has_grown(cluster, log, begun), client)  # type: ignore[misc]
            if killed == KILLS or client.poll() is not None:
                client.wait()
                break
            worker = worker_of(cluster, pick)
            if pick.random() < 0.1:
                killed += 1
                client.kill()
                client.wait()
                client = start(cluster, tree, lake, names[-1])
            elif worker is not None:
                killed += kill(worker)
        assert client.returncode == 0
        if killed == KILLS:
            break
    assert killed == KILLS
    alone = expected(tree)
    for name in names:
        assert contents(lake, name) == alone
    assert_no_task_begins_after_its_part(lake, notes(log))


def test_workers_that_their_cluster_gives_up_come_back(cluster: LocalCluster, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 600)
    pick = random.Random(51)
    # Each worker several times; the cluster takes seconds to have new ones.
    kills = 12
    killed: list[int] = []
    is_over = threading.Event()

    def kill_any() -> None:
        # Also workers that are just being started.
        while len(killed) < kills and not is_over.wait(pick.uniform(0.05, 0.3)):
            nannies: Any = list(cluster.workers.values())
            pids = [nanny.process.pid for nanny in nannies if nanny.process and nanny.process.pid]
            killed.extend(pid for pid in pick.sample(pids, min(1, len(pids))) if kill(pid))

    killer = threading.Thread(target=kill_any)
    # Every worker that is lost is given up soon.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "50ms"}), Client(cluster) as client:
        killer.start()
        try:
            # One run takes longer than the killing, unless the machine is busy.
            while len(killed) < kills:
                place = Place(str(tree), requests_per_second=60, tasks=4)
                lake = tmp_path / f"lake{len(killed)}"
                report = hash_places(client, place, str(lake), task_files=20, patience=600)
                assert report.exit_code == 0, report.places[0].errors
                assert contents(lake, str(tree)) == expected(tree)
        finally:
            is_over.set()
            killer.join()


def assert_no_task_begins_after_its_part(lake: Path, begun: list[dict[str, Any]]) -> None:
    last = {note["name"]: note["time"] for note in begun}
    parts = list(lake.rglob("*.parquet"))
    assert {part.stem for part in parts} == set(last)
    for part in parts:
        assert last[part.stem] <= part.stat().st_ctime_ns + CLOCK, part


def test_a_whole_cluster_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    tree, lake = make_tree(tmp_path / "tree", 2000), tmp_path / "lake"
    program = """
import sys
from distributed import Client, LocalCluster
from verisum.dask import Place, hash_places
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        limit = int(sys.argv[3]) or None
        report = hash_places(client, Place(sys.argv[1], requests_per_second=limit, tasks=2), sys.argv[2], task_files=20)
        print(report.read_files)
"""
    script = tmp_path / "program.py"
    script.write_text(program)

    def command(limit: int) -> list[str]:
        return [sys.executable, str(script), str(tree), str(lake), str(limit)]

    # Far from its end when it is killed, however late that is.
    first = subprocess.Popen(command(50), start_new_session=True, stdout=subprocess.DEVNULL)
    wait_for(lambda: len(list(lake.rglob("*.parquet"))) >= 5, first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    known = len(contents(lake, str(tree)))
    assert 100 <= known < 2006
    again = subprocess.run(command(0), capture_output=True, text=True, check=True)
    assert int(again.stdout) == 2006 - known
    assert contents(lake, str(tree)) == expected(tree)


def test_ctrl_c_ends_cleanly_and_the_next_run_goes_on(cluster: LocalCluster, tmp_path: Path) -> None:
    tree, lake = make_tree(tmp_path / "tree", 1000), tmp_path / "lake"
    plan = tmp_path / "plan.toml"
    text = f'catalog = "{lake}"\n[[place]]\npath = "{tree}"\n'
    plan.write_text(text + "requests_per_second = 100\n")
    command = [sys.executable, "-m", "verisum.fleet", "run", str(plan), "--scheduler", cluster.scheduler_address]
    # One task of all files, which takes ten seconds: it is begun, and ends after the program.
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any(lake.rglob("*.arrow")), first)
    first.send_signal(signal.SIGINT)
    out, error = first.communicate()
    assert first.returncode == 130, error
    assert str(tree) in out
    assert "Traceback" not in error
    chunks = [chunk_files(path.read_bytes()) for path in lake.rglob("*.arrow")]
    assert len(chunks) == 1
    plan.write_text(text)
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert contents(lake, str(tree)) == expected(tree)
