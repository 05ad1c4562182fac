"""Hashes files with the workers of Ray: `python ray_hash.py PATH…` prints digests as sha256sum does.

Each task gets paths and gives an Arrow table, which Ray keeps without a copy.
"""

from __future__ import annotations

import sys
from typing import Any

import ray  # pyright: ignore[reportMissingImports]

from verisum.tables import hash_paths

BATCH = 10_000


def hash_with_ray(paths: list[str]) -> list[Any]:
    """A table for each batch of paths."""
    task = ray.remote(hash_paths)
    batches = [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]
    return list(ray.get([task.remote(batch, "sha256") for batch in batches]))  # pyright: ignore[reportCallIssue]


if __name__ == "__main__":
    ray.init(include_dashboard=False)
    for table in hash_with_ray(sys.argv[1:]):
        for row in table.select(["path", "sha256", "error"]).to_pylist():
            print(row["error"] or f"{row['sha256'].hex()}  {row['path']}")
