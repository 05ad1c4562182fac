#!/usr/bin/env python3
"""Times `verisum copy` beside `cp -a` and `sha256sum -c`, in turns and in random order.

    scripts/bench_copy.py VERISUM FOLDER [ROUNDS] [SMALL_FILES] [LARGE_GIB]

makes 100,000 files of 4 KiB and one of 4 GiB in FOLDER, and prints the median of each command in seconds. The
sources are in the page cache; before each run the last copy is removed and the disk is left to come to rest.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import time


def make(folder, small, gib):
    tree = os.path.join(folder, "small")
    if not os.path.exists(tree):
        for number in range(small):
            directory = os.path.join(tree, str(number // 1000))
            if number % 1000 == 0:
                os.makedirs(directory)
            with open(os.path.join(directory, str(number)), "wb") as file:
                file.write(os.urandom(4096))
    large = os.path.join(folder, "large")
    if not os.path.exists(large):
        with open(large, "wb") as file:
            for _ in range(gib * 64):
                file.write(os.urandom(16 << 20))
    for source in ("small", "large"):
        with open(os.path.join(folder, source + ".sums"), "w") as sums:
            subprocess.run(f"find {source} -type f -print0 | xargs -0 sha256sum", shell=True, cwd=folder, stdout=sums, check=True)
    subprocess.run(["sync"], check=True)


def main():
    verisum, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    rounds, small, gib = (int(value) for value in (sys.argv[3:] + ["5", "100000", "4"][len(sys.argv) - 3 :]))
    os.makedirs(folder, exist_ok=True)
    make(folder, small, gib)
    copy = [verisum, "copy", "-q"]
    environment = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, "state"))
    rows = []
    for source in ("small", "large"):
        rows += [
            (f"{source}: cp -a", ["cp", "-a", source, "to"]),
            (f"{source}: copy --verify none -a blake3", copy + ["--verify", "none", "-a", "blake3", source, "to"]),
            (f"{source}: copy --verify none -a sha256", copy + ["--verify", "none", "-a", "sha256", source, "to"]),
            (f"{source}: cp -a and sha256sum -c", ["sh", "-c", f"cp -a {source} to && cd to.d && sha256sum --quiet -c ../{source}.sums"]),
            (f"{source}: copy -a sha256 (reread)", copy + ["-a", "sha256", source, "to"]),
            (f"{source}: copy -a blake3 (reread)", copy + ["-a", "blake3", source, "to"]),
        ]
    rows.append(("large: sum -a sha256", [verisum, "sum", "-j1", "-a", "sha256", "large"]))
    rows.append(("large: sum -a blake3", [verisum, "sum", "-j1", "-a", "blake3", "large"]))
    times = {name: [] for name, _ in rows}
    only = os.environ.get("ONLY", "")
    for number in range(rounds):
        random.shuffle(rows)
        for name, command in rows:
            if only not in name:
                continue
            source = name.split(":")[0]
            to = os.path.join(folder, "to")
            subprocess.run(["rm", "-rf", to, os.path.join(folder, "to.d")], check=True)
            # sha256sum finds the copy under the name of its source.
            os.makedirs(os.path.join(folder, "to.d"))
            os.symlink("../to", os.path.join(folder, "to.d", source))
            subprocess.run(["sync"], check=True)
            with open(os.path.join(folder, "large"), "rb") as file:
                while source == "large" and file.read(16 << 20):
                    pass
            start = time.monotonic()
            subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.monotonic() - start)
    for name in sorted(times):
        if times[name]:
            values = " ".join(f"{value:.2f}" for value in times[name])
            print(f"{statistics.median(times[name]):8.2f}  {name}  ({values})")
    shutil.rmtree(os.path.join(folder, "to.d"))


main()
