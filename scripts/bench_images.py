#!/usr/bin/env python3
"""Measures whole commands on disk images, alternating with their peers, and prints tables in Markdown.

    scripts/bench_images.py [--dir DIR] [--size GIB] [--runs N] [--bin DIR] [--reader FILE] [--svg FILE]

Makes the images in DIR (about 2.5 times the size given; they are removed at the end) and runs every command
of a table in turn, N times round. Before each run the image is read, so that it is in the page cache. A
table shows the median wall time and the processor time of each command, its rate, the peak of its memory,
and how many times as fast it is as the last command of the table: the median of the rounds, and the least
and the most. A command that is not installed is left out, and said to be.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20
GIB = 1 << 30


class Subject:
    """One command: what to run, how to name it, and what it has read when it ends."""

    def __init__(self, label, argv, size, feed=None, image=None):
        self.label = label
        self.image = image
        self.argv = [str(a) for a in argv]
        self.size = size
        self.feed = feed
        self.wall, self.cpu, self.memory = [], [], []

    def available(self):
        return shutil.which(self.argv[0]) is not None

    def run(self):
        if self.image:
            read(self.image)
        start = time.perf_counter()
        feeder = None
        actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        if self.feed:
            feeder = subprocess.Popen(self.feed, stdout=subprocess.PIPE)
            actions.append((os.POSIX_SPAWN_DUP2, feeder.stdout.fileno(), 0))
        pid = os.posix_spawnp(self.argv[0], self.argv, os.environ, file_actions=actions)
        if feeder:
            feeder.stdout.close()
        _, status, usage = os.wait4(pid, 0)
        if feeder and feeder.wait() != 0:
            sys.exit(f"{self.feed} failed")
        self.wall.append(time.perf_counter() - start)
        if status != 0:
            sys.exit(f"{' '.join(self.argv)} failed")
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        # Never less than this process has: the system counts the moment before the command is loaded.
        self.memory.append(usage.ru_maxrss * 1024)

    def row(self, peer):
        wall = statistics.median(self.wall)
        ratios = sorted(p / w for p, w in zip(peer.wall, self.wall))
        rate = f"{self.size / wall / 1e9:.2f}" if self.size else ""
        ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"
        cpu = "" if None in self.cpu else f"{statistics.median(self.cpu) * 1e3:.1f}"
        memory = "" if None in self.memory else f"{max(self.memory) / MIB:.1f}"
        return (f"| {self.label} | {wall * 1e3:.1f} | {cpu} | {rate} | {memory} "
                f"| {ratio if self is not peer else '1'} |")


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


def read(path):
    """Brings a file into the page cache."""
    buffer = bytearray(MIB)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def measure(title, subjects, runs):
    """Runs the subjects in turn, prints their table and gives their seconds. The last one is the peer."""
    missing = [s.argv[0] for s in subjects if not s.available()]
    subjects = [s for s in subjects if s.available()]
    for _ in range(runs):
        for subject in subjects:
            subject.run()
    print(f"\n### {title}\n")
    print("| command | wall, ms | user + system, ms | GB/s | peak memory, MiB | times as fast |")
    print("|---|--:|--:|--:|--:|--:|")
    for subject in subjects:
        print(subject.row(subjects[-1]))
    for name in missing:
        print(f"\nLeft out, not installed: {name}")
    sys.stdout.flush()
    return [statistics.median(subject.wall) for subject in subjects]


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


def processor():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


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
        # In a process of its own: what this one holds would count as the peak memory of those it starts.
        maker = os.fork()
        if maker == 0:
            make_images(folder, size)
            os._exit(0)
        if os.waitpid(maker, 0)[1] != 0:
            sys.exit("the images could not be made")
        version = subprocess.run([verisum, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        print(f"{version.strip()}; {processor()}, {len(os.sched_getaffinity(0))} cores; Linux "
              f"{platform.release()}; {options.size} GiB images in the page cache; median of {runs} "
              f"alternating runs; load at the start {os.getloadavg()[0]:.2f}.")

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
