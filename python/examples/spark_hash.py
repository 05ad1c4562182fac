"""Hashes files with the workers of Spark: `PYSPARK_PYTHON=python python spark_hash.py PATH…` prints digests as sha256sum
does. PYSPARK_PYTHON is the Python that Spark starts, which needs verisum.

Spark cuts the paths into batches, and each batch becomes an Arrow table. Every worker must see the files under these
paths.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pyarrow
from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]

from verisum.tables import hash_paths


def hash_batches(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Rows of files, from batches with a column of paths."""
    for batch in batches:
        table = hash_paths(batch.column("path").to_pylist(), "sha256")
        # Spark knows binary columns, but none of fixed length.
        table = table.select(["path", "sha256", "error"])
        yield from table.set_column(1, "sha256", table["sha256"].cast(pyarrow.binary())).to_batches()


def hash_with_spark(spark: Any, paths: list[str]) -> list[Any]:
    """The rows of files."""
    frame = spark.createDataFrame([(path,) for path in paths], "path string")
    return list(frame.mapInArrow(hash_batches, "path string, sha256 binary, error string").collect())


if __name__ == "__main__":
    for row in hash_with_spark(SparkSession.builder.getOrCreate(), sys.argv[1:]):
        print(row.error or f"{bytes(row.sha256).hex()}  {row.path}")
