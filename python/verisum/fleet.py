"""The program `verisum-fleet`: scrubs places with the workers of a Dask cluster, as a plan in TOML says."""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from verisum._errors import DigestError, Error

if TYPE_CHECKING:
    from distributed import Client

    from verisum import Hosts
    from verisum.dask import Place, Report

# Exit codes, as docs/exit-codes.md has them.
USAGE, UNCHECKED, INTERRUPTED = 2, 3, 130

TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class PlanError(Exception):
    """The plan says something that cannot be done."""


@dataclass(frozen=True)
class FleetPlan:
    """What a plan says. Times are seconds."""

    catalog: str
    places: list[Place]
    algorithm: str = "sha256"
    max_age: float | None = None
    budget: float | None = None
    threads: int = 1
    patience: float = 60.0


def read_plan(path: str) -> FleetPlan:
    """Reads a plan.

    Raises:
        PlanError: It cannot be read or understood.
    """
    try:
        with open(path, "rb") as file:
            plan = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise PlanError(f"{path}: {error}") from None
    try:
        return understood(plan)
    except (PlanError, ValueError, TypeError) as error:
        raise PlanError(f"{path}: {error}") from None


def understood(plan: dict[str, Any]) -> FleetPlan:
    """The plan in a table of TOML."""
    from verisum.dask import Place

    places = plan.pop("place", None)
    if not isinstance(places, list) or not places or not all(isinstance(place, dict) for place in places):
        raise PlanError("it has no [[place]]")
    known = {field.name for field in fields(Place)}
    for place in places:
        refuse_unknown(place, known, "a place")
        if "path" not in place:
            raise PlanError("a place has no path")
        if "hosts" in place:
            place["hosts"] = hosts(place["hosts"])
        if "bytes_per_second" in place:
            place["bytes_per_second"] = size(place["bytes_per_second"])
    refuse_unknown(plan, {field.name for field in fields(FleetPlan)} - {"places"}, "it")
    if not isinstance(plan.get("catalog"), str):
        raise PlanError("it has no catalog")
    for name in ("max_age", "budget", "patience"):
        if name in plan:
            plan[name] = duration(plan[name])
    return FleetPlan(places=[Place(**place) for place in places], **plan)


def hosts(table: object) -> Hosts:
    """How a place on another machine is reached, by the names of the arguments of `verisum.Hosts`."""
    from verisum import Hosts

    if not isinstance(table, dict):
        raise PlanError("hosts is no table, such as { endpoint = \"http://store:9000\" }")
    refuse_unknown(table, set(inspect.signature(Hosts).parameters), "hosts")
    return Hosts(**table)


def refuse_unknown(table: dict[str, Any], known: set[str], what: str) -> None:
    for name in table:
        if name not in known:
            raise PlanError(f"{what} cannot have {name!r}; it can have {', '.join(sorted(known))}")


def duration(text: object) -> float:
    """Seconds, from a number or a text such as ``8h`` or ``30d``."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhdw])", text) if isinstance(text, str) else None
    if match is None:
        raise PlanError(f"{text!r} is no time, such as '8h' or '30d'")
    return float(match[1]) * TIMES[match[2]]


def size(text: object) -> int:
    """Bytes, from a number or a text such as ``100M``; K, M, G and T are powers of 1024."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = re.fullmatch(r"([0-9]+)([KMGT]?)", text) if isinstance(text, str) else None
    if match is None:
        raise PlanError(f"{text!r} is no size, such as '100M'")
    return int(match[1]) * SIZES[match[2]]


