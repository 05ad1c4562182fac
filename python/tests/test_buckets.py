"""Buckets of a real server of S3: every function beside the same files here."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

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


def test_no_such_bucket(store: Store) -> None:
    (row,) = verisum.hash_files("s3://nosuchbucket/x", hosts=store.hosts)
    assert isinstance(row.error, verisum.HostError) and "bucket" in str(row.error)


def test_a_missing_tool_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="NOT TESTED: no tool"):
        loud_skip("no tool")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: no tool"):
        loud_skip("no tool")
