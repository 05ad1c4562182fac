"""Files as tables of pyarrow, for engines that run a function on many machines."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pyarrow as pa

import verisum


def hash_paths(
    paths: Iterable[str | bytes | os.PathLike[str]] | str | bytes | os.PathLike[str],
    algorithm: str = "sha256",
    *,
    threads: int = 1,
    limit: int | None = None,
    requests: int | None = None,
) -> pa.Table:
    """Hashes files of this machine, and gives a table with a row for each, as `verisum.HashFiles.to_arrow` has them.

    It can be pickled and needs neither Dask nor a lake, so Ray, Spark and others run it as it is.

    Args:
        paths: The files, or one.
        algorithm: The name of a digest, as for `verisum.new`.
        threads: How many threads read and hash; 0 for as many as there are cores.
        limit: The most bytes to read in a second.
        requests: The most files, and pieces of large files, to read in a second.

    Raises:
        DigestError: The digest is not to be had.
    """
    # Text could be an address of a host; bytes never are.
    several = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    files = [os.fsencode(path) for path in several]
    options = {"ordered": True, "threads": threads, "limit": limit, "requests": requests}
    return pa.table(verisum.hash_files(files, [algorithm], **options))  # type: ignore[arg-type]