def at_least_one(text: str) -> int:
    """A number of processes."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="verisum-fleet", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="scrub all places of a plan", description="Scrubs all places of a plan.")
    run.add_argument("plan", metavar="PLAN.toml", help="the plan: catalog, budget, places and their limits")
    run.add_argument("--scheduler", metavar="ADDRESS", help="the scheduler of the cluster, such as tcp://head:8786")
    run.add_argument("--workers", metavar="N", type=at_least_one, help="without --scheduler: how many processes (all cores)")
    run.add_argument("--json", action="store_true", help="report as JSON")
    return parser


def main() -> None:
    """The program."""
    options = arguments().parse_args()
    try:
        code = run(options)
    except (PlanError, DigestError) as error:
        code = failed(USAGE, error)
    except (Error, OSError) as error:
        code = failed(UNCHECKED, error)
    except ImportError as error:
        code = failed(UNCHECKED, f"{error}; pip install 'verisum[dask]'")
    except KeyboardInterrupt:
        failed(INTERRUPTED, "interrupted; what was done is kept, and the next run resumes")
        # Dask would take seconds to end here, and print tracebacks.
        os._exit(INTERRUPTED)
    sys.exit(code)


def failed(code: int, error: object) -> int:
    print(f"verisum-fleet: {error}", file=sys.stderr)
    return code


def run(options: argparse.Namespace) -> int:
    """Scrubs the places, prints the report, and gives the exit code."""
    plan = read_plan(options.plan)
    from verisum.dask import scrub_run

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    error: Error | None = None
    with connected(options) as client:
        try:
            work = scrub_run(
                client,
                plan.places,
                plan.catalog,
                algorithm=plan.algorithm,
                max_age=plan.max_age,
                budget=plan.budget,
                threads=plan.threads,
                patience=plan.patience,
            )
        except (TypeError, ValueError) as wrong:
            raise PlanError(f"{options.plan}: {wrong}") from None
        try:
            work.go()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            say(work.report, options)
            raise
        except Error as raised:
            # What was done is reported all the same.
            error = raised
    say(work.report, options)
    if error is None:
        return work.report.exit_code
    return failed(1 if work.report.exit_code == 1 else UNCHECKED, error)


def interrupt(*_: object) -> None:
    """What Ctrl-C does. Dask logs what it loses then."""
    logging.disable()
    raise KeyboardInterrupt


def say(report: Report, options: argparse.Namespace) -> None:
    print(json.dumps(report.to_json()) if options.json else report, flush=True)


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[Client]:
    """A client of the cluster, or of one that is made on this machine for the run.

    Ctrl-C closes neither, as Dask takes seconds for that and prints tracebacks: it kills the workers of this machine.
    """
    import dask
    import distributed

    # This program says itself that the scheduler is gone.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with ExitStack() as closing:
        if options.scheduler:
            try:
                client = closing.enter_context(distributed.Client(options.scheduler))
            except ValueError as error:
                raise PlanError(f"--scheduler: {error}") from None
            nannies: dict[Any, Any] = {}
        else:
            scratch = tempfile.TemporaryDirectory(prefix="verisum-fleet-", ignore_cleanup_errors=True)
            closing.enter_context(scratch)
            closing.enter_context(dask.config.set({"temporary-directory": scratch.name}))
            # Killed processes leave semaphores. Python's process that removes them would warn of that.
            quiet = "ignore:resource_tracker:UserWarning"
            os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), quiet]))
            # Any port that is free: nobody looks at it, and Dask would warn of one that is taken.
            address = {"dashboard": False, "dashboard_address": ":0"}
            local: dict[str, Any] = {"n_workers": options.workers, "threads_per_worker": 1, "dashboard_address": None}
            # This program says itself what a run lost. Workers would log each connection that ends, with a traceback.
            local |= {"scheduler_kwargs": address, "loop": loop_without_ctrl_c(), "silence_logs": logging.CRITICAL}
            cluster = closing.enter_context(distributed.LocalCluster(**local))
            client = closing.enter_context(distributed.Client(cluster))
            nannies = cluster.workers
        try:
            yield client
        except KeyboardInterrupt:
            closing.pop_all()
            # Else each starts a new one in the place of its killed worker.
            for nanny in nannies.values():
                nanny.status = distributed.Status.closing
            workers = multiprocessing.active_children()
            for process in workers:
                process.kill()
            until = time.monotonic() + 5
            for process in workers:
                wait([process.sentinel], timeout=max(0, until - time.monotonic()))
            # What is at work on a killed worker in this process may still make a file there.
            while nannies and os.path.exists(scratch.name) and time.monotonic() < until:
                scratch.cleanup()
            raise


def loop_without_ctrl_c() -> Any:
    """The loop of a new thread that blocks SIGINT. The processes that it starts inherit that: Ctrl-C comes to all
    processes of a terminal, and each of Dask's would print a traceback.
    """
    from distributed.utils import LoopRunner

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner = LoopRunner()
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return runner.loop


if __name__ == "__main__":
    main()
