"""Fleets over places that no worker has as a directory: a bucket of a real server, and a host behind a real sshd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from fleet_tree import make_tree, present

import verisum
from conftest import Store, flip
from verisum.dask import Place, compare_places, hash_places, scrub_places
from verisum.dask._lake import Lake
from verisum.fleet import PlanError, read_plan

FLEET = Path(sys.executable).parent / "verisum-fleet"


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    """Workers that have the keys of the store."""
    options: dict[str, Any] = {"dashboard_address": None, "memory_limit": "512MiB"}
    made: Any = LocalCluster(n_workers=2, threads_per_worker=1, **options)
    with made, Client(made) as client:
        yield client


@pytest.fixture
def photos(store: Store) -> Path:
    folder = store.bucket("photos")
    for number in range(120):
        below = folder / f"d{number % 7}"
        below.mkdir(exist_ok=True)
        (below / f"f{number:05}").write_bytes(f"{number} ".encode() * 25)
    return folder


def digests(root: Path) -> dict[bytes, bytes]:
    return {os.fsencode(os.path.relpath(row.path, root)): row.digest for row in verisum.hash_files(root)}


def found(lake: Path, place: str) -> dict[bytes, bytes | None]:
    return {path: record.digest for path, record in present(lake, place).items()}


def test_a_bucket_is_scrubbed(client: Client, store: Store, photos: Path, tmp_path: Path) -> None:
    place = Place("s3://photos/", hosts=store.hosts)
    lake = tmp_path / "lake"
    report = scrub_places(client, place, str(lake), task_files=25)
    assert report.verdicts == {"new": 120} and report.exit_code == 0
    assert found(lake, place.name) == digests(photos)
    assert scrub_places(client, place, str(lake), task_files=25).verdicts == {"ok": 120}
    # A task is not done twice, and what is not new is not read by hash_places.
    assert hash_places(client, place, str(lake)).read_files == 0
    (photos / "d1" / "f00001").write_bytes(b"another content")
    # The store tells whole seconds, and all of this may fall into one.
    os.utime(photos / "d1" / "f00001", (2_000_000_000, 2_000_000_000))
    os.remove(photos / "d2" / "f00002")
    flip(photos / "d3" / "f00003")
    again = scrub_places(client, place, str(lake), task_files=25)
    assert again.verdicts["missing"] == 1 and again.verdicts["modified"] == 1 and again.verdicts["ok"] == 117
    (bad,) = (file for file in again.places[0].bad if file.path == b"d3/f00003")
    # Nothing tells of the inode, so nobody can say who wrote.
    assert bad.verdict in ("rot", "suspicious")


def test_a_host_is_compared_with_a_bucket(
    client: Client, store: Store, photos: Path, ssh_config: Path, tmp_path: Path
) -> None:
    tree = make_tree(tmp_path / "tree", 20)
    host = Place(f"ssh://web1{tree}", name="web", hosts=verisum.Hosts(ssh_config=ssh_config))
    report = scrub_places(client, host, str(tmp_path / "lake"))
    assert report.verdicts == {"new": len(digests(tree))}
    assert found(tmp_path / "lake", "web") == digests(tree)
    verisum.copy(photos, tmp_path / "copy").finish()
    flip(tmp_path / "copy" / "d1" / "f00001")
    there = Place(f"ssh://web1{tmp_path}/copy", hosts=verisum.Hosts(ssh_config=ssh_config))
    compared = compare_places(client, Place("s3://photos", hosts=store.hosts), there, str(tmp_path / "lake"))
    assert (compared.same, compared.different, compared.exit_code) == (119, 1, 1)


def test_a_lake_in_a_bucket(client: Client, store: Store, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.bucket("lake")
    # What s3fs takes its address from; workers have it too.
    url = store.url
    client.run(lambda: os.environ.update({"AWS_ENDPOINT_URL": url}))
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    place = Place("s3://photos", hosts=store.hosts)
    assert scrub_places(client, place, "s3://lake/fleet", task_files=50).verdicts == {"new": 120}
    lake = Lake("s3://lake/fleet")
    rows = lake.records(lake.groups(place.name), None, None)
    assert {path: row.digest for path, row in rows.items()} == digests(photos)
    assert scrub_places(client, place, "s3://lake/fleet", max_age=3600).read_files == 0


def test_the_program_takes_places_of_urls(store: Store, photos: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'catalog = "{tmp_path}/lake"\n[[place]]\npath = "s3://photos"\nhosts = {{ endpoint = "{store.url}" }}\n'
    )
    ended = subprocess.run([FLEET, "run", plan, "--workers", "1", "--json"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["places"][0]["verdicts"] == {"new": 120}
    plan.write_text(f'catalog = "{tmp_path}/lake"\n[[place]]\npath = "s3://photos"\nhosts = {{ endpiont = "x" }}\n')
    with pytest.raises(PlanError, match="endpiont"):
        read_plan(str(plan))


def test_a_place_that_is_down_is_given_up(client: Client, photos: Path, tmp_path: Path) -> None:
    place = Place("s3://photos", hosts=verisum.Hosts(endpoint="http://127.0.0.1:1", timeout=1))
    report = scrub_places(client, [place, Place(str(photos))], str(tmp_path / "lake"))
    assert report.exit_code == 3 and "cannot be reached" in report.places[0].errors[0]
    assert report.places[1].verdicts == {"new": 120}


def test_what_cannot_be_done_is_refused() -> None:
    for limit in ("bytes_per_second", "requests_per_second"):
        with pytest.raises(ValueError, match=f"{limit}: not for places on other machines"):
            Place("s3://photos", **{limit: 5})  # type: ignore[arg-type]
    for url in ("ftp://photos/x", "s3://", "ssh://"):
        with pytest.raises(ValueError):
            Place(url)
    with pytest.raises(ValueError, match="hosts: not for"):
        Place("/srv", hosts=verisum.Hosts())
    with pytest.raises(ValueError, match="without"):
        Place("ssh://web1/srv/../etc")
    assert Place("ssh://web1/srv/").path == "ssh://web1/srv" and Place("ssh://web1/srv/").tasks is None
