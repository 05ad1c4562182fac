"""The upkeep of catalogues: damage, backups, trees that moved or are gone."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

import verisum
from conftest import COMMAND
from interrupted import ctrl_c


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    for number in range(5):
        (root / str(number)).write_bytes(bytes([number]) * 100)
    return root


@pytest.fixture
def catalog(tree: Path, tmp_path: Path) -> Path:
    path = tmp_path / "c.db"
    verisum.scrub(tree, catalog=path).finish()
    return path


def damage(catalog: Path) -> None:
    """Changes a record behind the back of its check value."""
    with sqlite3.connect(catalog) as database:
        database.execute("UPDATE file SET size = size + 1 WHERE name = ?", (b"3",))
    database.close()


def test_check_tells_what_is_wrong(tree: Path, catalog: Path, tmp_path: Path) -> None:
    assert verisum.Catalog.check(catalog) == []
    damage(catalog)
    problems = verisum.Catalog.check(catalog)
    assert f"{tree}/3: its record is damaged" in problems
    (tmp_path / "text").write_text("no database, but a text that somebody wrote")
    (problem,) = verisum.Catalog.check(tmp_path / "text")
    assert "text" in problem
    with pytest.raises(verisum.CatalogError):
        verisum.Catalog.check(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_errors_of_the_system_have_its_number(tree: Path, catalog: Path, tmp_path: Path, small_disk: Path) -> None:
    for number in range(1000):
        (tree / f"a long name, so that the list is longer than the disk {number}").touch()
    verisum.scrub(tree, catalog=catalog).finish()
    sums = small_disk / "SUMS"
    with pytest.raises(verisum.FileError) as full:
        verisum.Catalog(catalog).export_list(sums)
    assert str(full.value) == f"{sums}: write: No space left on device"
    assert (full.value.path, full.value.errno) == (str(sums), errno.ENOSPC)
    with pytest.raises(verisum.FileError) as missing:
        verisum.Catalog(catalog).export_list(tmp_path / "none" / "SUMS")
    assert missing.value.errno == errno.ENOENT and str(missing.value).count("SUMS") == 1
    with pytest.raises(verisum.CatalogError) as none:
        verisum.Catalog(tmp_path / "none.db")
    assert none.value.errno == errno.ENOENT
    with pytest.raises(verisum.CatalogError) as full_catalog:
        verisum.scrub(tree, catalog=small_disk / "c.db").finish()
    assert full_catalog.value.errno == errno.ENOSPC


def test_a_backup_is_restored(tree: Path, catalog: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    verisum.Catalog(catalog).backup(copy)
    (tree / "5").touch()
    verisum.scrub(tree, catalog=catalog).finish()
    opened = verisum.Catalog(catalog)
    with pytest.raises(verisum.CatalogError, match="another run uses"):
        verisum.Catalog.restore(catalog, copy)
    assert opened.trees()[0].files == 6
    del opened
    verisum.Catalog.restore(catalog, copy)
    assert verisum.Catalog(catalog).trees()[0].files == 5
    catalog.unlink()
    verisum.Catalog.restore(catalog, copy)
    assert verisum.Catalog.check(catalog) == []
    damage(copy)
    with pytest.raises(verisum.CatalogError, match="its record is damaged") as raised:
        verisum.Catalog.restore(catalog, copy)
    assert raised.value.operation == "check" and raised.value.path == str(copy)
    with pytest.raises(verisum.CatalogError, match="belongs to the catalogue"):
        verisum.Catalog(catalog).backup(f"{catalog}-wal")


def test_a_tree_is_relocated(tree: Path, catalog: Path, tmp_path: Path) -> None:
    opened = verisum.Catalog(catalog)
    moved = tmp_path / "moved"
    with pytest.raises(verisum.CatalogError, match="no directory is there"):
        opened.relocate(tree, moved)
    shutil.copytree(tree, moved)
    with pytest.raises(verisum.CatalogError, match="nothing in common"):
        opened.relocate(tree, "ssh://web1/srv")
    with pytest.raises(verisum.CatalogError, match="not in the catalogue"):
        opened.relocate(tmp_path, moved)
    with pytest.raises(verisum.CatalogError, match="a tree of the catalogue already"):
        opened.relocate(tree, tree)
    assert opened.relocate(tree, moved).path == str(moved)
    assert [one.path for one in opened.trees()] == [str(moved)]
    assert opened.relocate(moved, tmp_path / "mounted later", unmounted=True).files == 5


def test_a_tree_of_another_machine_is_relocated(tree: Path, tmp_path: Path, ssh_config: Path) -> None:
    catalog = tmp_path / "c.db"
    verisum.scrub(f"web1:{tree}", catalog=catalog, hosts=verisum.Hosts(ssh_config=ssh_config)).finish()
    opened = verisum.Catalog(catalog)
    with pytest.raises(verisum.CatalogError, match="nothing in common"):
        opened.relocate(f"web1:{tree}", tmp_path)
    assert opened.relocate(f"web1:{tree}", "web2:/srv").path == "ssh://web2/srv"
    assert opened.forget("web2:/srv").path == "ssh://web2/srv"


def test_a_tree_is_forgotten(tree: Path, catalog: Path) -> None:
    opened = verisum.Catalog(catalog)
    (tree / "3").unlink()
    verisum.scrub(tree, catalog=catalog).finish()
    would = opened.forget(tree, dry_run=True)
    assert (would.path, would.path_bytes, would.records, would.waiting) == (str(tree), os.fsencode(tree), 5, 1)
    with pytest.raises(verisum.CatalogError, match="missing or waiting: 1"):
        opened.forget(tree)
    assert len(opened.trees()) == 1
    assert opened.forget(tree, yes=True).records == 5
    assert opened.trees() == [] and (tree / "4").exists()
    with pytest.raises(verisum.CatalogError, match="not in the catalogue"):
        opened.forget(tree, dry_run=True)


def test_writing_to_no_catalogue_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(verisum.CatalogError):
        verisum.rehash(tmp_path / "none.db", "sha256")
    with pytest.raises(verisum.CatalogError):
        verisum.accept(tmp_path / "x", catalog=tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_import_of_a_pipe(tree: Path, tmp_path: Path) -> None:
    pipe, catalog = tmp_path / "pipe", tmp_path / "other.db"
    os.mkfifo(pipe)
    ctrl_c("", f"verisum.Catalog.import_list({str(catalog)!r}, {str(pipe)!r}, {str(tree)!r})")
    assert not catalog.exists()
    # A writer that stops in the middle of a line.
    before = f"import os; end = os.open({str(pipe)!r}, os.O_RDWR); os.write(end, b'0' * 100)"
    ctrl_c(before, f"verisum.Catalog.import_list({str(catalog)!r}, {str(pipe)!r}, {str(tree)!r})")


def test_lists_go_out_and_in(tmp_path: Path) -> None:
    tree, catalog, sums = tmp_path / "tree", tmp_path / "c.db", tmp_path / "SUMS"
    tree.mkdir()
    for number in range(5):
        (tree / str(number)).write_bytes(bytes([number]) * 100)
    verisum.scrub(tree, catalog=catalog).finish()
    opened = verisum.Catalog(catalog)
    assert opened.export_list(sums, format="bsd", tree=tree) == {"files": 5, "damaged": 0, "unlistable": 0}
    said = subprocess.run(
        [COMMAND, "catalog", "export", "--catalog", catalog, "--format", "bsd", "--tree", tree],
        capture_output=True,
        check=True,
    )
    assert sums.read_bytes() == said.stdout
    assert verisum.check(sums, base=tree).finish()["verified"] == 5
    with pytest.raises(ValueError, match="format"):
        opened.export_list(sums, format="none")
    with pytest.raises(verisum.CatalogError):
        opened.export_list(sums, tree=tmp_path)

    (tree / "4").unlink()
    other = tmp_path / "other.db"
    new = {"added": 5, "known": 0, "differing": 0, "absent": 1, "unknown_digests": 0}
    assert verisum.Catalog.import_list(other, sums, tree) == new
    assert verisum.Catalog.import_list(other, sums, tree) == {**new, "added": 0, "known": 5}
    assert {row.path for row in verisum.Catalog(other).rows()} == {str(tree / str(number)) for number in range(5)}
    # Errors name arguments, not options of the command.
    with pytest.raises(verisum.CatalogError, match=r"\(tree names another DIR\)"):
        verisum.Catalog.import_list(tmp_path / "third.db", sums, tmp_path)
    with pytest.raises(verisum.FileError, match="none"):
        verisum.Catalog.import_list(other, tmp_path / "none", tree)
