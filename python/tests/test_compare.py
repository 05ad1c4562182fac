"""`compare` against the command, over trees of this machine and of others."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import verisum
from conftest import COMMAND
from interrupted import ctrl_c

EMPTY = {"differ": 0, "missing": 0, "extra": 0, "unreadable": 0, "unknown": 0, "unlisted": 0, "unrecorded": 0}


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    a, b = tmp_path / "a", tmp_path / "b"
    (a / "sub").mkdir(parents=True)
    for number in range(20):
        (a / "sub" / f"{number}").write_bytes(bytes([number]) * number * 100)
    shutil.copytree(a, b)
    (b / "sub" / "7").write_bytes(b"\0" * 700)
    (b / "sub" / "8").write_bytes(b"longer" * 800)
    (b / "sub" / "9").unlink()
    (b / "more").write_text("more")
    with open(os.fsencode(a) + b"/\xff", "wb") as file:
        file.write(b"no utf-8")
    return a, b


COUNTS = ("same", "differ", "missing", "extra", "unreadable", "unknown", "unrecorded")


def command(a: Path | str, b: Path | str) -> tuple[list[tuple[str, str]], dict[str, int]]:
    said = subprocess.run([COMMAND, "compare", "--json", a, b], capture_output=True)
    assert said.returncode in (0, 1), said.stderr
    *lines, last = map(json.loads, said.stdout.splitlines())
    return [(line["path"], line["outcome"]) for line in lines], {key: last[key] for key in COUNTS}


@pytest.mark.parametrize("prefix", ["", "local:"])
def test_it_finds_what_the_command_finds(trees: tuple[Path, Path], prefix: str) -> None:
    a, b = trees
    compared = verisum.compare(a, f"{prefix}{b}")
    assert compared.summary is None
    found = [(difference.name_bytes.decode(errors="replace"), difference.outcome) for difference in compared]
    lines, summary = command(a, f"{prefix}{b}")
    assert found == lines and len(found) == 5
    assert compared.summary == {**summary, "unlisted": 0} and compared.class_ == "mismatch"
    assert compared.finish() == compared.summary


def test_what_a_difference_tells(trees: tuple[Path, Path]) -> None:
    a, b = trees
    found = {difference.name: difference for difference in verisum.compare(a, b)}
    differs = found["sub/7"]
    assert differs.outcome == "differs" and differs.class_ == "mismatch" and differs.error is None
    assert differs.a is not None and differs.b is not None
    assert differs.a.digest == verisum.new("sha256", bytes([7]) * 700).digest()
    assert differs.b.digest == verisum.new("sha256", b"\0" * 700).digest()
    assert differs.a.mtime_ns == os.stat(a / "sub" / "7").st_mtime_ns
    # Sizes tell, so nothing was read.
    longer = found["sub/8"]
    assert longer.a is not None and longer.b is not None
    assert (longer.a.size, longer.b.size, longer.a.digest) == (800, 4800, None)
    assert found["sub/9"].outcome == "missing" and found["sub/9"].b is None
    assert found["more"].outcome == "extra" and found["more"].a is None
    assert os.fsencode(found[os.fsdecode(b"\xff")].name) == b"\xff"


def test_equal_trees(trees: tuple[Path, Path]) -> None:
    a, _ = trees
    assert verisum.compare(a, a, "blake3").finish() == {**EMPTY, "same": 21}
    assert verisum.compare(a / "sub" / "7", a / "sub" / "7").finish() == {**EMPTY, "same": 1}


def test_a_tree_that_is_not_there_never_looks_the_same(trees: tuple[Path, Path]) -> None:
    a, _ = trees
    compared = verisum.compare(a / "none", a / "none")
    outcomes = [(difference.outcome, difference.class_) for difference in compared]
    assert outcomes == [("unlisted", "unchecked")] * 2
    assert compared.summary == {**EMPTY, "same": 0, "unlisted": 2} and compared.class_ == "unchecked"


def test_a_real_host(trees: tuple[Path, Path], ssh_config: Path) -> None:
    a, b = trees
    hosts = verisum.Hosts(ssh_config=ssh_config)
    found = [(difference.name, difference.outcome) for difference in verisum.compare(f"web1:{a}", b, hosts=hosts)]
    assert found == [(difference.name, difference.outcome) for difference in verisum.compare(a, b)]
    with pytest.raises(verisum.HostError, match="down: connect"):
        verisum.compare(a, f"down:{b}", hosts=verisum.Hosts(ssh_config=ssh_config, timeout=50)).finish()


def test_progress_and_its_exceptions(tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2 << 30)
        file.write(b"x" * (64 << 20))
    told: list[tuple[int, int]] = []
    verisum.compare(tmp_path, tmp_path, "sha512", progress=lambda files, bytes: told.append((files, bytes))).finish()
    assert told == sorted(told) and told[-1][0] == 2

    def fail(files: int, bytes: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError):
        verisum.compare(tmp_path, tmp_path, progress=fail).finish()


def test_ctrl_c(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        with open(tmp_path / side / "large", "wb") as file:
            file.truncate(64 << 30)
    ctrl_c(
        f"compared = verisum.compare({str(tmp_path / 'a')!r}, {str(tmp_path / 'b')!r}, 'sha512')",
        "compared.finish()",
        "assert list(compared) == []",
    )


def test_quick_takes_files_of_one_size_and_time_for_the_same(trees: tuple[Path, Path]) -> None:
    a, b = trees
    # As long as the other, and as old: only reading tells.
    old = os.stat(a / "sub" / "7")
    os.utime(b / "sub" / "7", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert "7" in {Path(found.name).name for found in verisum.compare(a, b)}
    quick = verisum.compare(a, b, quick=True)
    assert {Path(os.fsdecode(found.name_bytes)).name for found in quick} == {"8", "9", "more", "\udcff"}
    assert quick.summary is not None and quick.summary["same"] == 18
    # Another time is no proof of another content.
    os.utime(b / "sub" / "6")
    again = verisum.compare(a, b, quick=True).finish()
    assert again == quick.summary


def test_the_odd_one_of_three(trees: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = trees
    c = tmp_path / "c"
    shutil.copytree(a, c)
    (c / "more").write_text("more")
    (c / "sub" / "3").write_bytes(b"x" * 300)
    compared = verisum.compare(a, b, c=c)
    found = {difference.name: difference for difference in compared}
    assert {name: found[name].odd for name in ("sub/7", "sub/8", "sub/3")} == {"sub/7": "b", "sub/8": "b", "sub/3": "c"}
    assert (found["more"].outcome, found["more"].odd, found["more"].a) == ("extra", None, None)
    assert (found["sub/9"].outcome, found["sub/9"].b) == ("missing", None)
    third = found["sub/3"].c
    assert third is not None and third.digest == verisum.new("sha256", b"x" * 300).digest()
    said = subprocess.run([COMMAND, "compare", "--json", a, b, c], stdout=subprocess.PIPE)
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    told = {line["path"]: line.get("odd") for line in lines if line["type"] == "file"}
    assert {name.encode(errors="surrogateescape").decode(errors="replace"): one.odd for name, one in found.items()} == told
    with pytest.raises(ValueError, match="third tree"):
        verisum.compare(a, b, c=c, quick=True)


def test_which_copy_is_the_recorded_one(trees: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = trees
    compared = verisum.compare(a, b)
    assert {found.as_recorded for found in compared if found.outcome == "differs"} == {"unknown"}
    assert compared.summary is not None and compared.summary["unrecorded"] == 2
    # A list, in a digest of its own.
    sums = tmp_path / "MD5SUMS"
    sums.write_text(f"{verisum.new('md5', bytes([7]) * 700).hexdigest()}  sub/7\n")
    compared = verisum.compare(a, b, sums=sums)
    found = {difference.name: difference for difference in compared}
    assert (found["sub/7"].as_recorded, found["sub/8"].as_recorded) == ("a", "unknown")
    assert found["sub/7"].a is not None and found["sub/7"].a.as_recorded == "yes"
    assert found["sub/7"].b is not None and found["sub/7"].b.as_recorded == "no"
    assert compared.class_ == "mismatch"
    # A catalogue, which knows the second tree only.
    catalog = tmp_path / "c.db"
    verisum.scrub(b, catalog=catalog).finish()
    found = {difference.name: difference for difference in verisum.compare(a, b, catalog=catalog)}
    assert (found["sub/7"].as_recorded, found["sub/8"].as_recorded) == ("b", "b")
    # Tags, without a word.
    verisum.tag(a / "sub" / "7").finish()
    assert {found.name: found.as_recorded for found in verisum.compare(a, b)}["sub/7"] == "a"
    both = {found.name: found.as_recorded for found in verisum.compare(a, b, catalog=catalog)}
    assert both["sub/7"] == "both"


def test_records_stand_for_reading(trees: tuple[Path, Path], tmp_path: Path) -> None:
    a, _ = trees
    b = tmp_path / "other"
    shutil.copytree(a, b, copy_function=shutil.copyfile)
    catalog = tmp_path / "c.db"
    for tree in (a, b):
        verisum.scrub(tree, catalog=catalog).finish()
    compared = verisum.compare(a, b, quick=True, catalog=catalog)
    assert list(compared) == [] and compared.settled is not None
    assert (compared.settled["records"], compared.settled["read"]) == (21, 0)
    without = verisum.compare(a, b, quick=True)
    assert without.finish()["same"] == 21
    assert without.settled is not None and without.settled["read"] > 0


def test_a_line_of_a_list_that_is_of_no_use_is_unchecked(trees: tuple[Path, Path], tmp_path: Path) -> None:
    a, _ = trees
    sums = tmp_path / "SUMS"
    sums.write_text("neither a digest nor a name\n")
    compared = verisum.compare(a, a, sums=sums)
    assert compared.finish()["same"] == 21 and compared.class_ == "unchecked"
    with pytest.raises(verisum.FileError, match="none"):
        verisum.compare(a, a, sums=tmp_path / "none").finish()
    with pytest.raises(verisum.CatalogError):
        verisum.compare(a, a, catalog=tmp_path / "none.db").finish()


def test_more_files_than_are_asked_for_at_once(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    other = {0, 1023, 1024, 2400, 2499}
    for tree in (a, b):
        tree.mkdir()
        for number in range(2500):
            (tree / f"{number:04}").write_text("other" if tree == b and number in other else "these")
    run = verisum.compare(a, b)
    assert [int(difference.name) for difference in run] == sorted(other)
    assert run.summary is not None and run.summary["same"] == 2495
