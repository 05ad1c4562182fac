#!/usr/bin/env python3
"""Measures whole commands on trees of files, alternating with their peers, and prints tables in Markdown.

    scripts/bench_trees.py [--dir DIR] [--runs N] [--bin DIR] [--files N] [--big N] [--walk BENCH] [--tags BENCH]
                           [--million]

Makes a tree of N small files (100,000 of 4 KiB) and one of large files (16 of 256 MiB) in DIR, which must be
on a file system with extended attributes; all is removed at the end. The files are in the page cache.
--walk and --tags name the built benches of crates/files, which print the seconds of the bare system calls;
without them they are built with cargo.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from alternate import MIB, Subject, apart, conditions, measure


def make_small(folder, count):
    """`count` files of 4 KiB, 1,000 in a directory."""
    pool = os.urandom(4096)
    for i in range(count):
        directory = folder / f"{i // 1000:05}"
        if i % 1000 == 0:
            directory.mkdir(parents=True)
        (directory / f"file-{i:015}").write_bytes(i.to_bytes(8, "big") + pool[8:])


def make_big(folder, count):
    folder.mkdir()
    pool = os.urandom(16 * MIB)
    for i in range(count):
        with open(folder / f"big-{i:02}", "wb") as file:
            for j in range(16):
                file.write((i * 16 + j).to_bytes(8, "big") + pool[8:])


def make_flat(folder, count):
    """`count` files of a few bytes in one directory."""
    folder.mkdir()
    for i in range(count):
        (folder / f"file-{i:015}").write_bytes(i.to_bytes(8, "big"))


def built_benches():
    """The paths of the benches of crates/files, by name."""
    argv = ["cargo", "bench", "-p", "verisum-files", "--bench", "files", "--bench", "tags", "--no-run",
            "--message-format", "json"]
    lines = subprocess.run(argv, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True, check=True).stdout
    messages = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return {m["target"]["name"]: Path(m["executable"]) for m in messages if m.get("executable")}


class Bare(Subject):
    """A bench that does the bare system calls and prints its own seconds, as in `0.123 s`."""

    def run(self):
        if self.before:
            self.before()
        text = subprocess.run(self.argv, stdout=subprocess.PIPE, text=True, check=True).stdout
        found = re.search(r"([0-9.]+) s\b", text)
        if not found:
            sys.exit(f"{self.argv[0]} prints no seconds")
        self.wall.append(float(found.group(1)))
        self.cpu.append(None)
        self.memory.append(None)


def warm(folder):
    subprocess.run(f"find {folder} -type f -print0 | xargs -0 cat > /dev/null", shell=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bin", type=Path, default=Path("target/release"))
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--big", type=int, default=16)
    parser.add_argument("--walk", type=Path, help="the built bench of the bare walk and reads")
    parser.add_argument("--tags", type=Path, help="the built bench of the bare walk and attributes")
    parser.add_argument("--million", action="store_true", help="also a million small files: status and scrub")
    options = parser.parse_args()
    verisum = (options.bin / "verisum").resolve()
    if not (options.walk and options.tags):
        benches = built_benches()
        options.walk, options.tags = options.walk or benches["files"], options.tags or benches["tags"]
    cores = len(os.sched_getaffinity(0))

    with tempfile.TemporaryDirectory(prefix="verisum-bench-", dir=options.dir) as name:
        folder = Path(name)
        small, big = folder / "small", folder / "big"
        apart(lambda: (make_small(small, options.files), make_big(big, options.big)))
        warm(small)
        conditions(verisum, "files in the page cache", options.runs)

        def ours(digest, tree, count):
            argv = [verisum, "sum", "-r", "-a", digest, tree]
            return Subject(f"`verisum sum -r -a {digest}`", argv, 0, files=count)

        def piped(command, tree, count, batch):
            line = f"find . -type f -print0 | xargs -0 -P{cores} -n{batch} {command}"
            argv = ["sh", "-c", f"cd {tree} && {line}"]
            return Subject(f"`{line.replace('|', chr(92) + '|')}`", argv, 0, files=count)

        def together(command, tree, count):
            """All files to as few processes as xargs likes: one."""
            line = f"find . -type f -print0 | xargs -0 -P{cores} {command}"
            argv = ["sh", "-c", f"cd {tree} && {line}"]
            return Subject(f"`{line.replace('|', chr(92) + '|')}`", argv, 0, files=count)

        for digest, peer in (("sha256", "sha256sum"), ("md5", "md5sum"), ("blake3", "b3sum --num-threads 1")):
            table = [ours(digest, small, options.files)]
            table.append(Bare("walk, open, fstat, read, close", [options.walk, small], 0, files=options.files))
            table.append(piped(peer, small, options.files, 1000))
            measure(f"{digest}: {options.files:,} files of 4 KiB", table, options.runs)
        for digest, peer in (("md5", "md5sum"), ("sha256", "openssl dgst -sha256")):
            # The last one is the peer: as few processes as xargs likes. `cat` shows what reading alone takes.
            table = [ours(digest, big, options.big), piped("cat", big, options.big, 1),
                     piped(peer, big, options.big, 1), together(peer, big, options.big)]
            measure(f"{digest}: {options.big} files of 256 MiB", table, options.runs)

        files = sorted(big.iterdir())

        def of_files(line, count):
            title = " ".join([Path(line[0]).name, *line[1:]])
            return Subject(f"`{title}` of {count}", [*line, *files[:count]], 0, files=count)

        for count in (1, 2, 3, 4, 8):
            # Each file is one chain: a peer does no better than one process for each of as many files as there are cores.
            table = [of_files([str(verisum), "sum"], count), of_files(["openssl", "dgst", "-sha256"], count)]
            measure(f"sha256: {count} files of 256 MiB", table, options.runs)
        for count in (1, options.big):
            table = [of_files([str(verisum), "sum", "-a", "blake3"], count), of_files(["b3sum"], count)]
            measure(f"blake3: {count} files of 256 MiB", table, options.runs)

        def untag():
            subprocess.run(["sh", "-c", f"find {small} -type f -print0 | xargs -0 setfattr -x user.verisum"],
                           stderr=subprocess.DEVNULL, check=False)

        table = [Subject("`verisum tag`", [verisum, "tag", small], 0, files=options.files, before=untag)]
        bare = [options.tags, small]
        table.append(Bare("walk, open, set attribute", bare, 0, files=options.files, before=untag))
        measure(f"tagging {options.files:,} new files", table, options.runs)

        flat = folder / "flat"
        apart(lambda: make_flat(flat, 200_000))
        measure("sha256: a directory of 200,000 files of 8 bytes", [ours("sha256", flat, 200_000)], options.runs)

        if options.million:
            many, catalogue = folder / "million", folder / "catalogue.db"
            apart(lambda: make_small(many, 1_000_000))
            # The tags first: they move the times of inodes, and all files would be read again.
            subprocess.run([verisum, "tag", many], check=True, stderr=subprocess.DEVNULL)
            subprocess.run([verisum, "scrub", "--quiet", "--catalog", catalogue, many], check=True)
            print(f"\nThe catalogue of a million files takes {catalogue.stat().st_size / 1e6:.0f} bytes a file.")
            nothing = [verisum, "scrub", "--quiet", "--max-age", "90d", "--catalog", catalogue, many]
            measure("a million files, nothing due", [
                Subject("`verisum scrub --max-age 90d`", nothing, 0, files=1_000_000),
                Subject("`verisum status`", [verisum, "status", many], 0, files=1_000_000),
                Subject("`find -type f -printf '%s %T@'`", ["find", many, "-type", "f", "-printf", "%s %T@\\n"], 0,
                        files=1_000_000),
            ], options.runs)
            measure("sha256: a million files of 4 KiB", [ours("sha256", many, 1_000_000)], options.runs)


if __name__ == "__main__":
    main()
