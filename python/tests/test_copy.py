"""`copy`: every byte is hashed, compared with its record and read back."""

import hashlib
import os
from pathlib import Path

import pytest

import verisum


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "one").write_bytes(b"one" * 100_000)
    (tree / "sub" / "two").write_bytes(b"two")
    os.link(tree / "one", tree / "sub" / "link")
    (tree / "symbolic").symlink_to("one")
    return tree


def test_a_tree_is_copied_and_goes_on(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    copying = verisum.copy(tree, target, algorithm="blake2b-256")
    copied = {file.name: file for file in copying}
    assert sorted(copied) == ["one", "sub/link", "sub/two", "symbolic"]
    assert sorted(file.outcome for file in copied.values()) == ["copied", "copied", "linked", "made"]
    two = copied["sub/two"]
    digest = hashlib.blake2b(b"two", digest_size=32).hexdigest()
    assert (two.hexdigests, two.size, two.is_problem) == ({"blake2b-256": digest}, 3, False)
    assert two.mismatch is None and two.error is None
    summary = copying.summary
    assert summary is not None and (summary.copied, summary.linked, summary.made) == (2, 1, 1)
    assert (target / "sub" / "two").read_bytes() == b"two"
    assert (target / "one").stat().st_ino == (target / "sub" / "link").stat().st_ino
    again = verisum.copy(tree, target, verify="none").finish()
    assert (again.copied, again.current, again.failed, again.gave_up) == (0, 4, 0, False)


def test_rot_is_not_copied(tree: Path, tmp_path: Path) -> None:
    catalog = tmp_path / "c.db"
    verisum.scrub(tree, catalog=catalog).finish()
    path = tree / "sub" / "two"
    seen = path.stat()
    path.write_bytes(b"TWO")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    copying = verisum.copy(tree, tmp_path / "target", catalog=catalog)
    [bad] = [file for file in copying if file.is_problem]
    assert bad.mismatch == (hashlib.sha256(b"two").hexdigest(), hashlib.sha256(b"TWO").hexdigest())
    assert not (tmp_path / "target" / "sub" / "two").exists()
    assert verisum.copy(tree, tmp_path / "target", catalog=catalog, allow_bad=True).finish().bad == 1
    assert (tmp_path / "target" / "sub" / "two").exists()


def test_files_of_another_place_are_copied(tree: Path, tmp_path: Path) -> None:
    copying = verisum.copy(f"local:{tree}", tmp_path / "target", hosts=verisum.Hosts(way="coreutils"))
    copied = {file.name: file.outcome for file in copying}
    assert copied == {"one": "copied", "sub/link": "copied", "sub/two": "copied"}
    for name in copied:
        assert (tmp_path / "target" / name).read_bytes() == (tree / name).read_bytes()
        assert (tmp_path / "target" / name).stat().st_mtime_ns == (tree / name).stat().st_mtime_ns
    assert verisum.copy(f"local:{tree}", tmp_path / "target").finish().current == 3
    assert verisum.copy(f"local:{tree}/sub", tmp_path / "sub").finish().copied == 2
    with pytest.raises(ValueError, match="update: not for files on other machines"):
        verisum.copy(f"local:{tree}", tmp_path / "target", update=True)


def test_what_is_wrong_is_told(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(verisum.FileError):
        verisum.copy(tmp_path / "nowhere", tmp_path / "target").finish()
    with pytest.raises(verisum.FileError, match="is in"):
        verisum.copy(tree, tree / "sub").finish()
    (tmp_path / "target" / "sub" / "two").mkdir(parents=True)
    [failed] = [file for file in verisum.copy(tree, tmp_path / "target") if file.outcome == "failed"]
    assert isinstance(failed.error, verisum.FileError) and "in the way" in str(failed.error)
    with pytest.raises(ValueError, match="verify"):
        verisum.copy(tree, tmp_path / "target", verify="perhaps")  # type: ignore[arg-type]
    with pytest.raises(verisum.DigestError):
        verisum.copy(tree, tmp_path / "target", algorithm="md6")


def test_an_early_end_leaves_whole_files(tree: Path, tmp_path: Path) -> None:
    for number in range(300):
        (tree / f"file {number}").write_bytes(bytes([number % 256]) * 5_000)
    with verisum.copy(tree, tmp_path / "target", threads=2) as copying:
        next(copying)
    for path in (tmp_path / "target").rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert path.read_bytes() == (tree / path.relative_to(tmp_path / "target")).read_bytes()
    assert verisum.copy(tree, tmp_path / "target").finish().failed == 0


def test_digests_of_copies_are_listed(tree: Path, tmp_path: Path) -> None:
    sums = tmp_path / "SUMS"
    target = tmp_path / "target"
    assert verisum.copy(tree, target, sums=sums).finish().unlisted == 0
    checked = verisum.check(sums, base=target)
    # A file of two names has a line for each.
    assert checked.finish()["verified"] == 3 and checked.class_ == "clean"
    (tree / "three").write_bytes(b"three")
    verisum.copy(tree, target, sums=sums).finish()
    assert verisum.check(sums, base=target).finish()["verified"] == 4
    os.remove(sums)
    assert verisum.copy(tree, target, sums=sums).finish().unlisted > 0
    (tmp_path / "text").write_text("no list\n")
    with pytest.raises(verisum.FileError, match="text: write: "):
        verisum.copy(tree, target, sums=tmp_path / "text").finish()


def test_a_tree_is_copied_to_another_place(tree: Path, tmp_path: Path) -> None:
    copied = verisum.copy(tree, f"local:{tmp_path}/there").finish()
    assert (copied.copied, copied.left_out, copied.failed) == (3, 1, 0)
    for name in ("one", "sub/two", "sub/link"):
        assert (tmp_path / "there" / name).read_bytes() == (tree / name).read_bytes()
    between = verisum.copy(f"local:{tmp_path}/there", f"local:{tmp_path}/third").finish()
    assert (between.copied, between.failed, between.recorded) == (3, 0, None)
    assert (tmp_path / "third" / "sub" / "two").read_bytes() == b"two"


def test_the_catalogue_of_the_target_knows_the_copies(tree: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.db"
    # Further names of a file are left to the next scrub.
    (tree / "sub" / "link").unlink()
    assert verisum.copy(tree, tmp_path / "target", record=known).finish().recorded == 2
    summary = verisum.scrub(tmp_path / "target", catalog=known).finish()
    assert (summary.class_, summary.counts["new"]) == ("clean", 0)
    with pytest.raises(ValueError, match="record"):
        verisum.copy(tree, f"local:{tmp_path}/there", record=known)
