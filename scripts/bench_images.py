#!/usr/bin/env python3
"""Measures whole commands on disk images, alternating with their peers, and prints tables in Markdown.

    scripts/bench_images.py [--dir DIR] [--size GIB] [--runs N] [--bin DIR] [--reader FILE] [--svg FILE]

Makes the images in DIR (about 2.5 times the size given; they are removed at the end) and runs every command
of a table in turn, N times round. Before each run the image is read, so that it is in the page cache.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from alternate import GIB, MIB, Subject, apart, conditions, measure, processor, read


class Reader(Subject):
    """The bench that reads a file without hashing. It reports the rate of its own measured part."""

    method = None

    def run(self):
        read(self.image)
        output = subprocess.run(self.argv, stdout=subprocess.PIPE, text=True, check=True).stdout
        # A line for each method: `GB/s best cached method`.
        [line] = [line for line in output.splitlines() if line.endswith(f"%  {self.method}")]
        seconds = self.size / (float(line.split()[0]) * 1e9)
        self.wall.append(seconds)
        self.cpu.append(None)
        self.memory.append(None)


def draw(file, rows, note):
    """Draws pairs of bars: `rows` are a label, our seconds and the peer's."""
    width, left, height = 760, 150, 54
    scale = (width - left - 150) / max(peer for _, _, peer in rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height * len(rows) + 60}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height * len(rows) + 60}" fill="#fff"/>',
    ]
    for i, (label, ours, peer) in enumerate(rows):
        y = 12 + i * height
        lines.append(f'<text x="{left - 10}" y="{y + 24}" text-anchor="end">{label}</text>')
        for bar, seconds, colour in ((y, ours, "#2a6fbb"), (y + 20, peer, "#b8b8b8")):
            name = "verisum" if seconds is ours else "openssl dgst"
            lines.append(f'<rect x="{left}" y="{bar}" width="{max(seconds * scale, 1):.1f}" height="18" '
                         f'fill="{colour}"/>')
            lines.append(f'<text x="{left + seconds * scale + 6:.1f}" y="{bar + 14}">{name} '
                         f'{seconds:.{3 if seconds < 0.1 else 2}f} s</text>')
    lines.append(f'<text x="10" y="{height * len(rows) + 38}" fill="#555" font-size="12">{note}</text>')
    file.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


def make_images(folder, size):
    """The images of the published measurement of blksum: full, half full, zeros, empty."""
    piece = 16 * MIB
    pool = [os.urandom(piece) for _ in range(4)]

    def write(name, holds_data, zeros=False):
        with open(folder / name, "wb") as file:
            file.truncate(size)
            for i in range(size // piece):
                if holds_data(i):
                    file.seek(i * piece)
                    # Another first byte each time, so that no two pieces are equal.
                    file.write(bytes(piece) if zeros else i.to_bytes(4, "big") + pool[i % 4][4:])

    write("full.img", lambda i: True)
    write("half.img", lambda i: i % 2 == 0)
    write("zeros.img", lambda i: True, zeros=True)
    write("empty.img", lambda i: False)
    (folder / "small.img").write_bytes(os.urandom(64 * 1024))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--size", type=int, default=4, metavar="GIB")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bin", type=Path, default=Path("target/release"))
    parser.add_argument("--svg", type=Path, help="also draw the SHA-256 tables")
    parser.add_argument("--reader", type=Path, help="the built bench `read` of crates/image")
    options = parser.parse_args()
    size, runs = options.size * GIB, options.runs
    verisum = options.bin / "verisum"

    with tempfile.TemporaryDirectory(prefix="verisum-bench-", dir=options.dir) as name:
        folder = Path(name)
        apart(lambda: make_images(folder, size))
        conditions(verisum, f"{options.size} GiB images in the page cache", runs)

        def ours(image, digest="sha256", *more):
            label = f"`verisum image sum -a {digest} {' '.join(more)} {image}`".replace("  ", " ")
            argv = [verisum, "image", "sum", "-a", digest, *more, folder / image]
            return Subject(label, argv, size, image=folder / image)

        def openssl(image, digest="sha256"):
            argv = ["openssl", "dgst", f"-{digest}", folder / image]
            return Subject(f"`openssl dgst -{digest} {image}`", argv, size, image=folder / image)

        bars = []
        for image in ("full.img", "half.img", "zeros.img", "empty.img"):
            blksum = Subject(f"`blksum --cache {image}`", [options.bin / "blksum", "--cache", folder / image], size,
                             image=folder / image)
            table = [ours(image), ours(image, "sha256", "--cache"), blksum, openssl(image)]
            seconds = measure(f"SHA-256, {image}", table, runs)
            bars.append((f"{options.size} GiB, {image.removesuffix('.img')}", seconds[0], seconds[-1]))
        if options.svg:
            draw(options.svg, bars, f"SHA-256 of images in the page cache; {processor()}, "
                 f"{len(os.sched_getaffinity(0))} cores; median of {runs}. scripts/bench_images.py")
        for digest in ("md5", "sha1", "sha512", "blake2b512", "sha3-256"):
            measure(f"{digest}, full.img", [ours("full.img", digest), openssl("full.img", digest)], runs)
        b3sum = Subject("`b3sum full.img`", ["b3sum", folder / "full.img"], size, image=folder / "full.img")
        measure("blake3, full.img", [ours("full.img", "blake3"), b3sum], runs)

        pipe = ["cat", folder / "full.img"]
        measure("standard input", [
            Subject("`cat full.img \\| verisum image sum -`", [verisum, "image", "sum", "-"], size, pipe, folder / "full.img"),
            Subject("`cat full.img \\| openssl dgst -sha256`", ["openssl", "dgst", "-sha256"], size, pipe, folder / "full.img"),
            Subject("`cat full.img \\| cat`", ["cat"], size, pipe, folder / "full.img"),
        ], runs)

        limits = [ours("full.img", "null"), ours("full.img", "null", "--cache")]
        if options.reader:
            for method in ("image, 1024 KiB", "image --cache, 512 KiB", "pread, 1024 KiB"):
                argv = [options.reader, "--only", method, "--rounds", "1", folder / "full.img"]
                reader = Reader(f"reading on all cores: {method}", argv, size, image=folder / "full.img")
                reader.method = method
                limits.append(reader)
        else:
            print("\nLeft out: the reader without hashing (give it with --reader)")
        measure("the machinery without a digest", limits, runs)

        many = max(50, runs)
        true = Subject("`/bin/true`", ["/bin/true"], 0)
        small = Subject("`verisum image sum` of 64 KiB", [verisum, "image", "sum", folder / "small.img"], 0)
        blksum = Subject("`blksum` of 64 KiB", [options.bin / "blksum", folder / "small.img"], 0)
        empty = Subject("`verisum image sum empty.img`", [verisum, "image", "sum", folder / "empty.img"], 0)
        peer = Subject("`openssl dgst -sha256` of 64 KiB", ["openssl", "dgst", "-sha256", folder / "small.img"], 0)
        measure("starting up", [small, blksum, empty, peer, true], many)


if __name__ == "__main__":
    main()
