"""Buckets of a real server of S3: every function beside the same files here."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

import verisum
from conftest import Store, flip, loud_skip


@pytest.fixture
def photos(store: Store, tmp_path: Path) -> Path:
    """The folder of a new bucket, whose files are its objects."""
    folder = store.bucket("photos")
    (folder / "2024").mkdir()
    for number in range(20):
        (folder / "2024" / f"{number:02}.raw").write_bytes(bytes([number]) * (number * 999))
    (folder / "2024" / "\u00e9 %20").write_bytes(b"odd")
    return folder


def test_files_are_hashed(store: Store, photos: Path) -> None:
    here = {row.path.removeprefix(f"{photos}/"): row.digest for row in verisum.hash_files(photos)}
    rows = list(verisum.hash_files("s3://photos/2024", hosts=store.hosts))
    assert {row.path: row.digest for row in rows} == here and len(here) == 21
    assert {row.host for row in rows} == {"s3://photos"}
    assert {row.size for row in rows} == {*(number * 999 for number in range(20)), 3}


def test_options_reach_the_store(store: Store, photos: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
    assert len(list(verisum.hash_files("s3://photos"))) == 21
    # The endpoint that is given holds.
    (row,) = verisum.hash_files("s3://photos", hosts=verisum.Hosts(endpoint="http://127.0.0.1:1", timeout=1))
    assert isinstance(row.error, verisum.HostError)
    (row,) = verisum.hash_files("s3://photos", hosts=verisum.Hosts(no_sign_request=True))
    assert isinstance(row.error, verisum.HostError) and "AccessDenied" in str(row.error)
    # Keys of a profile, not those of the environment.
    keys = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    (tmp_path / "credentials").write_text(
        "[good]\n" + "".join(f"{name.lower()} = {value}\n" for name, value in keys.items())
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    (row,) = verisum.hash_files("s3://photos")
    assert row.error is not None
    assert len(list(verisum.hash_files("s3://photos", hosts=verisum.Hosts(profile="good")))) == 21
    (row,) = verisum.hash_files("s3://photos", hosts=verisum.Hosts(profile="none"))
    assert row.error is not None and "no profile none" in str(row.error)
    with pytest.raises(ValueError, match="exclude"):
        verisum.Hosts(profile="good", no_sign_request=True)


def test_hosts_can_be_pickled(store: Store, photos: Path) -> None:
    hosts = pickle.loads(pickle.dumps(store.hosts))
    assert len(list(verisum.hash_files("s3://photos", hosts=hosts))) == 21


def test_recorded_digests_are_taken(store: Store, photos: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n[per_1000_requests]\nattributes = 1000\nhead = 1000\nget = 1000\n')
    verisum.copy(photos / "2024", "s3://photos/again", hosts=store.hosts).finish()
    here = {row.path.rsplit("/", 1)[-1]: row.digest for row in verisum.hash_files(photos / "2024")}
    hosts = verisum.Hosts(endpoint=store.url, region="us-east-1", prices=prices)
    assert (hosts.costs().requests, hosts.costs().amount) == ({}, 0.0)
    rows = list(verisum.hash_files("s3://photos/again", recorded=True, hosts=hosts))
    assert {row.path.rsplit("/", 1)[-1]: row.digest for row in rows} == here
    assert {row.evidence for row in rows} == {"recorded"}
    costs = hosts.costs()
    assert "get" not in costs.requests and costs.requests["list"] >= 1 and costs.received > 0 and costs.sent == 0
    asked = sum(count for name, count in costs.requests.items() if name != "list")
    assert (costs.amount, costs.currency) == (asked, "EUR") and asked >= 21
    # Nobody reads them, so rot is not found; without the word it is.
    flip(photos / "again" / "07.raw")
    rows = list(verisum.hash_files("s3://photos/again", recorded=True, hosts=hosts))
    assert {row.path.rsplit("/", 1)[-1]: row.digest for row in rows} == here
    assert hosts.costs().requests["list"] == 2 * costs.requests["list"]
    # What the store recorded nothing of is read.
    both = verisum.hash_files(["s3://photos/again", "s3://photos/2024"], recorded=True, hosts=hosts)
    table = pa.table(both).to_pylist()
    assert {(row["path"].split("/")[0], row["evidence"]) for row in table} == {("again", "recorded"), ("2024", "read")}
    assert "get" in hosts.costs().requests
    (read,) = verisum.hash_files(photos / "2024" / "07.raw")
    assert (read.evidence, read.recorded_ns) == ("read", None)
    assert store.hosts.costs().amount is None and store.hosts.costs().requests["put"] >= 21


def test_recorded_digests_are_compared_with_a_list(store: Store, photos: Path, tmp_path: Path) -> None:
    verisum.copy(photos / "2024", "s3://photos/again", hosts=store.hosts).finish()
    sums = tmp_path / "SUMS"
    lines = "".join(
        f"{algorithm.upper()} ({os.path.basename(row.path)}) = {digest.hex()}\n"
        for row in verisum.hash_files(photos / "2024", ["sha256", "md5"])
        for algorithm, digest in zip(("sha256", "md5"), row.digests, strict=True)
        if algorithm == "sha256" or row.path.endswith("07.raw")
    )
    sums.write_text(lines)
    flip(photos / "again" / "08.raw")
    hosts = verisum.Hosts(endpoint=store.url, region="us-east-1")
    rows = list(verisum.check(sums, "s3://photos/again", recorded=True, threads=2, hosts=hosts))
    assert {row.outcome for row in rows} == {"ok"}
    # Of one the list has two digests in two lines.
    known = {(row.name, row.evidence) for row in rows}
    assert ("08.raw", "recorded") in known and {name for name, _ in known} == set(os.listdir(photos / "again"))
    began = time.monotonic()
    read = {row.name: row for row in verisum.check(sums, "s3://photos/again", limit=100_000, hosts=hosts)}
    # 190 kB, of which a quarter of a second's worth may come at once.
    assert time.monotonic() - began > 1.2
    assert read["08.raw"].class_ != "clean" and (read["09.raw"].outcome, read["09.raw"].evidence) == ("ok", "read")
    for place in (None, "local:/", "https://example.org/x"):
        with pytest.raises(ValueError, match="recorded: only for files in buckets"):
            verisum.check(sums, place, recorded=True)


def test_a_scrub_of_a_bucket_keeps_to_limits(store: Store, photos: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    first = verisum.scrub("s3://photos/2024", catalog=tmp_path / "c.db", limit=80_000, hosts=store.hosts).finish()
    assert first.counts["new"] == 21 and time.monotonic() - began > 1.5
    again = verisum.scrub("s3://photos/2024", catalog=tmp_path / "c.db", max_age=3600, threads=2, hosts=store.hosts)
    assert again.finish().read_files == 0


def test_what_is_no_list_of_prices_is_refused(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    with pytest.raises(FileNotFoundError, match="prices.toml"):
        verisum.Hosts(prices=prices)
    prices.write_text('currency = "EUR"\n[per_1000_requests]\nlits = 1\n')
    with pytest.raises(ValueError, match="lits is no class of requests"):
        verisum.Hosts(prices=prices)
    with pytest.raises(ValueError, match="requests_per_second"):
        verisum.Hosts(requests_per_second=0)
    with pytest.raises(ValueError, match="inventory: must be a file"):
        verisum.Hosts(inventory="ssh://web1/manifest.json")


@pytest.mark.parametrize(("limit", "requests"), [(80_000, None), (None, 8)])
def test_objects_are_read_no_faster_than_a_limit(
    store: Store, photos: Path, limit: int | None, requests: int | None
) -> None:
    began = time.monotonic()
    place, exclude = "s3://photos/2024", ["*%20"]
    found = verisum.hash_files(place, exclude=exclude, threads=2, limit=limit, requests=requests, hosts=store.hosts)
    rows = list(found)
    # 190 kB, or 20 objects, of which a quarter of a second's worth may come at once.
    assert time.monotonic() - began > 1.5
    assert len(rows) == 20 and all(row.error is None for row in rows)


def test_no_more_requests_are_sent_than_a_limit(store: Store, photos: Path) -> None:
    hosts = verisum.Hosts(endpoint=store.url, region="us-east-1", requests_per_second=10)
    began = time.monotonic()
    assert len(list(verisum.hash_files("s3://photos/2024", hosts=hosts))) == 21
    assert time.monotonic() - began > 1.5


def manifest(folder: Path, names: list[str]) -> Path:
    """An inventory of these names, which all have one length."""
    folder.mkdir()
    rows = "".join(f'"photos","{name}","{len(name)}","{verisum.new("md5", name.encode()).hexdigest()}"\n' for name in names)
    (folder / "x.csv").write_text(rows)
    data = {"key": "all/data/x.csv", "size": len(rows), "MD5checksum": verisum.new("md5", rows.encode()).hexdigest()}
    about = {"sourceBucket": "photos", "fileFormat": "CSV", "fileSchema": "Bucket, Key, Size, ETag", "files": [data]}
    (folder / "manifest.json").write_text(json.dumps(about))
    return folder / "manifest.json"


def report(folder: Path, names: list[str]) -> Path:
    """A completion report of a job that computed the checksums of these."""
    (folder / "results").mkdir(parents=True)
    rows = ""
    for name in names:
        crc = base64.b64encode(verisum.new("crc64-nvme", name.encode()).digest()).decode()
        told = {"checksum_base64": crc, "etag": verisum.new("md5", name.encode()).hexdigest()}
        told |= {"checksumAlgorithm": "CRC64NVME", "checksumType": "FULL_OBJECT"}
        message = json.dumps(told).replace('"', '""')
        rows += f'photos,{name},,succeeded,200,,"{message}"\n'
    (folder / "results" / "y.csv").write_text(rows)
    result = {"TaskExecutionStatus": "succeeded", "Bucket": "r", "Key": "job/results/y.csv"}
    result["MD5Checksum"] = verisum.new("md5", rows.encode()).hexdigest()
    schema = "Bucket, Key, VersionId, TaskStatus, ErrorCode, HTTPStatusCode, ResultMessage"
    about = {"Format": "Report_CSV_20180820", "ReportCreationDate": "2026-11-24T17:48:39.725Z", "Results": [result]}
    (folder / "report.json").write_text(json.dumps(about | {"ReportSchema": schema}))
    return folder / "report.json"


def test_lists_of_a_store_stand_for_asking_it(store: Store, tmp_path: Path) -> None:
    folder, tree = store.bucket("photos"), tmp_path / "tree"
    tree.mkdir()
    names = [f"f{number:02}" for number in range(10)]
    for name in names:
        (tree / name).write_text(name)
    verisum.copy(tree, "s3://photos", hosts=store.hosts).finish()
    # It is in the bucket, and not in its inventory.
    (folder / "later").write_text("later")
    inventory, job = manifest(tmp_path / "lists", names), report(tmp_path / "job", names)
    listed = verisum.Hosts(endpoint=store.url, region="us-east-1", inventory=inventory)
    for hosts in (listed, pickle.loads(pickle.dumps(listed))):
        rows = list(verisum.hash_files("s3://photos", hosts=hosts))
        assert sorted(row.path for row in rows) == names and "list" not in hosts.costs().requests
    bucket = store.bucket("lists")
    shutil.copytree(tmp_path / "lists", bucket / "all")
    there = verisum.Hosts(endpoint=store.url, region="us-east-1", inventory="s3://lists/all/manifest.json")
    with pytest.raises(verisum.HostError, match="inventory"):
        verisum.scrub("s3://lists", catalog=tmp_path / "c.db", hosts=listed).finish()
    (bucket / "all" / "data").mkdir()
    (bucket / "all" / "x.csv").rename(bucket / "all" / "data" / "x.csv")
    for hosts in (there, pickle.loads(pickle.dumps(there))):
        assert len(list(verisum.hash_files("s3://photos", hosts=hosts))) == 10
    both = verisum.Hosts(endpoint=store.url, region="us-east-1", inventory=inventory, checksum_report=job)
    compared = verisum.compare(tree, "s3://photos", hosts=pickle.loads(pickle.dumps(both)))
    assert compared.finish()["same"] == 10 and compared.settled is not None and compared.settled["store"] == 10
    with pytest.raises(ValueError, match="checksum_report: only for compare, copy and scrub"):
        verisum.hash_files("s3://photos", hosts=both)


def test_what_is_not_as_the_store_recorded_it_has_no_digest(store: Store, photos: Path) -> None:
    verisum.copy(photos / "2024", "s3://photos/again", hosts=store.hosts).finish()
    flip(photos / "again" / "07.raw")
    bad = {row.path: row for row in verisum.hash_files("s3://photos/again", hosts=store.hosts) if row.error is not None}
    assert list(bad) == ["again/07.raw"]
    with pytest.raises(verisum.FileError, match="recorded by the store"):
        bad["again/07.raw"].digests


def test_check_compare_and_scrub(store: Store, photos: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(photos / "2024", tree)
    sums = tmp_path / "SUMS"
    rows = list(verisum.hash_files(tree))
    sums.write_text("".join(f"{row.hexdigest}  {os.path.basename(row.path)}\n" for row in rows))
    place, catalog = "s3://photos/2024", tmp_path / "c.db"
    checked = verisum.check(sums, place, hosts=store.hosts)
    assert checked.finish()["verified"] == 21 and checked.class_ == "clean"
    compared = verisum.compare(tree, place, hosts=store.hosts)
    assert compared.finish()["same"] == 21 and compared.class_ == "clean"
    assert verisum.scrub(place, catalog=catalog, hosts=store.hosts).finish().counts["new"] == 21

    flip(photos / "2024" / "07.raw")
    os.remove(photos / "2024" / "08.raw")
    checked = verisum.check(sums, place, hosts=store.hosts)
    assert sorted((row.name, row.outcome) for row in checked if row.outcome != "ok") == [
        ("07.raw", "failed"),
        ("08.raw", "missing"),
    ]
    found = {(one.name, one.outcome) for one in verisum.compare(tree, place, hosts=store.hosts)}
    assert found == {("07.raw", "differs"), ("08.raw", "missing")}
    findings = {os.path.basename(one.path): one.verdict for one in verisum.scrub(place, catalog=catalog, hosts=store.hosts)}
    assert findings["08.raw"] == "missing" and "07.raw" in findings
    (accepted,) = verisum.accept("s3://photos/2024/08.raw", catalog=catalog, hosts=store.hosts)
    assert accepted.was == "missing" and accepted.now is None
    assert len(list(verisum.Catalog(catalog).rows("s3://photos/2024"))) == 20


def test_copies_both_ways(store: Store, photos: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    assert verisum.copy("s3://photos/2024", target, hosts=store.hosts).finish().copied == 21
    assert sorted(os.listdir(target)) == sorted(os.listdir(photos / "2024"))
    sent = verisum.copy(target, "s3://photos/again", hosts=store.hosts)
    copied = {file.name: file for file in sent}
    assert {file.outcome for file in copied.values()} == {"copied"} and len(copied) == 21
    for name in os.listdir(target):
        assert (photos / "again" / name).read_bytes() == (target / name).read_bytes()
    assert verisum.copy(target, "s3://photos/again", hosts=store.hosts).finish().current == 21
    # As into a directory.
    verisum.copy(target / "07.raw", "s3://photos/into/", hosts=store.hosts).finish()
    assert (photos / "into" / "07.raw").exists()
    for option in ("update", "tag"):
        with pytest.raises(ValueError, match=f"{option}: not for files"):
            verisum.copy(target, "s3://photos/again", **{option: True})  # type: ignore[arg-type]
    # Also from a bucket to a bucket.
    between = verisum.copy("s3://photos/2024", "s3://photos/between", hosts=store.hosts).finish()
    assert (between.copied, between.failed) == (21, 0)
    for name in os.listdir(photos / "2024"):
        assert (photos / "between" / name).read_bytes() == (photos / "2024" / name).read_bytes()


def test_a_copy_in_a_bucket_repairs_a_file(store: Store, photos: Path, tmp_path: Path) -> None:
    tree, catalog = tmp_path / "tree", tmp_path / "c.db"
    shutil.copytree(photos / "2024", tree)
    verisum.scrub(tree, catalog=catalog).finish()
    flip(tree / "07.raw")
    verisum.scrub(tree, catalog=catalog).finish()
    (tmp_path / "bad").mkdir()
    # The time of its inode moved, so somebody may have meant it.
    (file,) = verisum.repair(
        tree, catalog=catalog, sources="s3://photos/2024", keep_bad=tmp_path / "bad", hosts=store.hosts
    )
    assert file.outcome == "repaired" and file.source == "s3://photos/2024/07.raw"
    assert (tree / "07.raw").read_bytes() == (photos / "2024" / "07.raw").read_bytes()


def test_a_copy_on_a_host(photos: Path, ssh_config: Path, tmp_path: Path) -> None:
    hosts = verisum.Hosts(ssh_config=ssh_config)
    copied = verisum.copy(photos, f"web1:{tmp_path}/there", hosts=hosts).finish()
    assert (copied.copied, copied.failed) == (21, 0)
    assert verisum.compare(photos, tmp_path / "there").finish()["same"] == 21


def test_images(store: Store, photos: Path, tmp_path: Path) -> None:
    image = photos / "disk.img"
    image.write_bytes(b"boot" + bytes(5_000_000) + b"end" * 100_001)
    here = verisum.image_sum(image)
    there = verisum.image_sum("s3://photos/disk.img", hosts=store.hosts)
    assert (there.digest, there.length, there.padded) == (here.digest, here.length, here.padded)
    exact = verisum.image_sum("s3://photos/disk.img", "blake3", exact=True, hosts=store.hosts)
    assert exact.digest == verisum.image_sum(image, "blake3", exact=True).digest != here.digest
    made = verisum.BlockMap.create(tmp_path / "disk.map", "s3://photos/disk.img", hosts=store.hosts)
    assert made.root == here.digest
    with open(image, "r+b") as file:
        file.seek(70_000)
        file.write(b"more")
    changed = made.update(tmp_path / "new.map", "s3://photos/disk.img", [(70_000, 70_004)], hosts=store.hosts)
    assert changed.root == verisum.image_sum(image).digest and made.differences(changed) == [(65536, 131072)]
    with pytest.raises(verisum.ImageError, match="s3://photos/none.img: open: No such file") as raised:
        verisum.image_sum("s3://photos/none.img", hosts=store.hosts)
    assert raised.value.path == "s3://photos/none.img"
    down = verisum.Hosts(endpoint="http://127.0.0.1:1", region="us-east-1", timeout=1)
    with pytest.raises(verisum.HostError):
        verisum.BlockMap.create(tmp_path / "no.map", "s3://photos/disk.img", hosts=down)
    assert not (tmp_path / "no.map").exists()
    # Objects of pathlib are always paths of this machine.
    with pytest.raises(verisum.ImageError):
        verisum.image_sum(Path("s3://photos/disk.img"), hosts=store.hosts)


def test_no_such_bucket(store: Store) -> None:
    (row,) = verisum.hash_files("s3://nosuchbucket/x", hosts=store.hosts)
    assert isinstance(row.error, verisum.HostError) and "bucket" in str(row.error)


def test_a_missing_tool_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("true", "1"):
        monkeypatch.setenv("CI", value)
        with pytest.raises(pytest.fail.Exception, match="NOT TESTED: no tool"):
            loud_skip("no tool")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: no tool"):
        loud_skip("no tool")
