"""`repair` over files that really rotted, beside what the command says of them."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import verisum
from conftest import COMMAND, loud_skip
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
    # Both were found with another ctime; the third is missing.
    assert {Path(path).name for path, file in told.items() if file.needs_keep_bad} == {"3", "4"}
    refused = {Path(file.path).name: file for file in verisum.repair(tree, catalog=catalog, sources=copy, except_missing=True)}
    assert {name: file.outcome for name, file in refused.items()} == {"3": "refused", "4": "refused"}
    assert "keep_bad=DIR repairs it" in str(refused["3"].error) and "--" not in str(refused["3"].error)
    foretold = verisum.repair(tree, catalog=catalog, sources=copy, keep_bad=bad, dry_run=True)
    assert not any(file.needs_keep_bad for file in foretold)
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
    bad_digest = verisum.new("sha256", (bad / "3").read_bytes()).hexdigest()
    assert (files["3"].before_hexdigest, files["5"].before_hexdigest) == (bad_digest, None)
    assert (files["3"].bytes, files["3"].ranges, files["3"].also_from) == (5000, [(0, 4096)], [])
    assert {file.kept_unread for file in files.values()} == {0}
    assert not files["5"].has_usual_permissions and told[files["5"].path].bytes == 5000
    assert told[files["5"].path].ranges is None
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
    assert verisum.repair(tree, catalog=tmp_path / "c.db", except_missing=True, dry_run=True).finish().mendable == 2
    summary = verisum.repair(tree / "5", catalog=tmp_path / "c.db").finish()
    assert (summary.repaired, summary.left) == (1, 0)


def test_errors_have_their_classes(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(verisum.Error, match="repair|tree|catalogue"):
        verisum.repair("/no/such/tree", catalog=tmp_path / "c.db").finish()
    with pytest.raises(ValueError, match="null"):
        verisum.repair("a\0b", catalog=tmp_path / "c.db")


def test_lists_say_what_files_should_be(tree: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "verisum")
    copy, sums = tmp_path / "copy", tmp_path / "SUMS"
    rows = list(verisum.hash_files(copy))
    lines = [f"{row.hexdigest}  {os.path.basename(row.path)}\n" for row in rows]
    sums.write_text("".join(lines) + f"{'0' * 64}  ../outside\n")
    (tmp_path / "bad").mkdir()
    seen: list[tuple[int, int]] = []
    run = verisum.repair(
        tree, sums=sums, sources=copy, keep_bad=tmp_path / "bad", progress=lambda *done: seen.append(done)
    )
    files = {Path(file.path).name: file.outcome for file in run}
    assert files == {"3": "repaired", "4": "repaired", "5": "repaired"}
    assert seen[-1] == (3, 15_000)
    assert any("SUMS: line 11: " in record.getMessage() for record in caplog.records)
    for number in range(10):
        assert (tree / str(number)).read_bytes() == bytes([number]) * 5000


def test_tags_say_what_files_should_be(tree: Path, tmp_path: Path) -> None:
    verisum.tag(tmp_path / "copy").finish()
    subprocess.run(["cp", "-a", tmp_path / "copy", tmp_path / "other"], check=True)
    rot(tmp_path / "other" / "7")
    (file,) = verisum.repair(tmp_path / "other", tags=True, sources=tmp_path / "copy")
    assert file.outcome == "repaired" and file.path.endswith("/7")
    assert (tmp_path / "other" / "7").read_bytes() == bytes([7]) * 5000
    with pytest.raises(ValueError, match="one of"):
        verisum.repair(tree, catalog=tmp_path / "c.db", tags=True)
    with pytest.raises(ValueError, match="one of"):
        verisum.repair(tree)
    with pytest.raises(ValueError, match="sources"):
        verisum.repair(tree, tags=True)
    with pytest.raises(verisum.FileError, match="none: open"):
        verisum.repair(tree, sums=tmp_path / "none", sources=tmp_path / "copy").finish()


def test_a_place_that_is_right_is_the_record(tree: Path, tmp_path: Path) -> None:
    copy, bad = tmp_path / "copy", tmp_path / "bad"
    bad.mkdir()
    foretold = verisum.repair(tree, trust=copy, dry_run=True).finish()
    assert (foretold.mendable, foretold.repaired) == (3, 0)
    for trusted in (copy, f"local:{copy}"):
        run = verisum.repair(tree, trust=trusted, keep_bad=bad)
        told = {Path(file.path).name: (file.outcome, file.source) for file in run if file.outcome != "ok"}
        want = {name: ("repaired", str(copy / name)) for name in "345"} if trusted == copy else {}
        assert told == want
    for number in range(10):
        assert (tree / str(number)).read_bytes() == bytes([number]) * 5000
    with pytest.raises(ValueError, match="one of catalog, sums, tags and trust"):
        verisum.repair(tree, trust=copy, catalog=tmp_path / "c.db")
    with pytest.raises(verisum.FileError, match="none"):
        verisum.repair(tree, trust=tmp_path / "none").finish()


def test_a_scrub_repairs_by_parity_elsewhere(tmp_path: Path) -> None:
    tree, catalog, parity = tmp_path / "tree", tmp_path / "c.db", tmp_path / "parity"
    tree.mkdir()
    content = bytes(range(250)) * 400
    (tree / "a").write_bytes(content)
    verisum.scrub(tree, catalog=catalog).finish()
    verisum.Parity(tree, parity).create(redundancy=0.5).finish()
    rot(tree / "a")
    run = verisum.scrub(tree, catalog=catalog, max_age=0, repair_from=[], parity=parity, keep_bad=tmp_path).finish()
    assert [file.outcome for file in run.repaired] == ["repaired"]
    assert (tree / "a").read_bytes() == content
    with pytest.raises(ValueError, match="parity: only with repair_from"):
        verisum.scrub(tree, catalog=catalog, parity=parity)


def test_a_scrub_repairs_what_it_finds(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    summary = verisum.scrub(
        tree, catalog=tmp_path / "c.db", repair_from=tmp_path / "copy", keep_bad=tmp_path / "bad"
    ).finish()
    # What was found is told all the same, and missing files stay missing.
    assert summary.class_ == "corrupt"
    assert {Path(file.path).name: file.outcome for file in summary.repaired} == {"3": "repaired", "4": "repaired"}
    assert summary.repair is not None and summary.repair.repaired == 2
    assert (tree / "3").read_bytes() == bytes([3]) * 5000 and not (tree / "5").exists()
    again = verisum.scrub(tree, catalog=tmp_path / "c.db").finish()
    assert again.class_ == "clean" and again.repaired == [] and again.repair is None
    with pytest.raises(ValueError, match="keep_bad"):
        verisum.scrub(tree, catalog=tmp_path / "c.db", keep_bad=tmp_path)
    with pytest.raises(ValueError, match="repair_from: not for"):
        verisum.scrub(f"ssh://web1{tree}", catalog=tmp_path / "c.db", repair_from=tmp_path)


def test_only_bad_blocks_are_written_in_place(tree: Path, tmp_path: Path) -> None:
    catalog, copy, bad = tmp_path / "c.db", tmp_path / "copy", tmp_path / "bad"
    bad.mkdir()
    content = os.urandom(4 << 20)
    (copy / "large").write_bytes(content)
    (tree / "large").write_bytes(content)
    verisum.BlockMap.create(tree / "large.map", tree / "large")
    verisum.scrub(tree, catalog=catalog).finish()
    rot(tree / "large")
    verisum.scrub(tree, catalog=catalog).finish()
    inode = os.stat(tree / "large").st_ino
    files = list(verisum.repair(tree, catalog=catalog, sources=copy, keep_bad=bad, in_place=True))
    (large,) = [file for file in files if file.path.endswith("/large")]
    assert (large.outcome, len(files)) == ("repaired", 4)
    assert (tree / "large").read_bytes() == content and os.stat(tree / "large").st_ino == inode
    assert not os.path.exists(f"{catalog}.in-place")
    with pytest.raises(ValueError, match="in_place: only a catalogue"):
        verisum.repair(tree, tags=True, sources=copy, in_place=True)


def test_a_file_whose_repair_waits_keeps_no_scrub_from_the_others(tree: Path, tmp_path: Path) -> None:
    chattr = shutil.which("chattr")
    if chattr is None or os.geteuid() != 0:
        loud_skip("needs chattr and root")
    catalog, copy, bad, large = tmp_path / "c.db", tmp_path / "copy", tmp_path / "bad", tree / "large"
    bad.mkdir()
    content = os.urandom(4 << 20)
    (copy / "large").write_bytes(content)
    large.write_bytes(content)
    verisum.BlockMap.create(tree / "large.map", large)
    verisum.repair(tree, catalog=catalog, sources=copy, keep_bad=bad).finish()
    verisum.scrub(tree, catalog=catalog).finish()
    rot(large)
    verisum.scrub(tree, catalog=catalog).finish()
    if subprocess.run([chattr, "+i", large]).returncode:
        loud_skip("files of this file system cannot be made immutable")
    try:
        repairing = verisum.repair(tree, catalog=catalog, sources=copy, keep_bad=tmp_path / "more", in_place=True)
        [failed] = repairing
    finally:
        subprocess.run([chattr, "-i", large], check=True)
    assert failed.outcome == "failed" and "the next repair goes on" in str(failed.error)
    (tree / "other").write_bytes(b"other")
    with large.open("r+b"):
        found = {Path(finding.path).name: finding for finding in verisum.scrub(tree, catalog=catalog)}
    assert {name: finding.verdict for name, finding in found.items()} == {"large": "unverifiable", "other": "new"}
    assert "has it open to write to it" in str(found["large"].error)
    assert verisum.scrub(tree, catalog=catalog).finish().class_ == "clean"
    assert large.read_bytes() == content and not os.path.exists(f"{catalog}.in-place")


def test_the_catalogue_of_a_source_finds_what_was_renamed(tree: Path, tmp_path: Path) -> None:
    copy, known = tmp_path / "copy", tmp_path / "known.db"
    for number in range(10):
        (copy / str(number)).rename(copy / f"renamed {number}")
    verisum.scrub(copy, catalog=known).finish()
    summary = verisum.repair(tree, catalog=tmp_path / "c.db", sources=copy, dry_run=True).finish()
    assert (summary.mendable, summary.no_source) == (0, 3)
    (tmp_path / "bad").mkdir()
    run = verisum.repair(
        tree, catalog=tmp_path / "c.db", sources=copy, source_catalog=known, keep_bad=tmp_path / "bad"
    )
    assert {file.source for file in run} == {str(copy / f"renamed {number}") for number in (3, 4, 5)}
    with pytest.raises(verisum.FileError, match="knows none of the sources"):
        verisum.repair(tree, catalog=tmp_path / "c.db", sources=tree, source_catalog=known).finish()
    with pytest.raises(ValueError, match="source_catalog"):
        verisum.repair(tree, catalog=tmp_path / "c.db", source_catalog=known)


def test_a_digest_that_there_is_not_is_refused(tmp_path: Path) -> None:
    several: list[dict[str, Any]] = [{"catalog": "c.db"}, {"sums": "sums", "sources": "x"}, {"tags": True, "sources": "x"}]
    for records in several:
        with pytest.raises(verisum.DigestError, match="no-such"):
            verisum.repair(tmp_path, algorithm="no-such", **records)
    with pytest.raises(ValueError, match="algorithm: only for sums"):
        verisum.repair(tmp_path, algorithm="sha256", catalog=tmp_path / "c.db")
