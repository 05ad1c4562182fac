"""`repair` over files that really rotted, beside what the command says of them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import verisum
from conftest import COMMAND
from test_scrub import rot


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with a copy, of which two files are bad and one is missing."""
    root = tmp_path / "tree"
    root.mkdir()
    for number in range(10):
        (root / str(number)).write_bytes(bytes([number]) * 5000)
    subprocess.run(["cp", "-a", root, tmp_path / "copy"], check=True)
    verisum.scrub(root, catalog=tmp_path / "c.db").finish()
    rot(root / "3")
    rot(root / "4")
    os.remove(root / "5")
    verisum.scrub(root, catalog=tmp_path / "c.db").finish()
    return root


def test_what_is_bad_or_missing_comes_back(tree: Path, tmp_path: Path) -> None:
    catalog, copy, bad = tmp_path / "c.db", tmp_path / "copy", tmp_path / "bad"
    bad.mkdir()
    told = {file.path: file for file in verisum.repair(tree, catalog=catalog, sources=copy, dry_run=True)}
    assert {file.outcome for file in told.values()} == {"mendable"}
    said = subprocess.run(
        [COMMAND, "repair", "--json", "-n", "--catalog", catalog, "--from", copy, tree],
        stdout=subprocess.PIPE,
    )
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    assert {line["path"] for line in lines if line["type"] == "file"} == set(told)

    run = verisum.repair(tree, catalog=catalog, sources=copy, keep_bad=bad)
    assert run.summary is None
    files = {Path(file.path).name: file for file in run}
    assert {name: file.outcome for name, file in files.items()} == {"3": "repaired", "4": "repaired", "5": "repaired"}
    assert (files["5"].was, files["5"].source, files["5"].size) == ("missing", str(tmp_path / "copy" / "5"), 5000)
    assert files["3"].digest == verisum.new("sha256", bytes([3]) * 5000).digest()
    assert run.summary is not None and (run.summary.repaired, run.summary.bytes) == (3, 15000)
    for number in range(10):
        assert (tree / str(number)).read_bytes() == bytes([number]) * 5000
    assert len(os.listdir(tmp_path / "bad")) == 2
    assert verisum.scrub(tree, catalog=tmp_path / "c.db").finish().class_ == "clean"


def test_without_a_good_copy_a_file_stays_as_it_is(tree: Path, tmp_path: Path) -> None:
    rot(tmp_path / "copy" / "3")
    bad = (tree / "3").read_bytes()
    (tmp_path / "bad").mkdir()
    with verisum.repair(
        tree / "3", catalog=tmp_path / "c.db", sources=[tmp_path / "copy" / "3"], keep_bad=tmp_path / "bad"
    ) as run:
        (file,) = run
    assert file.outcome == "no-source"
    assert [path for path, _ in file.tried] == [str(tmp_path / "copy" / "3")]
    assert (tree / "3").read_bytes() == bad


def test_the_trees_of_the_catalogue_are_searched(tree: Path, tmp_path: Path) -> None:
    verisum.scrub(tmp_path / "copy", catalog=tmp_path / "c.db").finish()
    assert verisum.repair(tree, catalog=tmp_path / "c.db", leave_missing=True, dry_run=True).finish().mendable == 2
    summary = verisum.repair(tree / "5", catalog=tmp_path / "c.db").finish()
    assert (summary.repaired, summary.left) == (1, 0)


def test_errors_have_their_classes(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(verisum.Error, match="repair|tree|catalogue"):
        verisum.repair("/no/such/tree", catalog=tmp_path / "c.db").finish()
    with pytest.raises(ValueError, match="null"):
        verisum.repair("a\0b", catalog=tmp_path / "c.db")
