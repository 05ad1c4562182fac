"""The version of verisum, which all workers of a run must share."""

from __future__ import annotations

from importlib import metadata

from verisum.dask._errors import VersionError

VERSION = metadata.version("verisum")


def refuse_other(wanted: str) -> None:
    """Raises `VersionError` where this process has another version than whoever sent the task."""
    if wanted != VERSION:
        raise VersionError(mismatch(worker_name(), VERSION, wanted))


def mismatch(worker: str, there: str | None, here: str) -> str:
    """The text of the error."""
    found = "no verisum" if there is None else f"verisum {there}"
    return f"worker {worker} has {found}, and this run needs {here}"


def worker_name() -> str:
    """The name and address of the worker that runs this."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        return "of this process"
    return f"{worker.name} at {worker.address}"
