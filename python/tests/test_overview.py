"""`overview` beside what the command tells of the same catalogues."""

import json
import os
import subprocess
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import verisum
from conftest import COMMAND
from test_scrub import rot


@pytest.fixture
def catalogs(tmp_path: Path) -> tuple[Path, Path]:
    """Two catalogues of trees that share content; the first has a bad file, a missing one and a repaired one."""
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "sub").mkdir(parents=True)
    two.mkdir()
    for number in range(6):
        (one / "sub" / str(number)).write_bytes(bytes([number]) * 3000)
    (one / "twin").write_bytes(bytes([1]) * 3000)
    for number in range(3, 8):
        (two / str(number)).write_bytes(bytes([number]) * 3000)
    with open(os.fsencode(two) + b"/\xff", "wb") as file:
        file.write(b"no utf-8")
    a, b = tmp_path / "a.db", tmp_path / "b.db"
    verisum.scrub(one, catalog=a).finish()
    verisum.scrub(two, catalog=b).finish()
    rot(one / "sub" / "1")
    verisum.scrub(one, catalog=a).finish()
    (tmp_path / "bad").mkdir()
    verisum.repair(one, catalog=a, keep_bad=tmp_path / "bad").finish()
    rot(one / "sub" / "3")
    os.remove(one / "sub" / "0")
    verisum.scrub(one, catalog=a).finish()
    return a, b


def status(catalog: Path) -> list[dict[str, object]]:
    said = subprocess.run([COMMAND, "catalog", "status", "--json", "--catalog", catalog], stdout=subprocess.PIPE)
    return [line for line in map(json.loads, said.stdout.splitlines()) if line["type"] == "tree"]


def report(*catalogs: Path, more: tuple[str, ...] = ()) -> int:
    return subprocess.run([COMMAND, "report", *catalogs, *more], stdout=subprocess.DEVNULL).returncode


def test_it_tells_what_the_command_tells(catalogs: tuple[Path, Path]) -> None:
    told = verisum.overview(catalogs)
    assert [tree.catalog for tree in told.trees] == [str(catalog) for catalog in catalogs]
    for tree, line in zip(told.trees, [line for catalog in catalogs for line in status(catalog)], strict=True):
        assert (tree.path, tree.files, tree.bytes) == (line["path"], line["files"], line["bytes"])
        assert tree.troubles == line["troubles"]
    assert (told.class_, report(*catalogs)) == ("corrupt", 1)
    (repaired,) = told.trees[0].repairs
    assert (Path(repaired.path).name, repaired.was, repaired.bytes) == ("1", "suspicious", 3000)
    assert Path(repaired.source).name == "twin" and repaired.before_hexdigest != repaired.hexdigest
    assert repaired.hexdigest == verisum.new("sha256", bytes([1]) * 3000).hexdigest()
    assert len(told.trees[0].runs) == 3 and len(verisum.overview(catalogs, runs=1).trees[0].runs) == 1


def test_files_in_trouble_and_their_copies(catalogs: tuple[Path, Path], tmp_path: Path) -> None:
    told = verisum.overview(catalogs)
    bad, missing = told.troubled
    assert (Path(bad.path).name, bad.state, bad.catalog) == ("3", "suspicious", str(catalogs[0]))
    assert (bad.copy, bad.copy_catalog) == (str(tmp_path / "two" / "3"), str(catalogs[1]))
    recorded = bad.recorded
    assert recorded is not None and recorded.digest == verisum.new("sha256", bytes([3]) * 3000).digest()
    assert bad.found is not None and bad.found.digest != recorded.digest and bad.since_ms is not None
    assert (Path(missing.path).name, missing.state, missing.copy) == ("0", "missing", None)
    assert [Path(file.path).name for file in verisum.overview(catalogs, troubled=1).troubled] == ["3"]
    # Another catalogue is not asked.
    assert verisum.overview(catalogs[0]).troubled[0].copy is None


def test_copies_ages_and_directories(catalogs: tuple[Path, Path], tmp_path: Path) -> None:
    told = verisum.overview(catalogs)
    # The contents of 2, 6 and 7 and of the name without UTF-8, and that of 3, which is sound in one tree only.
    assert (told.only.files, told.only.bytes) == (5, 3000 * 4 + 8)
    assert (told.one_tree.files, told.several_trees.files, told.extra.files) == (1, 2, 3)
    assert {shared.files for shared in told.duplicates} == {2}
    digests = {verisum.new("sha256", bytes([number]) * 3000).hexdigest() for number in (1, 4, 5)}
    assert {shared.hexdigest for shared in told.duplicates} == digests
    assert told.digests == {"sha256": told.digests["sha256"]} and told.digests["sha256"].files == 13
    assert list(told.ages)[0] == "less than a day" and list(told.ages)[-1] == "never verified"
    assert told.ages["less than a day"].files == 12
    (month,) = told.months
    assert abs(datetime.strptime(month, "%Y-%m").timestamp() - time.time()) < 40 * 86400
    assert sum(directory.files for directory in told.directories) == 13
    assert {directory.path for directory in told.stalest} <= {
        str(tmp_path / "one"), str(tmp_path / "one" / "sub"), str(tmp_path / "two"),
    }


def test_what_is_too_old_is_unchecked(catalogs: tuple[Path, Path]) -> None:
    _, sound = catalogs
    assert (verisum.overview(sound).class_, report(sound)) == ("clean", 0)
    later = datetime.now() + timedelta(days=40)
    aged = verisum.overview(sound, now=later, max_age=timedelta(days=30))
    assert (aged.class_, aged.stale.files, aged.trees[0].stale) == ("unchecked", 6, aged.stale)
    assert aged.ages["30 to 90 days"].files == 6
    assert verisum.overview(sound, now=later).stale.files == 0


def test_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(verisum.CatalogError, match="none.db"):
        verisum.overview(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("no catalogue" * 1000)
    with pytest.raises(verisum.CatalogError):
        verisum.overview([tmp_path / "text.db"])
    with pytest.raises(ValueError, match="catalogs: none"):
        verisum.overview([])
