#!/usr/bin/env python3
"""Measures the Python package beside hashlib and the command, alternating, as ratios.

Run it with the Python that has `verisum` installed from a release wheel:

    bench_python.py [--runs N] [--files N] [--command PROGRAM] [--kernels PROGRAM] [--tree DIR]

PROGRAM of --kernels is the same job without Python: `cargo build --release -p verisum-digest --example many`, then
target/release/examples/many. The packages blake3, xxhash and checksumdir are measured where they are installed.

Prints a line of JSON for each comparison: the medians in seconds, and the median of the ratios of runs side by side.
"""

import argparse
import hashlib
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import verisum


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=15)
    arguments.add_argument("--files", type=int, default=100_000)
    arguments.add_argument("--command", default=shutil.which("verisum"))
    arguments.add_argument("--kernels", help="the example `many` of verisum-digest")
    arguments.add_argument("--tree", help="where the files are made, which memory holds afterwards")
    options = arguments.parse_args()
    for name, count, length in (("10,000 of 4 KiB", 10_000, 4096), ("64 of 1 MiB", 64, 1 << 20)):
        many(f"hash_many, {name}", count, length, options.runs)
        if options.kernels:
            without_python(f"hash_many, {name}", count, length, options)
    one("object, 1 MiB", 1 << 20, 200, options.runs)
    one("object, 100 bytes", 100, 50_000, options.runs)
    with tempfile.TemporaryDirectory(dir=options.tree) as folder:
        files(folder, options)
    imports(options.runs)


def package(name):
    """A package, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: NOT MEASURED", file=sys.stderr)
        return None


def timed(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare(name, ours, theirs, runs, against, time_theirs=timed):
    """Runs both in turn, the first of each pair changing."""
    pairs = []
    ours(), theirs()
    for run in range(runs):
        if run % 2:
            pairs.append((timed(ours), time_theirs(theirs)))
        else:
            other = time_theirs(theirs)
            pairs.append((timed(ours), other))
    print(
        json.dumps(
            {
                "what": name,
                "against": against,
                "runs": runs,
                "seconds": round(statistics.median(a for a, _ in pairs), 6),
                "other": round(statistics.median(b for _, b in pairs), 6),
                "times_as_fast": round(statistics.median(b / a for a, b in pairs), 3),
            }
        ),
        flush=True,
    )


def sha256(data):
    return hashlib.sha256(data).digest()


def many(name, count, length, runs):
    buffers = [os.urandom(length) for _ in range(count)]
    with ThreadPoolExecutor(2) as pool:
        compare(
            name,
            lambda: verisum.hash_many(buffers, "sha256", threads=2),
            lambda: list(pool.map(sha256, buffers, chunksize=1)),
            runs,
            "hashlib in a thread pool of two",
        )
    compare(
        name,
        lambda: verisum.hash_many(buffers, "sha256", threads=1),
        lambda: [sha256(buffer) for buffer in buffers],
        runs,
        "hashlib, one thread each",
    )


    if blake3 := package("blake3"):
        compare(
            name,
            lambda: verisum.hash_many(buffers, "blake3", threads=1),
            lambda: [blake3.blake3(buffer).digest() for buffer in buffers],
            runs,
            "blake3, one thread each",
        )
    if xxhash := package("xxhash"):
        compare(
            name,
            lambda: verisum.hash_many(buffers, "xxh3-128", threads=1),
            lambda: [xxhash.xxh3_128_digest(buffer) for buffer in buffers],
            runs,
            "xxhash, one thread each",
        )


def without_python(name, count, length, options):
    buffers = [os.urandom(length) for _ in range(count)]
    words = [options.kernels, "sha256", str(count), str(length), "2"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as kernels:

        def theirs():
            print(file=kernels.stdin, flush=True)
            return float(kernels.stdout.readline())

        compare(
            name,
            lambda: verisum.hash_many(buffers, "sha256", threads=2),
            theirs,
            options.runs,
            "the kernels without Python, two threads each",
            lambda work: work(),
        )
        kernels.stdin.close()


def one(name, length, count, runs):
    data = os.urandom(length)

    def ours():
        for _ in range(count):
            verisum.new("sha256", data).digest()

    def theirs():
        for _ in range(count):
            hashlib.sha256(data).digest()

    def by_name():
        for _ in range(count):
            hashlib.new("sha256", data).digest()

    compare(name, ours, theirs, runs, "hashlib.sha256")
    compare(name, ours, by_name, runs, "hashlib.new")


def files(folder, options):
    paths = []
    for number in range(options.files):
        if number % 1000 == 0:
            parent = Path(folder, f"{number // 1000:03}")
            parent.mkdir()
        path = parent / f"{number:06}"
        path.write_bytes(os.urandom(4096))
        paths.append(str(path))

    def ours():
        return sum(1 for row in verisum.hash_files(folder, ["sha256"]) if row.digest)

    def by_pool():
        def digest(path):
            with open(path, "rb") as file:
                return hashlib.file_digest(file, "sha256").digest()

        with ThreadPoolExecutor(2) as pool:
            return sum(1 for _ in pool.map(digest, paths))

    name = f"hash_files, {options.files:,} of 4 KiB"
    runs = max(3, options.runs // 3)
    if options.command:
        command = [options.command, "sum", "-r", "-a", "sha256", folder]
        compare(name, ours, lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True), runs, "the command")
    compare(name, ours, by_pool, runs, "hashlib in a thread pool of two")
    if checksumdir := package("checksumdir"):
        compare(name, ours, lambda: checksumdir.dirhash(folder, "sha256"), runs, "checksumdir")


def imports(runs):
    def starts(code):
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    compare("start with import verisum", starts("import verisum"), starts("pass"), runs, "start without")


if __name__ == "__main__":
    main()
