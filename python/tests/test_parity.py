"""`Parity` over trees with real rot, and over PAR2 files of par2cmdline."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import verisum
from conftest import Store, loud_skip

CONTENT = {name: name.encode() * 30_000 for name in ("aa", "bb", "cc")}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, content in CONTENT.items():
        (tree / name).write_bytes(content)
    return tree


def rot(path: Path) -> None:
    """Writes a byte behind the time of modification."""
    seen = path.stat()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def assert_whole(tree: Path) -> None:
    assert {name: (tree / name).read_bytes() for name in CONTENT} == CONTENT


def test_rot_is_found_and_mended(tree: Path) -> None:
    parity = verisum.Parity(tree)
    calls: list[tuple[int, int]] = []
    made = parity.create(redundancy=0.1, progress=lambda files, count: calls.append((files, count))).finish()
    assert (made["files"], made["bytes"], made["new"]) == (3, 180_000, 3)
    assert calls[-1] == (3, 180_000)
    assert list(parity.verify()) == []
    rot(tree / "aa")
    verification = parity.verify()
    [found] = verification
    assert (found.path, found.outcome, found.mendable, found.of_parity) == ("aa", "damaged", True, False)
    assert found.bytes and found.error is None
    assert verification.summary is not None and verification.summary["damaged"] == 1
    (tree / "bb").write_bytes(b"changed")
    assert parity.repair(dry_run=True).finish()["repaired"] == 0, "what was written to takes parity away"
    assert parity.repair(changed=True, keep_bad=tree.parent / "bad").finish()["not_repaired"] == 2
    (tree / "bb").write_bytes(CONTENT["bb"])
    foretold = parity.repair(dry_run=True).finish()
    assert (foretold["repaired"], foretold["mendable"]) == (0, 1)
    outcomes = {found.path: found for found in parity.repair()}
    assert outcomes["aa"].outcome == "repaired" and outcomes["aa"].kept_unread == 0
    [(begin, end)] = outcomes["aa"].ranges or []
    assert begin <= 100 < end and outcomes["aa"].bytes == end - begin
    assert_whole(tree)
    rot(tree / "aa")
    inode = (tree / "aa").stat().st_ino
    done = parity.repair(in_place=True).finish()
    assert (done["repaired"], done["mendable"]) == (1, 0)
    assert_whole(tree)
    assert (tree / "aa").stat().st_ino == inode
    (tree / "cc").unlink()
    assert parity.update().finish()["gone"] == 1


def test_a_dry_run_repairs_no_parity(tree: Path) -> None:
    parity = verisum.Parity(tree)
    parity.create().finish()
    (index,) = tree.rglob("index")
    good = index.read_bytes()
    index.write_bytes(bytes([good[0] ^ 1]) + good[1:])
    for dry_run in (True, False):
        run = parity.repair(dry_run=dry_run)
        assert [(found.of_parity, found.outcome) for found in run] == [(True, "damaged" if dry_run else "repaired")]
        assert run.summary is not None
        assert (run.summary["parity_mendable"], run.summary["parity_repaired"]) == ((1, 0) if dry_run else (0, 1))


def test_parity_elsewhere_and_what_is_wrong(tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    with pytest.raises(verisum.FileError, match="no parity"):
        verisum.Parity(tree, place).verify().finish()
    parity = verisum.Parity(os.fsencode(tree), str(place))
    parity.create().finish()
    with pytest.raises(verisum.FileError, match="already"):
        parity.create().finish()
    for share in (0, -1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="redundancy"):
            parity.create(redundancy=share)
    with pytest.raises(verisum.FileError):
        verisum.Parity(tmp_path / "nowhere").create().finish()
    with parity.verify() as run:
        pass
    assert run.summary is None
    assert sorted(path.name for path in tree.iterdir()) == ["aa", "bb", "cc"]


def test_parity_is_given_up_for_most_files_only_where_that_is_wanted(tree: Path) -> None:
    for number in range(120):
        (tree / str(number)).write_bytes(b"good")
    parity = verisum.Parity(tree)
    parity.create().finish()
    for number in range(120):
        (tree / str(number)).write_bytes(b"by malware")
    with pytest.raises(verisum.FileError, match="of 123 files with parity 120 were written to"):
        parity.update().finish()
    assert parity.verify().finish()["changed"] == 120
    assert parity.update(accept_changes=True).finish()["changed"] == 120
    assert list(parity.verify()) == []


def test_only_bad_sets_are_read(tree: Path) -> None:
    parity = verisum.Parity(tree)
    parity.create(set_bytes=64 << 10, redundancy=0.2).finish()
    rot(tree / "aa")
    verification = parity.verify()
    assert verification.bad_sets is None
    assert verification.finish()["damaged"] == 1
    bad_sets = verification.bad_sets
    assert bad_sets is not None and len(bad_sets) == 1
    bad = bad_sets[0]
    sets = parity.repair(dry_run=True).finish()["sets"]
    assert sets > 1
    # Another set has nothing bad in it.
    assert parity.repair(sets=[bad + 1]).finish()["repaired"] == 0
    run = parity.repair(sets=[bad], in_place=True)
    assert [(found.outcome, found.unread_sets) for found in run] == [("repaired", 0)]
    assert run.finish()["sets"] == 1
    assert_whole(tree)


def test_parity_in_a_bucket(store: Store, tree: Path) -> None:
    bucket = store.bucket("parity")
    parity = verisum.Parity(tree, "s3://parity/of/tree", hosts=store.hosts)
    parity.create().finish()
    assert (bucket / "of" / "tree" / "index").exists()
    assert sorted(path.name for path in tree.iterdir()) == ["aa", "bb", "cc"]
    rot(tree / "aa")
    (found,) = parity.verify()
    assert (found.path, found.mendable) == ("aa", True)
    assert parity.repair().finish()["repaired"] == 1
    assert_whole(tree)
    with pytest.raises(verisum.FileError, match="s3://parity/of/tree/index: .*cannot be reached"):
        nowhere = verisum.Hosts(endpoint="http://127.0.0.1:1", timeout=1)
        verisum.Parity(tree, "s3://parity/of/tree", hosts=nowhere).verify().finish()
    for place in ("web1:/parity", "ssh://web1/parity"):
        with pytest.raises(ValueError, match="in a bucket"):
            verisum.Parity(tree, place)


def test_par2_files(tree: Path) -> None:
    par2 = shutil.which("par2")
    if par2 is None:
        assert "CI" not in os.environ, "there is no par2"
        loud_skip("there is no par2")
    subprocess.run(
        [par2, "create", "-q", "-q", "-s1000", "-c80", "set.par2", *CONTENT], cwd=tree, check=True, capture_output=True
    )
    parity = verisum.Parity(tree / "set.par2")
    rot(tree / "aa")
    (tree / "bb").unlink()
    assert {found.path: found.outcome for found in parity.verify()} == {"aa": "damaged", "bb": "missing"}
    assert parity.repair().finish()["repaired"] == 2
    assert_whole(tree)
    for refused in (parity.create, parity.update):
        with pytest.raises(ValueError, match="PAR2"):
            refused()
    with pytest.raises(ValueError, match="PAR2 files have no repair in place"):
        parity.repair(in_place=True)
    with pytest.raises(ValueError, match="PAR2 files have no sets"):
        parity.repair(sets=[1])
    with pytest.raises(ValueError, match="place"):
        verisum.Parity(tree / "set.par2", tree)


def test_parity_repairs_what_records_say(tree: Path, tmp_path: Path) -> None:
    catalog, elsewhere, bad = tmp_path / "c.db", tmp_path / "elsewhere", tmp_path / "bad"
    verisum.Parity(tree, elsewhere).create().finish()
    verisum.scrub(tree, catalog=catalog).finish()
    sums = tmp_path / "SUMS"
    sums.write_text("".join(f"{row.hexdigest}  {row.path}\n" for row in verisum.hash_files(tree)))
    rot(tree / "aa")
    (by_list,) = verisum.repair(tree, sums=sums, parity=elsewhere, keep_bad=bad)
    assert_whole(tree)
    rot(tree / "aa")
    verisum.scrub(tree, catalog=catalog).finish()
    (without,) = verisum.repair(tree, catalog=catalog, keep_bad=bad)
    assert without.outcome == "no-source"
    (by_catalog,) = verisum.repair(tree, catalog=catalog, parity=elsewhere, keep_bad=bad)
    assert_whole(tree)
    for file in (by_list, by_catalog):
        assert (file.outcome, file.kept_unread) == ("repaired", 0) and str(file.source).startswith(str(elsewhere))
    with pytest.raises(verisum.Error):
        verisum.repair(tree, catalog=catalog, parity=tmp_path / "none").finish()
    # What lies beside the files is found by itself.
    verisum.Parity(tree).create().finish()
    rot(tree / "aa")
    run = verisum.scrub(tree, catalog=catalog, repair_from=[], keep_bad=bad)
    summary = run.finish()
    assert [file.outcome for file in summary.repaired] == ["repaired"]
    assert_whole(tree)
