"""`tag`, `verify`, `untag` and `list_tags`, beside what the command says of the same files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

import verisum
from conftest import COMMAND, flip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    for number in range(8):
        (root / str(number)).write_bytes(bytes([number]) * 5000)
    return root


def test_tags_are_those_of_the_command(tree: Path) -> None:
    assert verisum.tag(tree, dry_run=True).finish() == {"tagged": 8}
    assert list(verisum.list_tags(tree)) == []
    seen: list[tuple[int, int]] = []
    tagging = verisum.tag(tree, progress=lambda files, size: seen.append((files, size)))
    assert {finding.outcome for finding in tagging} == {"tagged"}
    assert (tagging.summary, tagging.class_) == ({"tagged": 8}, "clean")
    assert seen[-1] == (8, 40_000)
    assert verisum.tag(tree).finish() == {"current": 8}
    tags = {finding.path: finding for finding in verisum.list_tags(tree)}
    said = subprocess.run([COMMAND, "tags", "list", "--json", tree], capture_output=True, check=True)
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    told = {line["path"]: line["recorded"]["digest"] for line in lines if line["type"] == "tag"}
    assert {path: finding.hexdigest for path, finding in tags.items()} == told
    (one,) = (finding for path, finding in tags.items() if path.endswith("/3"))
    assert one.digest == hashlib.sha256(bytes([3]) * 5000).digest()
    assert (one.algorithm, one.size, one.outcome, one.class_) == ("sha256", 5000, "current", "clean")
    assert one.verified_ms is not None and one.found is None and one.error is None
    # The command agrees.
    subprocess.run([COMMAND, "verify", tree], check=True, capture_output=True)


def test_rot_is_found(tree: Path) -> None:
    verisum.tag(tree).finish()
    flip(tree / "3")
    (tree / "4").write_bytes(b"written")
    verifying = verisum.verify(tree)
    found = {Path(finding.path).name: finding for finding in verifying if finding.outcome != "ok"}
    assert found["4"].outcome == "modified"
    # The time of the inode moved: somebody may have done it.
    assert found["3"].outcome in ("rot", "suspicious") and found["3"].class_ == "corrupt"
    assert found["3"].found == hashlib.sha256((tree / "3").read_bytes()).digest() != found["3"].digest
    assert verifying.class_ == "corrupt" and set(found) == {"3", "4"}
    assert verisum.verify(tree, max_age=3600).finish() == {"not-due": 8}
    assert verisum.tag(tree, new_only=True).finish().get("updated") is None
    assert verisum.tag(tree).finish()["updated"] == 1


def test_tags_go(tree: Path) -> None:
    verisum.tag(tree, "blake3").finish()
    assert verisum.untag(tree, "sha256").finish().get("removed") is None
    assert verisum.untag(tree).finish()["removed"] == 8
    assert verisum.verify(tree).finish() == {"untagged": 8}


def test_what_is_wrong_is_told(tree: Path) -> None:
    with pytest.raises(ValueError, match="no place"):
        verisum.tag(tree, "openssl:SHA2-256")
    with pytest.raises(ValueError, match="sample"):
        verisum.verify(tree, sample=0)
    (finding,) = verisum.tag(tree / "none")
    assert isinstance(finding.error, verisum.FileError) and finding.class_ != "clean"
    with verisum.tag([tree, os.fsencode(tree)]) as tagging:
        next(tagging)


def test_tags_of_one_digest_become_tags_of_another(tree: Path) -> None:
    verisum.tag(tree, "md5").finish()
    flip(tree / "3")
    assert verisum.retag(tree, "md5", "sha256", dry_run=True).finish() == {"retagged": 7, "rot": 1}
    retagging = verisum.retag(tree, "md5", "sha256")
    assert (retagging.finish(), retagging.class_) == ({"retagged": 7, "rot": 1}, "corrupt")
    kept = {Path(finding.path).name: finding.algorithm for finding in verisum.list_tags(tree)}
    assert kept == {str(number): "md5" if number == 3 else "sha256" for number in range(8)}
    for wrong in ("md5", "no-such"):
        with pytest.raises(ValueError):
            verisum.retag(tree, "md5", wrong)


def test_digests_of_other_tools_are_adopted(tree: Path) -> None:
    seconds, below = divmod(os.stat(tree / "0").st_mtime_ns, 1_000_000_000)
    os.setxattr(tree / "0", "user.shatag.sha256", hashlib.sha256(bytes(5000)).hexdigest().encode())
    os.setxattr(tree / "0", "user.shatag.ts", f"{seconds}.{below:09}".encode())
    assert verisum.status(tree).adoptable == {"shatag": 1}
    assert verisum.adopt(tree, verify=True, dry_run=True).finish() == {"adopted": 1, "untagged": 7}
    assert verisum.status(tree).current == 0
    assert verisum.adopt(tree, verify=True).finish() == {"adopted": 1, "untagged": 7}
    assert verisum.verify(tree / "0").finish() == {"ok": 1}


def test_the_status_is_that_of_the_command(tree: Path) -> None:
    verisum.tag(tree / "0", "md5").finish()
    verisum.tag([tree / "1", tree / "2"]).finish()
    (tree / "2").write_bytes(b"written to")
    status = verisum.status(tree)
    said = subprocess.run([COMMAND, "status", "--json", tree], capture_output=True, check=True)
    told = json.loads(said.stdout)
    names = ["current", "outdated", "resized", "untimed", "damaged", "unknown", "untagged", "unreadable"]
    names += ["tagged_bytes", "untagged_bytes", "by_digest", "adoptable", "unverified"]
    assert {name: getattr(status, name) for name in names} == {name: told[name] for name in names}
    assert (status.current, status.outdated, status.untagged, status.by_digest) == (2, 1, 5, {"md5": 1, "sha256": 2})
    assert status.oldest_verified_ms is not None and status.stale == 0
    assert verisum.status(tree, older_than=1000).stale == 0
    # Tags have whole seconds.
    while verisum.status(tree, older_than=0).stale < 3:
        time.sleep(0.1)
