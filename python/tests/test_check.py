"""`check` against the command: the same outcomes, counts and classes."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

import verisum
from conftest import COMMAND
from interrupted import ctrl_c

CLASSES = {0: "clean", 1: "mismatch", 3: "unchecked"}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    for number in range(20):
        (root / "sub" / f"{number}").write_bytes(bytes([number]) * number * 100)
    with open(os.fsencode(root) + b"/\xff odd", "wb") as file:
        file.write(b"no utf-8")
    monkeypatch.chdir(tmp_path)
    return root


def listed(tree: Path, *options: str) -> Path:
    path = tree.parent / "SUMS"
    with open(path, "wb") as file:
        subprocess.run([COMMAND, "sum", "-r", *options, tree.name], stdout=file, check=True)
    return path


def agrees(*words: str, lists: list[str] | str = "SUMS", **options: object) -> verisum.Check:
    """Checks in both ways."""
    names = [lists] if isinstance(lists, str) else lists
    said = subprocess.run([COMMAND, "check", "--json", *words, *names], capture_output=True)
    *lines, last = map(json.loads, said.stdout.splitlines())
    # What helps to mend bad files is the command's alone.
    lines = [line for line in lines if line["type"] != "alarm"]
    checked = verisum.check(lists, **options)  # type: ignore[arg-type]
    rows = list(checked)
    mine = [(row.name_bytes.decode(errors="replace"), row.outcome) for row in rows if row.name]
    assert mine == [(line["path"], line["outcome"]) for line in lines]
    for row, line in zip((row for row in rows if row.name), lines):
        assert row.line == line.get("line") and (row.list is None or row.list.endswith(line["list"]))
        found = [(a, b.hex(), None if c is None else c.hex()) for a, b, c in row.digests]
        states = [line.get(state, {}) for state in ("listed", "found")]
        theirs = [state.get("digests", {}) for state in states]
        assert found == [(name, value, theirs[1].get(name)) for name, value in theirs[0].items()]
        assert (row.error is not None) == (row.outcome in ("missing", "unreadable"))
        assert [row.listed_size, row.found_size] == [state.get("size") for state in states]
    assert checked.summary is not None
    # Here a bag is valid if that is how it ended.
    assert last.pop("valid", None) in (None, checked.class_ == "clean")
    told = {key: checked.summary[key] for key in last if key in checked.summary}
    assert last == {"version": 1, "type": "summary", **told}
    assert checked.class_ == CLASSES[said.returncode], said.stderr
    return checked


@pytest.mark.parametrize("options", [(), ("--format", "bsd"), ("-a", "md5", "--format", "hashdeep")])
def test_good_files(tree: Path, options: tuple[str, ...]) -> None:
    listed(tree, *options)
    checked = agrees()
    assert checked.finish()["verified"] == 21 and checked.class_ == "clean"


def test_a_digest_that_the_list_does_not_tell(tree: Path) -> None:
    listed(tree, "-a", "blake3")
    assert agrees("-a", "blake3", algorithm="blake3").class_ == "clean"
    # Small files tell what the list leaves open, and an algorithm that is named decides.
    assert agrees().class_ == "clean"
    assert agrees("-a", "sha256", algorithm="sha256").class_ == "mismatch"


def test_digests_are_bytes_and_other_systems_write_more_of_some(tree: Path) -> None:
    part = 1024
    listed(tree, "--format", "json", "-a", "s3-etag:1K,ipfs")
    lines = [json.loads(line) for line in (tree.parent / "SUMS").read_text().splitlines()]
    theirs = {line["path"]: line["digests"] for line in lines}
    rows = list(verisum.hash_files("tree", ["s3-etag:1K", "ipfs"]))
    for row in rows:
        etag, cid = row.digests
        count = f"-{-(-row.size // part)}" if row.size > part else ""
        text = {
            "s3-etag:1K": f"{etag.hex()}{count}",
            "ipfs": "b" + base64.b32encode(cid).decode().lower().rstrip("="),
        }
        assert theirs[row.path_bytes.decode(errors="replace")] == text
    assert len(rows) == 21
    whole = verisum.new("md5", (tree / "sub" / "19").read_bytes())
    twice = verisum.new("md5", whole.digest())
    (tree.parent / "SUMS").write_text(f"s3-etag:1K (tree/sub/19) = {twice.hexdigest()}-1\n")
    (checked,) = verisum.check("SUMS")
    (digest,) = checked.digests
    assert checked.outcome == "ok"
    assert tuple(digest) == ("s3-etag:1K", twice.digest(), twice.digest())


def test_bad_missing_and_other_files(tree: Path) -> None:
    listed(tree)
    (tree / "sub" / "3").write_bytes(b"flipped")
    (tree / "sub" / "4").unlink()
    (tree / "sub" / "5").unlink()
    (tree / "sub" / "5").mkdir()
    (tree / "sub" / "more").touch()
    agrees()
    agrees("--ignore-missing", ignore_missing=True)
    agrees("--strict-tree", "tree", strict_tree="tree")
    agrees("--strict-tree", "tree", "--exclude", "mo*", strict_tree="tree", exclude=["mo*"])
    left = agrees("--exclude", "/tree/sub/[345]", exclude="/tree/sub/[345]")
    assert left.class_ == "clean" and left.finish()["left_out"] == 3
    (row,) = [row for row in verisum.check("SUMS") if row.outcome == "missing"]
    assert isinstance(row.error, verisum.FileError) and isinstance(row.error.__cause__, FileNotFoundError)
    assert row.class_ == "unchecked" and row.name == "tree/sub/4" and row.host is None
    (bad,) = [row for row in verisum.check("SUMS") if row.outcome == "failed"]
    assert bad.digests[0][2] == verisum.new("sha256", b"flipped").digest()


def test_lengths_tell_without_reading(tree: Path) -> None:
    listed(tree, "--format", "hashdeep")
    (tree / "sub" / "3").write_bytes(b"another length")
    assert agrees().class_ == "mismatch"


def test_lines_and_lists_that_cannot_be_read(tree: Path) -> None:
    path = listed(tree)
    good = path.read_bytes()
    path.write_bytes(b"nonsense\n" + good + b"NOSUCH (tree/sub/1) = 00ff\n")
    agrees()
    agrees("--strict", strict=True)
    outcomes = [row.outcome for row in verisum.check("SUMS") if not row.name]
    assert outcomes == ["bad-line", "unknown-digest"]
    for content in (b"", b"nonsense\n", b"# only a comment\n"):
        path.write_bytes(content)
        assert agrees().class_ == "mismatch"
    path.write_bytes(good)
    (row,) = verisum.check("none")
    assert (row.outcome, row.class_, row.list) == ("unreadable-list", "unchecked", "none")
    assert isinstance(row.error, verisum.FileError) and isinstance(row.error.__cause__, FileNotFoundError)
    both = verisum.check(["none", path])
    assert both.finish()["verified"] == 21 and both.class_ == "unchecked"
    nothing: list[Path] | dict[Path, int]
    for nothing in ([], {}):
        with pytest.raises(ValueError, match="lists: none"):
            verisum.check(nothing)


def test_bases_and_bags(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(tree)
    monkeypatch.chdir("/")
    sums = str(tmp_path / "SUMS")
    agrees("-C", str(tmp_path), lists=sums, base=tmp_path)
    bag = tmp_path / "bag"
    (bag / "data").mkdir(parents=True)
    (bag / "bagit.txt").write_text("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    (bag / "data" / "a").write_text("a")
    digest = verisum.new("sha256", b"a").hexdigest()
    (bag / "manifest-sha256.txt").write_text(f"{digest}  data/a\n")
    assert agrees(lists=str(bag)).class_ == "clean"
    (bag / "data" / "b").write_text("b")
    assert agrees(lists=str(bag)).class_ == "mismatch"


@pytest.mark.parametrize("place", ["local:.", "web1:{}"])
def test_files_of_hosts(tree: Path, place: str, ssh_config: Path) -> None:
    path = listed(tree, "-a", "sha1")
    (tree / "sub" / "3").write_bytes(b"flipped")
    (tree / "sub" / "4").unlink()
    hosts = verisum.Hosts(ssh_config=ssh_config)
    checked = verisum.check(path, place.format(tree.parent), hosts=hosts)
    outcomes = {row.name: row.outcome for row in checked}
    assert outcomes == {row.name: row.outcome for row in verisum.check(path)}
    assert checked.summary == verisum.check(path).finish() and checked.class_ == "mismatch"
    with pytest.raises(ValueError, match="must be an address"):
        verisum.check(path, str(tree))
    with pytest.raises(ValueError, match="base: not for files on other machines"):
        verisum.check(path, place.format(tree.parent), base=tree)
    with pytest.raises(ValueError, match="one list"):
        verisum.check([path, path], place.format(tree.parent))


def test_a_host_that_is_down(tree: Path, ssh_config: Path) -> None:
    path = listed(tree)
    with pytest.raises(verisum.HostError, match="down: connect"):
        verisum.check(path, "down:/", hosts=verisum.Hosts(ssh_config=ssh_config, timeout=50)).finish()


def test_progress_closing_and_ctrl_c(tree: Path) -> None:
    with open(tree / "large", "wb") as file:
        file.truncate(256 << 20)
    path = listed(tree)
    told: list[tuple[int, int]] = []
    verisum.check(path, progress=lambda files, bytes: told.append((files, bytes))).finish()
    assert told == sorted(told) and told[-1] == (22, sum(f.stat().st_size for f in tree.rglob("*") if f.is_file()))
    with verisum.check(path) as rows:
        next(rows)
    assert list(rows) == [] and rows.summary is None

    def fail(files: int, bytes: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError):
        verisum.check(path, limit=1000, progress=fail).finish()
    ctrl_c(
        f"os.chdir({str(tree.parent)!r}); check = verisum.check('SUMS', limit=1000)", "check.finish()", delay=0.5
    )


def test_block_hashes_of_images_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("disk.img").write_bytes(os.urandom(300_000))
    Path("bad.img").write_bytes(os.urandom(300_000))
    ways = [["disk.img"], ["--exact", "-a", "blake3", "disk.img"], ["--block-size", "4096", "disk.img", "bad.img"]]
    with open("SUMS", "wb") as file:
        for way in ways:
            subprocess.run([COMMAND, "image", "sum", *way], stdout=file, check=True)
    assert agrees().class_ == "clean"
    Path("bad.img").write_bytes(os.urandom(300_000))
    assert agrees().class_ == "mismatch"
    (bad,) = (row for row in verisum.check("SUMS") if row.outcome == "failed")
    assert bad.name == "bad.img" and bad.digests[0][2] == verisum.image_sum("bad.img", block_size=4096).digest
    Path("bad.img").unlink()
    assert agrees().class_ == "unchecked"
