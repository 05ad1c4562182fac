#!/usr/bin/env python3
"""Measures how fast files are read that are not in memory, beside fio, and prints tables in Markdown.

Needs root and fio.

    sudo scripts/bench_disk.py [--rate MB] [--runs N] [--verisum PROGRAM]

The disk is a loop device in memory with the usual readahead. The system limits how many megabytes a second are read of
it, so that it is as fast in each run. Before each run the page cache is emptied, and the program reads a small file
elsewhere, so that it need not be loaded. fio counts its own time, without its start.
"""

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from alternate import MIB, Subject, conditions, measure

FILE, FILES, EACH = 1024 * MIB, 10, 96 * MIB
DEPTHS = (1, 4, 16, 64)
READAHEAD = "128"


class Cold(Subject):
    """A command whose files are not in memory."""

    def __init__(self, label, argv, size, small):
        super().__init__(label, argv, size)
        self.warm = [*argv[:-1], small]

    def run(self):
        forget()
        subprocess.run(self.warm, stdout=subprocess.DEVNULL, check=True)
        super().run()


class Fio(Subject):
    """The least time of all queue depths, through the page cache and past it."""

    def run(self):
        self.wall.append(min(self.once(depth, direct) for depth in DEPTHS for direct in (0, 1)))
        self.cpu.append(None)
        self.memory.append(None)

    def once(self, depth, direct):
        forget()
        options = [f"--iodepth={depth}", f"--direct={direct}"]
        output = subprocess.run([*self.argv, *options], stdout=subprocess.PIPE, check=True).stdout
        return max(job["read"]["runtime"] for job in json.loads(output)["jobs"]) / 1000


def forget():
    """Empties the page cache."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


@contextlib.contextmanager
def limited(device, rate):
    """Limits meanwhile how many bytes a second this process and those that it starts read of a device."""
    number = os.stat(device).st_rdev
    number = f"{os.major(number)}:{os.minor(number)}"
    old = Path("/sys/fs/cgroup/blkio")
    group = (old if old.exists() else Path("/sys/fs/cgroup")) / "verisum_bench_disk"
    group.mkdir(exist_ok=True)
    if old.exists():
        (group / "blkio.throttle.read_bps_device").write_text(f"{number} {rate}", encoding="ascii")
    else:
        (group / "io.max").write_text(f"{number} rbps={rate}", encoding="ascii")
    try:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        group.rmdir()


def fill(path, size):
    with open(path, "wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))


def bench(folder, arguments):
    """Fills the disk, and prints the tables."""
    file, tree = os.path.join(folder, "file"), os.path.join(folder, "tree")
    small = os.path.join(os.path.dirname(folder), "small")
    fill(file, FILE)
    fill(small, MIB)
    os.mkdir(tree)
    files = [os.path.join(tree, str(number)) for number in range(FILES)]
    for name in files:
        fill(name, EACH)
    verisum = os.path.abspath(arguments.verisum)
    conditions(verisum, f"a disk of {arguments.rate} MB/s", arguments.runs)

    def fio(names, size):
        argv = ["fio", "--name=read", "--rw=read", "--bs=1M", "--ioengine=io_uring", "--readonly"]
        return Fio("`fio`", [*argv, "--output-format=json", f"--filename={':'.join(names)}"], size)

    def cold(*words):
        label = " ".join([os.path.basename(words[0]), *words[1:]])
        return lambda path, size: Cold(f"`{label}`", [*words, path], size, small)

    digests = ("xxh3", "blake3", "crc32c", "sha256")
    one = [cold(verisum, "sum", "-a", digest) for digest in digests]
    one += [cold(verisum, "image", "sum"), cold("b3sum")]
    measure("A file of 1 GiB", [command(file, FILE) for command in one] + [fio([file], FILE)], arguments.runs)
    many, size = [cold(verisum, "sum", "-r", "-a", digest) for digest in digests], FILES * EACH
    measure("Ten files of 96 MiB", [command(tree, size) for command in many] + [fio(files, size)], arguments.runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--verisum", default="target/release/verisum")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as work:
        disk, folder = os.path.join(work, "disk"), os.path.join(work, "mounted")
        with open(disk, "wb") as file:
            file.truncate(3 << 30)
        os.mkdir(folder)
        subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
        subprocess.run(["mount", "-o", "loop,noatime", disk, folder], check=True)
        try:
            found = subprocess.run(["findmnt", "-no", "SOURCE", folder], stdout=subprocess.PIPE, text=True, check=True)
            device = found.stdout.strip()
            queue = Path("/sys/block") / os.path.basename(device) / "queue"
            (queue / "read_ahead_kb").write_text(READAHEAD, encoding="ascii")
            with limited(device, arguments.rate * 1_000_000):
                bench(folder, arguments)
        finally:
            subprocess.run(["umount", folder], check=True)


if __name__ == "__main__":
    main()
