"""`image_repair` over images that are really damaged, beside what the command says of them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import verisum
from conftest import COMMAND

BLOCK = 65536


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image with a map and a copy, of which blocks 2 and 7 are bad."""
    path = tmp_path / "disk.img"
    with open(path, "wb") as file:
        file.write(os.urandom(10 * BLOCK))
        file.truncate(40 * BLOCK)
    shutil.copyfile(path, tmp_path / "copy.img")
    verisum.BlockMap.create(tmp_path / "disk.map", path)
    damage(path, 2)
    damage(path, 7)
    return path


def damage(path: Path, block: int) -> None:
    with open(path, "r+b") as file:
        file.seek(block * BLOCK + 100)
        file.write(b"another content")


def test_bad_blocks_are_written_anew(image: Path, tmp_path: Path) -> None:
    map, copy = tmp_path / "disk.map", tmp_path / "copy.img"
    before = image.read_bytes()
    ranges = [(2 * BLOCK, 3 * BLOCK, str(copy)), (7 * BLOCK, 8 * BLOCK, str(copy))]
    could = verisum.image_repair(image, map, copy, dry_run=True)
    assert (could.dry_run, could.repaired, could.left, could.class_) == (True, ranges, [], "clean")
    assert image.read_bytes() == before
    said = subprocess.run(
        [COMMAND, "image", "repair", "--json", "-n", "--map", map, "--from", copy, image], stdout=subprocess.PIPE
    )
    line = json.loads(said.stdout)
    found = [(one["offset"], one["offset"] + one["length"], one["from"]["path"]) for one in line["repaired"]]
    assert found == ranges

    told: list[int] = []
    done = verisum.image_repair(os.fsencode(image), map, [copy], progress=told.append)
    assert (done.dry_run, done.repaired, done.bytes_repaired) == (False, ranges, 2 * BLOCK)
    assert (done.bytes_left, done.bytes_fetched, done.noted) == (0, 2 * BLOCK, None)
    assert image.read_bytes() == copy.read_bytes()
    assert told == sorted(told) and told[-1] == 40 * BLOCK
    assert not (tmp_path / "disk.map.repair").exists()
    assert verisum.image_repair(image, map, copy).repaired == []


