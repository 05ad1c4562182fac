"""`image_sum` and `BlockMap` against the definition and the command."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import verisum
from conftest import COMMAND, loud_skip
from interrupted import ctrl_c, run

PROGRAM = os.path.join(os.path.dirname(sys.executable), "verisum")
BLOCK = 65536


def block_hash(data: bytes, name: str = "sha256", block: int = BLOCK) -> bytes:
    digests = [hashlib.new(name, data[at : at + block]).digest() for at in range(0, len(data), block)]
    return hashlib.new(name, b"".join(digests) + len(data).to_bytes(8, "little")).digest()


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "disk.img"
    with open(path, "wb") as file:
        file.write(os.urandom(3 * BLOCK))
        file.seek(40 * BLOCK)
        file.write(os.urandom(5 * BLOCK + 1024))
    return path


def test_it_is_the_block_hash(image: Path) -> None:
    data = image.read_bytes()
    summed = verisum.image_sum(image)
    assert (summed.digest, summed.hexdigest) == (block_hash(data), block_hash(data).hex())
    assert (summed.algorithm, summed.block_size, summed.length) == ("sha256", BLOCK, len(data))
    assert (summed.padded, summed.modified) == (0, False)
    for name, block, threads in (("md5", 4096, 1), ("sha512", 1 << 20, 3)):
        other = verisum.image_sum(os.fsencode(image), name, block_size=block, threads=threads)
        assert other.digest == block_hash(data, name, block)


def test_the_last_sector_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(b"x" * 1000)
    assert verisum.image_sum(path).digest == block_hash(b"x" * 1000 + bytes(24))
    assert verisum.image_sum(path).padded == 24
    assert verisum.image_sum(path, exact=True).digest == block_hash(b"x" * 1000)


def test_progress_is_told(image: Path) -> None:
    told: list[int] = []
    verisum.image_sum(image, progress=told.append)
    assert told == sorted(told) and told[-1] == image.stat().st_size


def test_an_exception_in_a_callback_ends_it(tmp_path: Path) -> None:
    ended = run(f"""
        import os, verisum
        os.mkfifo({str(tmp_path / "pipe")!r})
        if os.fork() == 0:
            with open({str(tmp_path / "pipe")!r}, "wb") as pipe:
                try:
                    while True:
                        pipe.write(bytes(1 << 20))
                except BrokenPipeError:
                    os._exit(0)
        def tell(done):
            if done:
                raise KeyError("mine")
        try:
            verisum.image_sum({str(tmp_path / "pipe")!r}, progress=tell)
        except KeyError as error:
            print(error)
    """)
    assert ended.stdout == "'mine'\n", ended.stderr


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
        file.write(os.urandom(1 << 20) * 512)
    ctrl_c("", f"while True: verisum.image_sum({str(path)!r}, 'sha3-512', threads=1)", delay=0.2)


def test_what_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(verisum.ImageError) as raised:
        verisum.image_sum(tmp_path / "none")
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    assert (raised.value.path, raised.value.operation) == (str(tmp_path / "none"), "open")
    with pytest.raises(verisum.ImageError):
        verisum.image_sum(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(verisum.DigestError):
        verisum.image_sum(tmp_path / "file", "nosuch")
    for size in (0, 7):
        with pytest.raises(ValueError):
            verisum.image_sum(tmp_path / "file", block_size=size)


def map_of(image: Path, *options: str) -> Path:
    path = image.with_suffix(".map")
    subprocess.run([PROGRAM, "image", "map", *options, "-o", path, image], check=True, capture_output=True)
    return path


def test_a_map_has_the_digest_of_every_block(image: Path) -> None:
    data = image.read_bytes()
    want = [hashlib.sha256(data[at : at + BLOCK]).digest() for at in range(0, len(data), BLOCK)]
    found = verisum.BlockMap(map_of(image))
    assert (found.algorithm, found.digest_size, found.block_size) == ("sha256", 32, BLOCK)
    assert (found.length, len(found), found.data_blocks) == (len(data), len(want), 9)
    assert found.root == verisum.image_sum(image).digest
    table = np.asarray(found.digests())
    assert table.shape == (46, 32) and [row.tobytes() for row in table] == want
    for start, stop in ((0, 0), (0, 3), (2, 5), (3, 41), (39, 46), (45, 46), (46, 46)):
        assert list(found.digests(start, stop)) == want[start:stop]
    for start, stop in ((5, 4), (0, 47), (47, 47)):
        with pytest.raises(IndexError):
            found.digests(start, stop)
    found.check()


def test_maps_tell_where_images_differ(image: Path) -> None:
    before = verisum.BlockMap(map_of(image))
    other = image.with_name("other.img")
    data = bytearray(image.read_bytes())
    data[BLOCK + 5] ^= 1
    data[41 * BLOCK] ^= 1
    other.write_bytes(data)
    after = verisum.BlockMap(map_of(other))
    assert before.differences(after) == [(BLOCK, 2 * BLOCK), (41 * BLOCK, 42 * BLOCK)]
    assert before.differences(before) == []
    unlike = verisum.BlockMap(map_of(other, "-a", "md5"))
    with pytest.raises(verisum.ImageError):
        before.differences(unlike)


def test_a_damaged_map_is_told(image: Path) -> None:
    path = map_of(image)
    data = bytearray(path.read_bytes())
    data[600] ^= 1
    path.write_bytes(data)
    with pytest.raises(verisum.ImageError, match="corrupt"):
        verisum.BlockMap(path).digests()
    path.write_bytes(data[:-1])
    with pytest.raises(verisum.ImageError):
        verisum.BlockMap(path)
    with pytest.raises(verisum.ImageError):
        verisum.BlockMap(image)


def test_an_image_is_compared_with_its_map(image: Path, tmp_path: Path) -> None:
    path = tmp_path / "disk.map"
    verisum.BlockMap.create(path, image)
    length = image.stat().st_size
    told: list[int] = []
    same = verisum.image_verify(image, path, progress=told.append)
    assert (same.equal, same.ranges, same.differing, same.class_, same.modified) == (True, [], 0, "clean", False)
    assert (same.length, same.map_length, same.block_size) == (length, length, BLOCK)
    assert told[-1] == length and told == sorted(told)
    with open(image, "r+b") as file:
        file.seek(BLOCK + 5)
        file.write(b"another content")
        file.truncate(length + 512)
    found = verisum.image_verify(os.fsencode(image), path, threads=1)
    said = subprocess.run(
        [COMMAND, "image", "verify", "--json", "--map", path, image], stdout=subprocess.PIPE, text=True
    )
    line = json.loads(said.stdout)
    ranges = [(one["offset"], one["offset"] + one["length"]) for one in line["ranges"]]
    assert found.ranges == ranges and ranges[0] == (BLOCK, 2 * BLOCK) and len(ranges) == 2
    assert found.differing == line["differing"] == sum(end - start for start, end in ranges)
    assert (found.equal, found.class_, found.length, found.map_length) == (False, "mismatch", length + 512, length)
    # As the map says, an odd end is not completed.
    odd = tmp_path / "odd"
    odd.write_bytes(b"x" * 1000)
    verisum.BlockMap.create(path, odd, exact=True)
    assert verisum.image_verify(odd, path).equal
    with pytest.raises(verisum.ImageError, match="odd"):
        verisum.image_verify(image, odd)
    with pytest.raises(verisum.ImageError, match="gone"):
        verisum.image_verify(tmp_path / "gone", path)


def test_ctrl_c_ends_the_check_of_a_map(tmp_path: Path) -> None:
    # Almost no bytes, and blocks whose outer hash takes minutes.
    image, made = tmp_path / "empty.img", tmp_path / "empty.map"
    with open(image, "wb") as file:
        file.truncate(1 << 40)
    subprocess.run([PROGRAM, "image", "map", "-o", made, image], check=True, capture_output=True)
    ctrl_c(f"map = verisum.BlockMap({str(made)!r})", "while True: map.check()", delay=0.1)


def test_an_update_that_a_callback_ends_leaves_the_map_as_it_is(tmp_path: Path) -> None:
    image, path = tmp_path / "disk.img", tmp_path / "disk.map"
    with open(image, "wb") as file:
        file.truncate(1 << 30)
        for at in range(0, 1 << 30, 1 << 16):
            os.pwrite(file.fileno(), b"x", at)
    made = verisum.BlockMap.create(path, image, "sha3-512")
    before = path.read_bytes()

    def end(_: int) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        made.update(path, image, [(0, 1 << 30)], threads=1, progress=end)
    assert path.read_bytes() == before


def test_a_map_is_made_and_updated(tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    data = bytearray(os.urandom(3_000_000)) + bytes(1_000_000)
    image.write_bytes(data)
    seen: list[int] = []
    made = verisum.BlockMap.create(tmp_path / "disk.map", image, "blake3", block_size=4096, progress=seen.append)
    assert made.root == verisum.image_sum(image, "blake3", block_size=4096).digest
    own = tmp_path / "own.map"
    words = ["image", "map", "-a", "blake3", "--block-size", "4096"]
    subprocess.run([COMMAND, *words, "-o", own, image], check=True, capture_output=True)
    assert own.read_bytes() == (tmp_path / "disk.map").read_bytes()
    data[10_000] ^= 1
    data[3_999_000] ^= 1
    image.write_bytes(data)
    now = made.update(tmp_path / "now.map", image, [(3_999_000, 3_999_001), (10_000, 10_001)])
    assert now.root == verisum.image_sum(image, "blake3", block_size=4096).digest != made.root
    assert len(now.differences(made)) == 2
    now.check()
    # The old map may be replaced; an image never is.
    made.update(tmp_path / "disk.map", image, [(0, 4_000_000)])
    for path in (image, tmp_path / "text"):
        (tmp_path / "text").write_text("text")
        with pytest.raises(verisum.ImageError, match="create: "):
            verisum.BlockMap.create(path, image)
    assert image.read_bytes() == data
    with pytest.raises(ValueError, match="behind"):
        now.update(tmp_path / "now.map", image, [(2, 1)])
    with pytest.raises(ValueError, match="behind the end"):
        now.update(tmp_path / "now.map", image, [(0, 1), (3_999_000, 5_000_000)])
    now.check()
    # What was cut off may be named.
    image.write_bytes(data[:2_000_000])
    cut = now.update(tmp_path / "cut.map", image, [(2_000_000, 4_000_000)])
    assert cut.root == verisum.image_sum(image, "blake3", block_size=4096).digest
    with pytest.raises(verisum.ImageError):
        verisum.BlockMap.create(tmp_path / "x.map", tmp_path / "none")
    assert not (tmp_path / "x.map").exists()


def described(path: Path) -> tuple[verisum.ImageInfo, dict[str, Any]]:
    """What the package and the command say of an image."""
    ended = subprocess.run([PROGRAM, "image", "info", "--json", path], capture_output=True, text=True)
    return verisum.image_info(path), json.loads(ended.stdout)


def same(found: object, told: dict[str, Any], *names: str) -> bool:
    return all(getattr(found, name) == told.get(name) for name in names)


def test_an_image_is_described_as_by_the_command(image: Path, tmp_path: Path) -> None:
    info, told = described(image)
    assert same(info, told, "size", "padded", "data", "compressed", "zero", "snapshots", "bitmaps", "errors")
    assert (info.size, info.padded, info.errors) == (image.stat().st_size, 0, [])
    (layer,), (line,) = info.layers, told["layers"]
    assert same(layer, line, "role", "format", "size", "file_size", "stored", "properties", "warnings")
    assert (layer.role, layer.format, layer.name) == ("image", "raw", str(image))
    assert repr(info) == f"<verisum.ImageInfo raw of {info.size} bytes>"
    with pytest.raises(verisum.ImageError, match="this is a block map, which BlockMap describes"):
        verisum.BlockMap.create(tmp_path / "map", image)
        verisum.image_info(tmp_path / "map")
    with pytest.raises(verisum.ImageError, match="No such file"):
        verisum.image_info(tmp_path / "none")
    reader, writer = os.pipe()
    os.write(writer, b"data")
    os.close(writer)
    with pytest.raises(verisum.ImageError, match="nothing is known of a pipe"):
        verisum.image_info(f"/dev/fd/{reader}")
    os.close(reader)


def test_what_an_image_keeps_inside_is_described(tmp_path: Path) -> None:
    if shutil.which("qemu-img") is None:
        loud_skip("needs qemu-img")
    base, top = tmp_path / "base.img", tmp_path / "top.qcow2"
    for command in (
        f"create -q -f raw {base} 1M",
        f"create -q -f qcow2 -b {base} -F raw {top}",
        f"bitmap --add -g 64k {top} dirty",
        f"snapshot -c before {top}",
    ):
        subprocess.run(["qemu-img", *command.split()], check=True)
    info, told = described(top)
    assert same(info, told, "size", "padded", "data", "compressed", "zero", "errors") and not info.errors
    assert [layer.name for layer in info.layers] == [str(top), str(base)]
    for layer, line in zip(info.layers, told["layers"], strict=True):
        assert same(layer, line, "role", "format", "size", "cluster_size", "properties", "warnings")
    (snapshot,), (bitmap,) = info.snapshots, info.bitmaps
    assert same(snapshot, told["snapshots"][0], "id", "name", "size", "state_size") and snapshot.name == "before"
    assert abs(snapshot.taken_ms / 1000 - time.time()) < 600
    assert same(bitmap, told["bitmaps"][0], "name", "granularity", "enabled", "in_use") and bitmap.name == "dirty"
    base.unlink()
    info, told = described(top)
    assert same(info, told, "size", "errors", "data") and info.data is None
    assert len(info.errors) == 1 and "base.img" in info.errors[0]
    assert [layer.role for layer in info.layers] == [line["role"] for line in told["layers"]]
