"""Bags of the command are valid for bagit-python, and those of bagit-python for the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bagit
import pytest

import verisum

COMMAND = Path(sys.executable).parent / "verisum"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def tree(folder: Path) -> None:
    (folder / "a b").mkdir(parents=True)
    (folder / "data").mkdir()
    for name, length in [("one", 3), ("a b/two", 70_000), ("a b/per%cent", 0), ("data/ünï", 10), ("new\nline", 1)]:
        (folder / name).write_bytes(b"x" * length)


def test_bagit_python_finds_our_bags_valid(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    tree(bag)
    made = run("bag", "create", "-a", "sha256,sha512", "--info", "Contact-Name: Ada: the first", bag)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == f"{bag}: bag of 5 files, 68.4 KiB (sha256, sha512)\n"
    theirs = bagit.Bag(str(bag))
    theirs.validate(processes=1)
    assert theirs.info["Payload-Oxum"] == "70014.5"
    assert theirs.info["Contact-Name"] == "Ada: the first"
    assert sorted(theirs.algorithms) == ["sha256", "sha512"]
    assert run("check", bag).stderr.startswith("verisum: the bag is valid: ")
    (bag / "data" / "one").write_bytes(b"yyy")
    with pytest.raises(bagit.BagValidationError):
        bagit.Bag(str(bag)).validate()
    ended = run("check", bag)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("verisum: the bag is NOT valid: ")


def test_the_command_finds_theirs_valid(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    tree(bag)
    bagit.make_bag(str(bag), checksums=["md5", "sha512"])
    ended = run("check", bag)
    assert (ended.returncode, ended.stderr.splitlines()[-1][:29]) == (0, "verisum: the bag is valid: 18")


def test_a_bag_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "one").write_bytes(b"one")
    (folder / "sub" / "two").write_bytes(b"two" * 1000)
    made = verisum.create_bag(folder, ["sha256", "md5"], info=[("Source-Organization", "Example")])
    assert (made.files, made.bytes) == (2, 3003)
    bag = bagit.Bag(str(folder))
    assert bag.is_valid() and bag.info["Source-Organization"] == "Example"
    assert (folder / "manifest-sha256.txt").exists() and (folder / "manifest-md5.txt").exists()
    checked = verisum.check(folder)
    assert checked.finish()["failed"] == 0 and checked.class_ == "clean"
    with pytest.raises(verisum.FileError, match="is a bag already"):
        verisum.create_bag(folder)
    # Without its list nobody knows what is extra.
    (folder / "manifest-sha256.txt").unlink()
    (folder / "manifest-md5.txt").unlink()
    broken = verisum.check(folder)
    assert {row.outcome for row in broken} >= {"unreadable-list", "missing"} and broken.class_ == "unchecked"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "link").symlink_to("nowhere")
    with pytest.raises(verisum.FileError, match="cannot hold"):
        verisum.create_bag(tmp_path / "linked")
    with pytest.raises(ValueError, match="info"):
        verisum.create_bag(tmp_path / "linked", info=[("a:b", "c")])