def test_a_copy_that_cannot_be_read_is_named_with_the_reason(image: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.img"
    short.write_bytes(b"x" * 100)
    gone, copy = tmp_path / "gone.img", tmp_path / "copy.img"
    done = verisum.image_repair(image, tmp_path / "disk.map", [gone, short, copy])
    assert [name for name, _ in done.unreadable_copies] == [str(gone), str(short)]
    assert "No such file" in done.unreadable_copies[0][1]
    assert "shorter" in done.unreadable_copies[1][1]
    assert image.read_bytes() == copy.read_bytes()


def test_one_copy_gives_one_block_and_another_the_next(image: Path, tmp_path: Path) -> None:
    map, first, second = tmp_path / "disk.map", tmp_path / "copy.img", tmp_path / "second.img"
    shutil.copyfile(first, second)
    damage(first, 2)
    damage(second, 7)
    good = second.read_bytes()[2 * BLOCK : 3 * BLOCK]
    done = verisum.image_repair(image, map, [first, second])
    assert sorted(done.repaired) == [(2 * BLOCK, 3 * BLOCK, str(second)), (7 * BLOCK, 8 * BLOCK, str(first))]
    assert image.read_bytes()[2 * BLOCK : 3 * BLOCK] == good
    assert verisum.image_sum(image).digest == verisum.BlockMap(map).root


def test_a_dry_run_tells_what_an_interrupted_repair_left(image: Path, tmp_path: Path) -> None:
    map, copy = tmp_path / "disk.map", tmp_path / "copy.img"
    good = copy.read_bytes()[2 * BLOCK : 3 * BLOCK]
    head = b"VRSMREP1" + bytes([32]) + verisum.BlockMap(map).root
    journal = tmp_path / "disk.map.repair"
    journal.write_bytes(head + (2).to_bytes(8, "little") + BLOCK.to_bytes(4, "little") + good)
    rest = [(7 * BLOCK, 8 * BLOCK, str(copy))]
    could = verisum.image_repair(image, map, copy, dry_run=True)
    assert (could.recovered_blocks, could.repaired) == (1, rest)
    assert journal.exists()
    done = verisum.image_repair(image, map, copy)
    assert (done.recovered_blocks, done.repaired) == (1, rest)
    assert image.read_bytes() == copy.read_bytes() and not journal.exists()


def test_what_no_copy_has_is_left(image: Path, tmp_path: Path) -> None:
    map, copy = tmp_path / "disk.map", tmp_path / "copy.img"
    damage(copy, 2)
    before = image.read_bytes()
    with open(image, "ab") as file:
        file.write(b"x" * BLOCK)
    done = verisum.image_repair(image, map, copy)
    assert (done.left, done.bytes_left, done.class_) == ([(2 * BLOCK, 3 * BLOCK)], BLOCK, "mismatch")
    assert [found[:2] for found in done.repaired] == [(7 * BLOCK, 8 * BLOCK)]
    assert done.bytes_after_end == BLOCK
    assert image.read_bytes()[: 7 * BLOCK] == before[: 7 * BLOCK]


def test_what_seems_to_be_another_image_is_overwritten_only_where_that_is_wanted(image: Path, tmp_path: Path) -> None:
    map, copy = tmp_path / "disk.map", tmp_path / "copy.img"
    for block in range(10):
        damage(image, block)
    before = image.read_bytes()
    with pytest.raises(verisum.ImageError, match="it may be another image"):
        verisum.image_repair(image, map, copy)
    assert image.read_bytes() == before
    done = verisum.image_repair(image, map, copy, overwrite=True)
    assert (done.bytes_repaired, done.left) == (10 * BLOCK, []) and image.read_bytes() == copy.read_bytes()


def test_the_catalogue_is_told(image: Path, tmp_path: Path) -> None:
    tree, catalog = tmp_path / "tree", tmp_path / "c.db"
    tree.mkdir()
    disk = tree / "disk.img"
    shutil.copyfile(tmp_path / "copy.img", disk)
    verisum.scrub(tree, catalog=catalog).finish()
    stat = disk.stat()
    damage(disk, 2)
    os.utime(disk, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    verisum.scrub(tree, catalog=catalog).finish()
    done = verisum.image_repair(disk, tmp_path / "disk.map", tmp_path / "copy.img", catalog=catalog)
    assert done.noted == "confirmed"
    (repair,) = verisum.overview(catalog).trees[0].repairs
    assert (repair.path, repair.source, repair.bytes) == (str(disk), str(tmp_path / "copy.img"), BLOCK)
    assert verisum.scrub(tree, catalog=catalog).finish().class_ == "clean"


def test_what_cannot_be_repaired(image: Path, tmp_path: Path) -> None:
    map, copy = tmp_path / "disk.map", tmp_path / "copy.img"
    before = image.read_bytes()
    with pytest.raises(verisum.ImageError, match="none") as raised:
        verisum.image_repair(image, map, tmp_path / "none")
    assert raised.value.filename == str(tmp_path / "none")
    with pytest.raises(verisum.ImageError):
        verisum.image_repair(image, copy, copy)
    with pytest.raises(verisum.ImageError, match="open: only raw image files"):
        verisum.image_repair(tmp_path, map, copy)
    with open(image, "r+b"), pytest.raises(verisum.ImageError, match="has it open to write"):
        verisum.image_repair(image, map, copy)
    with pytest.raises(ValueError, match="no copy"):
        verisum.image_repair(image, map, [])
    with pytest.raises(verisum.CatalogError):
        verisum.image_repair(image, map, copy, catalog=tmp_path / "none.db")

    def fail(bytes: int) -> None:
        raise KeyError("enough")

    assert image.read_bytes() == before
    with pytest.raises(KeyError):
        verisum.image_repair(image, map, copy, progress=fail)


def test_a_copy_on_a_host(image: Path, tmp_path: Path, ssh_config: Path) -> None:
    hosts = verisum.Hosts(ssh_config=ssh_config)
    copy = f"web1:{tmp_path / 'copy.img'}"
    done = verisum.image_repair(image, tmp_path / "disk.map", copy, hosts=hosts)
    assert [found[2] for found in done.repaired] == [copy, copy]
    assert image.read_bytes() == (tmp_path / "copy.img").read_bytes()
