#!/usr/bin/env python3
"""Measures the block hash of images in other formats and of network exports, alternating with their peers.

    scripts/bench_formats.py [--dir DIR] [--size GIB] [--runs N] [--bin DIR]

Makes one half full image in DIR and, with qemu-img, the same content as qcow2: plain, zlib and zstd (about
2.5 times the size given in all; removed at the end). Before each run the image is read, so that it is in the
page cache. The export is one of qemu-nbd on a Unix socket; the processor time is the client's alone.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from alternate import GIB, MIB, Subject, apart, conditions, measure


def make_images(folder, size):
    """A raw image of which every other 16 MiB holds data that compresses to about a half, and its copies."""
    piece = 16 * MIB
    with open(folder / "half.raw", "wb") as file:
        file.truncate(size)
        for i in range(0, size // piece, 2):
            file.seek(i * piece)
            # Hexadecimal digits: four bits in each byte.
            file.write(os.urandom(piece // 2).hex().encode())
    convert = ["qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2"]
    for name, options in (
        ("half.qcow2", []),
        ("zlib.qcow2", ["-c"]),
        ("zstd.qcow2", ["-c", "-o", "compression_type=zstd"]),
    ):
        subprocess.run([*convert, *options, folder / "half.raw", folder / name], check=True)


class Server:
    """A qemu-nbd that serves an image on a Unix socket until the end of the `with`."""

    def __init__(self, image, socket):
        self.argv = ["qemu-nbd", "--read-only", "--persistent", "--shared=16", "-f", "raw", "-k", socket, image]
        self.socket = socket

    def __enter__(self):
        self.process = subprocess.Popen([str(a) for a in self.argv])
        for _ in range(500):
            if self.socket.exists():
                return self
            time.sleep(0.01)
        sys.exit("qemu-nbd does not listen")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--size", type=int, default=4, metavar="GIB")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bin", type=Path, default=Path("target/release"))
    options = parser.parse_args()
    size, runs = options.size * GIB, options.runs
    verisum = options.bin / "verisum"

    with tempfile.TemporaryDirectory(prefix="verisum-bench-", dir=options.dir) as name:
        folder = Path(name)
        apart(lambda: make_images(folder, size))
        conditions(verisum, f"{options.size} GiB, half of it data, in the page cache", runs)

        def ours(image, digest="sha256"):
            argv = [verisum, "image", "sum", "-a", digest, folder / image]
            return Subject(f"`verisum image sum -a {digest} {image}`", argv, size, image=folder / image)

        for digest in ("sha256", "null"):
            images = ["half.qcow2", "zlib.qcow2", "zstd.qcow2", "half.raw"]
            measure(f"{digest}: the same content in qcow2 and raw", [ours(i, digest) for i in images], runs)

        socket = folder / "nbd.sock"
        uri = f"nbd+unix:///?socket={socket}"
        with Server(folder / "half.raw", socket):
            def export(digest):
                argv = [verisum, "image", "sum", "-a", digest, uri]
                return Subject(f"`verisum image sum -a {digest} URI`", argv, size, image=folder / "half.raw")

            copy = Subject("`nbdcopy URI null:`", ["nbdcopy", uri, "null:"], size, image=folder / "half.raw")
            measure("an export of qemu-nbd", [export("null"), export("sha256"), copy], runs)


if __name__ == "__main__":
    main()
