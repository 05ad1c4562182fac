"""Many machines at work on places: hashes, scrubs and compares them with the workers of `dask.distributed`.

    >>> import verisum.dask
    >>> verisum.dask.Place("/srv/photos", name="photos", bytes_per_second=100_000_000).at_once
    1

`hash_places`, `scrub_places` and `compare_places` cut places into tasks, send each to a worker that has the place, and
keep what was found in a lake: Parquet parts in a shared directory or bucket, each written whole or not at all. A killed
worker, scheduler or client loses no part, and who starts again reads nothing twice.

It needs more packages: ``pip install verisum[dask]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from verisum.dask._arguments import number, seconds, text
from verisum.dask._compare import FleetComparison, compare_records
from verisum.dask._cut import Mode
from verisum.dask._errors import FleetError, LakeError, PlaceError, VersionError
from verisum.dask._place import Place
from verisum.dask._report import PlaceReport, Report
from verisum.dask._run import Run, as_places
from verisum.dask._work import BadFile, milliseconds
from verisum.tables import hash_paths

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "BadFile",
    "FleetComparison",
    "FleetError",
    "LakeError",
    "Place",
    "PlaceError",
    "PlaceReport",
    "Report",
    "VersionError",
    "compare_places",
    "hash_paths",
    "hash_places",
    "scrub_places",
]


def hash_places(
    client: Client,
    places: Iterable[Place | str] | Place | str,
    out: str,
    *,
    algorithm: str = "sha256",
    budget: float | timedelta | None = None,
    threads: int = 1,
    patience: float = 60.0,
    task_files: int = 10_000,
    task_bytes: int = 1 << 30,
) -> Report:
    """Hashes the files of places that are new or changed since they were hashed into this lake.

    Args:
        client: Who sends tasks to the workers.
        places: Places, or paths that every worker sees.
        out: The lake: a directory that client and workers share, or an address of fsspec.
        algorithm: The name of a digest, as for `verisum.new`.
        budget: Time budget in seconds, more than 0: no task starts after it.
        threads: How many threads a task reads and hashes with; a worker does as many tasks at once as Dask lets it.
        patience: Give up a place after so many seconds without a worker that has it.
        task_files: A task has at least so many files, if there are as many …
        task_bytes: … or so many bytes.

    Raises:
        TypeError, ValueError: An argument is wrong, or no place is named.
        DigestError: The digest is not to be had.
        LakeError: The lake cannot be read or written. A damaged part is an error of its place in the report.
        VersionError: A worker has another version of verisum. One that comes later gets no work: `Report.refused`.
        FleetError: The scheduler is gone.
        KeyboardInterrupt: Ctrl-C. Tasks that were begun end, and their parts are kept.
    """
    mode = mode_of(False, algorithm, None, task_files, task_bytes)
    run = Run(client, as_places(places), text("out", out), mode, budget=budget, threads=threads, patience=patience)
    return run.go()


def scrub_places(
    client: Client,
    places: Iterable[Place | str] | Place | str,
    catalog: str,
    *,
    algorithm: str = "sha256",
    max_age: float | timedelta | None = None,
    budget: float | timedelta | None = None,
    threads: int = 1,
    patience: float = 60.0,
    task_files: int = 10_000,
    task_bytes: int = 1 << 30,
) -> Report:
    """Reads files of places again and judges them by their records, as `verisum scrub` does.

    Files without a record get one. The next run resumes an interrupted one: what that has verified is not read again.

    Args:
        client: Who sends tasks to the workers.
        places: Places, or paths that every worker sees.
        catalog: The lake with the records: a directory that client and workers share, or an address of fsspec.
        algorithm: The name of the digest of files that have no record; others keep theirs.
        max_age: Leave out files that were verified in the last so many seconds. None: read all.
        budget: Time budget in seconds, more than 0: no task starts after it; begin with the stalest files.
        threads: How many threads a task reads and hashes with; a worker does as many tasks at once as Dask lets it.
        patience: Give up a place after so many seconds without a worker that has it.
        task_files: A task has at least so many files, if there are as many …
        task_bytes: … or so many bytes.

    Raises:
        TypeError, ValueError: An argument is wrong, or no place is named.
        DigestError: The digest is not to be had.
        LakeError: The lake cannot be read or written. A damaged part is an error of its place in the report.
        VersionError: A worker has another version of verisum. One that comes later gets no work: `Report.refused`.
        FleetError: The scheduler is gone.
        KeyboardInterrupt: Ctrl-C. Tasks that were begun end, and their parts are kept.
    """
    return scrub_run(
        client,
        as_places(places),
        catalog,
        algorithm=algorithm,
        max_age=max_age,
        budget=budget,
        threads=threads,
        patience=patience,
        task_files=task_files,
        task_bytes=task_bytes,
    ).go()


def scrub_run(
    client: Client,
    places: list[Place],
    catalog: str,
    *,
    algorithm: str,
    max_age: float | timedelta | None,
    budget: float | timedelta | None,
    threads: int,
    patience: float,
    task_files: int = 10_000,
    task_bytes: int = 1 << 30,
) -> Run:
    """A scrub that has not begun."""
    mode = mode_of(True, algorithm, max_age, task_files, task_bytes)
    return Run(client, places, text("catalog", catalog), mode, budget=budget, threads=threads, patience=patience)


def compare_places(
    client: Client,
    a: Place | str,
    b: Place | str,
    out: str,
    *,
    algorithm: str = "sha256",
    threads: int = 1,
    patience: float = 60.0,
) -> FleetComparison:
    """Compares the files of two places, by paths and digests. It hashes what is new or changed since the lake had it.

    Args:
        client: Who sends tasks to the workers.
        a: A place, or a path that every worker sees.
        b: Another one.
        out: The lake: a directory that client and workers share, or an address of fsspec.
        algorithm: The name of a digest, as for `verisum.new`.
        threads: How many threads a task reads and hashes with.
        patience: Give up a place after so many seconds without a worker that has it.

    Raises:
        PlaceError: A place could not be listed to its end.
        Exception: As `hash_places`.
    """
    places = as_places([a, b])
    report = hash_places(client, places, out, algorithm=algorithm, threads=threads, patience=patience)
    for place in report.places:
        if place.errors:
            raise PlaceError(f"{place.name}: {place.errors[0]}")
    from verisum.dask._lake import Lake

    return compare_records(Lake(out), places[0].name, places[1].name, report)


def mode_of(
    judges: bool, algorithm: str, max_age: float | timedelta | None, task_files: int, task_bytes: int
) -> Mode:
    """What is due from now on."""
    import verisum

    # As columns have it.
    name = verisum.new(text("algorithm", algorithm)).name
    now = milliseconds()
    due_before = None if max_age is None else now - int(seconds("max_age", max_age) * 1000)
    return Mode(judges, name, now, due_before, number("task_files", task_files), number("task_bytes", task_bytes))
