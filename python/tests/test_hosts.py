"""Two hosts with networks of their own: real servers of ssh in network namespaces."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from distributed import Client, LocalCluster
from fleet_tree import contents, expected, make_tree

import verisum
from conftest import Sshds, flip, loud_skip, need_sshd
from verisum.dask import Place, compare_places, scrub_places

# A range that is kept for tests of networks.
NETWORK = "198.18.{}.{}"


class Hosts(NamedTuple):
    """Hosts one and two."""

    config: Path
    # The end of each one's cable on this machine.
    cables: dict[str, str]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def made(namespace: str, cable: str, number: int) -> str:
    """Makes a namespace with a cable to it, and gives its address."""
    here, there = NETWORK.format(number, 1), NETWORK.format(number, 2)
    ip("netns", "add", namespace)
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    ip("address", "add", f"{here}/30", "dev", cable)
    ip("link", "set", cable, "up")
    ip("-n", namespace, "address", "add", f"{there}/30", "dev", "eth0")
    ip("-n", namespace, "link", "set", "eth0", "up")
    return there


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    need_sshd()
    (tmp_path / "sshd").mkdir()
    sshds = Sshds(tmp_path / "sshd")
    cables = {name: f"vs{os.getpid() % 100_000}{name}" for name in ("one", "two")}
    try:
        for number, (name, cable) in enumerate(cables.items()):
            try:
                address = made(cable, cable, (os.getpid() * 2 + number) % 256)
            except (FileNotFoundError, subprocess.CalledProcessError) as error:
                why = getattr(error, "stderr", b"").decode() or error
                loud_skip(f"no network namespace can be made: {why}")
            sshds.start(name, address, 2222, ["ip", "netns", "exec", cable])
        yield Hosts(sshds.config, cables)
    finally:
        sshds.stop()
        for cable in cables.values():
            # The kernel ends a namespace later, and its cable with it: the next test would find the name taken.
            subprocess.run(["ip", "link", "delete", cable], capture_output=True)
            subprocess.run(["ip", "netns", "delete", cable], capture_output=True)


def test_two_hosts_are_places_of_one_call(hosts: Hosts, tmp_path: Path) -> None:
    trees = {name: tmp_path / name for name in hosts.cables}
    for tree in trees.values():
        tree.mkdir()
        for number in range(30):
            (tree / f"{number:02}").write_bytes(bytes([number]) * 1000)
    (trees["two"] / "07").write_bytes(b"\0" * 1000)
    (trees["two"] / "more").touch()
    reached = verisum.Hosts(ssh_config=hosts.config, timeout=20)
    places = [f"{name}:{tree}" for name, tree in trees.items()]
    rows = list(verisum.hash_files(places, hosts=reached))
    assert all(row.error is None for row in rows)
    found = {(row.host, row.path): row.digest for row in rows}
    here = {row.path: row.digest for row in verisum.hash_files(list(trees.values()))}
    assert found == {(Path(path).parent.name, path): digest for path, digest in here.items()} and len(found) == 61
    differences = {(one.name, one.outcome) for one in verisum.compare(*places, hosts=reached)}
    assert differences == {("07", "differs"), ("more", "extra")}
    catalog = tmp_path / "both.db"
    for place in places:
        verisum.scrub(place, catalog=catalog, hosts=reached).finish()
    assert len(list(verisum.Catalog(catalog).rows())) == 61
    # Somebody pulls a cable: the other host goes on, and nothing is missing.
    ip("link", "set", hosts.cables["one"], "down")
    rows = list(verisum.hash_files(places, hosts=reached))
    (failed,) = (row for row in rows if row.error is not None)
    assert failed.host == "one" and isinstance(failed.error, verisum.HostError)
    assert {row.path for row in rows if row.host == "two"} == {path for path in here if "/two/" in path}
    with pytest.raises(verisum.HostError):
        verisum.scrub(places[0], catalog=catalog, hosts=reached).finish()
    assert {row.state for row in verisum.Catalog(catalog).rows()} == {"ok"}


def test_two_hosts_are_places_of_a_fleet(hosts: Hosts, tmp_path: Path) -> None:
    trees = [make_tree(tmp_path / name, 40) for name in hosts.cables]
    lake, reached = tmp_path / "lake", verisum.Hosts(ssh_config=hosts.config, timeout=20)
    places = [Place(f"ssh://{tree.name}{tree}", name=tree.name, hosts=reached) for tree in trees]
    options: dict[str, Any] = {"dashboard_address": None, "memory_limit": "512MiB"}
    made: Any = LocalCluster(n_workers=2, threads_per_worker=1, **options)
    with made, Client(made) as client:
        report = scrub_places(client, places, str(lake), task_files=10)
        assert report.verdicts == {"new": 92} and report.exit_code == 0
        for tree in trees:
            assert contents(lake, tree.name) == expected(tree)
        assert compare_places(client, places[0], places[1], str(lake)).same == 46
        flip(trees[1] / "d1" / "f00001")
        # Somebody pulls a cable: the other host goes on, and nothing is missing.
        ip("link", "set", hosts.cables["one"], "down")
        report = scrub_places(client, places, str(lake), task_files=10)
    assert report.places[0].errors and not report.places[0].verdicts
    assert [bad.path for bad in report.places[1].bad] == [b"d1/f00001"]
    assert report.places[1].verdicts["ok"] == 45 and report.exit_code == 1
    assert contents(lake, "one") == expected(trees[0])
