#!/usr/bin/env python3
"""Measures the digests that other systems make of blocks beside the usual programs, on one file in memory.

`openssl md5` stands for the ETag of S3, `openssl sha256` for Glacier and Dropbox, as no program of Debian computes
these; `fsverity digest` computes its own. Each command runs in turn with its peer.
"""

import argparse
import os
import tempfile

from alternate import MIB, Subject, apart, conditions, measure

PEERS = [
    ("s3-etag:8M", ["openssl", "md5"]),
    ("glacier", ["openssl", "sha256"]),
    ("dropbox", ["openssl", "sha256"]),
    ("fsverity", ["fsverity", "digest"]),
]


def fill(path, size):
    """Writes so many bytes that no program can know in advance."""
    with open(path, "wb") as file:
        for start in range(0, size, MIB):
            file.write(os.urandom(min(MIB, size - start)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--mib", type=int, default=4096, help="length of the file")
    parser.add_argument("--verisum", default="target/release/verisum")
    parser.add_argument("--folder", default="/dev/shm")
    arguments = parser.parse_args()
    verisum, size = os.path.abspath(arguments.verisum), arguments.mib * MIB
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = os.path.join(folder, "file")
        apart(lambda: fill(path, size))
        conditions(verisum, f"one file of {arguments.mib} MiB in memory", arguments.runs)
        for name, peer in PEERS:
            ours = Subject(f"`verisum sum -a {name}`", [verisum, "sum", "-a", name, path], size)
            theirs = Subject(f"`{' '.join(peer)}`", [*peer, path], size)
            measure(name, [ours, theirs], arguments.runs)


if __name__ == "__main__":
    main()
