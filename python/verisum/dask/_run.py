"""A run over places: sends listings and tasks to the workers, and counts what comes back. Runs in the client."""

from __future__ import annotations

import heapq
import logging
import queue
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from distributed import Client, Status

from verisum.dask._arguments import number, seconds, text
from verisum.dask._cut import Cut, Mode, Step, Task, cut
from verisum.dask._errors import FleetError, LakeError, PartError, PlaceError, VersionError
from verisum.dask._lake import Lake
from verisum.dask._place import Place
from verisum.dask._report import PlaceReport, Report
from verisum.dask._version import VERSION, mismatch
from verisum.dask._work import NAMED, BadFile, Order, Outcome, milliseconds, work

if TYPE_CHECKING:
    from distributed import Future

# How often workers are counted, and how long one call waits: Ctrl-C comes between.
TICK = 0.25
COUNT = 2.0

DAY = 86_400_000

# So many tasks of a place may wait before its listing does.
AHEAD = 1000

# As for `verisum.hash_files`.
MOST_THREADS = 128

# A task that lost its workers so often is left: it may be what kills them.
LOSSES = 10

log = logging.getLogger("verisum.dask")


@dataclass
class Job:
    """A listing (no task) or a task that a worker was asked to do."""

    state: PlaceState
    task: Task | None
    losses: int = 0
    # Those that may do it.
    workers: frozenset[str] = frozenset()


# A name and its verdict.
Doubt = tuple[bytes, str]


@dataclass
class PlaceState:
    """How far a run is with a place."""

    place: Place
    report: PlaceReport
    begun: int
    after: bytes | None = None
    top: int | None = None
    is_listed: bool = False
    is_given_up: bool = False
    listing: bool = False
    files: int = 0
    bytes: int = 0
    running: int = 0
    failed: int = 0
    # Tasks that wait, the stalest first, with their losses so far.
    waiting: list[tuple[int, int, Task, int]] = field(default_factory=list)
    left_files: int = 0
    left_bytes: int = 0
    resources: dict[str, float] | None = None
    room: int = 0
    # When a worker was there last.
    seen: float = 0.0
    started: float | None = None
    steps: int = 0
    listing_losses: int = 0
    # Files that are due, and were bad when they were read last.
    doubted: list[Doubt] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        ended = (self.is_listed and not self.waiting) or self.is_given_up
        return ended and not self.running and not self.listing


class Run:
    """A run. `go` does it; `report` is the result, also where it was ended early."""

    def __init__(
        self,
        client: Client,
        places: Sequence[Place],
        lake: str,
        mode: Mode,
        *,
        budget: float | timedelta | None = None,
        threads: int = 1,
        patience: float = 60.0,
    ) -> None:
        if not isinstance(client, Client):
            raise TypeError(f"client: a distributed.Client is needed, not {client!r}")
        names = [place.name for place in places]
        if not names:
            raise ValueError("places: none is named")
        if len(set(names)) < len(names):
            raise ValueError("places: two have the same name")
        self.client = client
        self.lake = Lake(lake)
        self.mode = mode
        self.budget = None if budget is None else seconds("budget", budget, is_zero_allowed=False)
        self.threads = number("threads", threads, least=0, most=MOST_THREADS)
        self.patience = seconds("patience", patience)
        self.begun = time.monotonic()
        self.report = Report([PlaceReport(name) for name in names], milliseconds())
        self.states = [
            PlaceState(place, report, mode.begun, seen=self.begun)
            for place, report in zip(places, self.report.places, strict=True)
        ]
        self.jobs: dict[Future[Any], Job] = {}
        # Addresses of workers that have this version, of all that were asked for theirs, and the questions, with the
        # address and the name of each worker.
        self.trusted: set[str] = set()
        self.known: set[str] = set()
        self.asked: dict[Future[Any], tuple[str, str]] = {}
        self.ended: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self.counted = 0.0
        self.number = 0
        self.run = uuid.uuid4().hex
        self.sent = 0

    def go(self) -> Report:
        """Does all that is due, or what the budget allows."""
        try:
            self.trusted = refuse_other_workers(self.client)
            self.known = set(self.trusted)
            for state in self.states:
                try:
                    self.resume(state)
                except PartError as error:
                    self.give_up(state, str(error))
            self.loop()
        except KeyboardInterrupt:
            self.report.interrupted = True
            raise
        except Exception as error:
            if not isinstance(error, FleetError):
                # Dask raises many things where its connection ends.
                self.refuse_lost_scheduler()
            raise
        finally:
            self.cancel()
            self.finish()
        return self.report

    def resume(self, state: PlaceState) -> None:
        """Goes on with a cycle over a place that an earlier run began and did not end."""
        # They are cut anew, from what the lake has now.
        self.lake.remove(f"{self.lake.notes(state.place.name)}/chunks", recursive=True)
        if not self.mode.judges:
            return
        note = self.lake.read_note(state.place.name, "cycle")
        begun = (note or {}).get("begun")
        if isinstance(begun, int):
            state.begun = begun
        else:
            self.lake.write_note(state.place.name, "cycle", {"begun": state.begun})

    def cancel(self) -> None:
        """Takes back what no worker has begun. What they have begun they end, and its parts count."""
        if self.jobs and self.client.status == "running":
            self.client.cancel(list(self.jobs))

    def loop(self) -> None:
        while True:
            self.refuse_lost_scheduler()
            self.count_workers()
            is_late = self.budget is not None and time.monotonic() - self.begun >= self.budget
            # What is submitted without a connection is lost.
            if not is_late and self.client.status == "running":
                self.submit()
            if not self.jobs and (is_late or all(state.is_done for state in self.states)):
                self.note_not_begun()
                return
            try:
                future = self.ended.get(timeout=TICK)
            except queue.Empty:
                continue
            self.take(future)

    def note_not_begun(self) -> None:
        """Where the budget was over before the first task: then nothing was verified, and what was bad still is."""
        if any(state.started for state in self.states):
            return
        for state in self.states:
            if not state.is_done:
                state.report.errors.append("the budget was over before anything was verified; listing counts, too")
                state.report.add(known_bad(state.doubted, "as an earlier run found"))

    def count_workers(self) -> None:
        """Finds out how many tasks of each place the workers take, and gives up places that no worker has."""
        now = time.monotonic()
        if now - self.counted < COUNT:
            return
        self.counted = now
        restart_workers(self.client)
        try:
            present = self.client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, ValueError, KeyError):
            return  # The connection was lost; the client tries to have another.
        self.meet(present)
        workers = [worker for address, worker in present.items() if address in self.trusted]
        for state in self.states:
            name = state.place.resource or state.place.name
            holders = [worker for worker in workers if worker["resources"].get(name)]
            is_bound = state.place.resource is not None or bool(holders) or state.resources is not None
            state.resources = {name: 1} if is_bound else None
            threads = sum(worker["nthreads"] for worker in (holders if is_bound else workers))
            # Each thread has the next task at hand when it ends one.
            state.room = min(2 * threads, state.place.at_once or 2 * threads)
            if threads:
                state.seen = now
            elif now - state.seen > self.patience and not state.is_done:
                whom = f"no worker has the resource {name!r}" if is_bound else "there is no worker"
                self.give_up(state, f"{whom}, since {self.patience:.0f} s")

    def meet(self, present: dict[str, Any]) -> None:
        """Asks workers that came for their version, and takes back what only workers that went might have done."""
        self.trusted &= present.keys()
        self.known &= present.keys()
        for future, (address, _) in list(self.asked.items()):
            if address not in present:
                del self.asked[future]
                future.release()
        for future, job in list(self.jobs.items()):
            # To give up a place drops its other jobs.
            if future in self.jobs and job.workers.isdisjoint(present):
                del self.jobs[future]
                future.release()
                self.end(job)
                self.lost(job, "all that might have done it went away")
        for address in sorted(present.keys() - self.known):
            self.known.add(address)
            key = ("verisum", self.key("version"))
            future = self.client.submit(asks_version(), workers=[address], pure=False, key=key, priority=2)
            self.asked[future] = (address, f"{present[address]['name']} at {address}")
            future.add_done_callback(self.ended.put)

    def answered(self, address: str, worker: str, future: Future[Any]) -> None:
        """Trusts a worker that has this version, and refuses another one by its name."""
        try:
            found = outcome_of(future)
        except Lost:
            self.known.discard(address)
        except Exception as error:  # Whatever it has, it cannot even tell.
            self.refuse(f"worker {worker} does not tell its version: {type(error).__name__}: {error}")
        else:
            if found == VERSION:
                self.trusted.add(address)
                self.counted = 0.0
            else:
                self.refuse(mismatch(worker, found, VERSION))

    def refuse(self, why: str) -> None:
        """Notes a worker that gets no work."""
        if why not in self.report.refused:
            self.report.refused.append(why)
            log.warning("%s: it gets no work", why)

    def submit(self) -> None:
        if not self.trusted:
            return
        may_begin = self.budget is None or all(state.is_listed or state.is_given_up for state in self.states)
        for state in self.states:
            if state.is_given_up or not state.room:
                continue
            is_ahead = self.budget is None and len(state.waiting) >= AHEAD
            if not (state.is_listed or state.listing or is_ahead):
                self.list_on(state)
            # With a budget the stalest come first, wherever they are: the listings come before.
            while may_begin and state.waiting and state.running < state.room:
                _, _, task, losses = heapq.heappop(state.waiting)
                self.start(state, task, losses)

    def list_on(self, state: PlaceState) -> None:
        state.listing = True
        state.steps += 1
        mode = self.mode_of(state)
        step = Step(state.place, self.lake.url, mode, VERSION, state.after, state.top)
        key = (f"list {prefix(state.place)}", self.key(str(state.steps)))
        self.send(Job(state, None), cut, step, key=key, priority=1)

    def mode_of(self, state: PlaceState) -> Mode:
        """The mode, for the cycle of a place."""
        due_before = state.begun if self.mode.due_before is None else self.mode.due_before
        return replace(self.mode, begun=state.begun, due_before=due_before)

    def start(self, state: PlaceState, task: Task, losses: int) -> None:
        state.running += 1
        state.started = state.started or time.monotonic()
        assert state.top is not None
        order = Order(
            place=state.place,
            lake=self.lake.url,
            task=task,
            judges=self.mode.judges,
            begun=state.begun,
            since=self.report.started - DAY,
            version=VERSION,
            threads=self.threads,
            top=state.top,
        )
        self.send(Job(state, task, losses), work, order, key=(prefix(state.place), self.key(task.id)))

    def key(self, name: str) -> str:
        """A key that no task had before: Dask would mix up the one that was lost with the one that is sent again."""
        self.sent += 1
        return f"{name}-{self.run}-{self.sent}"

    def send(self, job: Job, function: Any, argument: Any, **options: Any) -> None:
        job.workers = frozenset(self.trusted)
        options |= {"resources": job.state.resources, "workers": sorted(job.workers)}
        future = self.client.submit(function, argument, pure=False, **options)
        self.jobs[future] = job
        future.add_done_callback(self.ended.put)

    def take(self, future: Future[Any]) -> None:
        """Counts what a worker did."""
        if future in self.asked:
            self.answered(*self.asked.pop(future), future)
            future.release()
            return
        job = self.jobs.pop(future, None)
        if job is None:
            return
        state = job.state
        self.end(job)
        try:
            result = outcome_of(future)
            if isinstance(result, FleetError):
                raise result
        except (PlaceError, PartError) as error:
            self.put_back(job)
            self.give_up(state, str(error))
        except LakeError:
            self.put_back(job)
            raise
        except VersionError as error:
            # Another worker has the address of one that went away.
            self.trusted.clear()
            self.known.clear()
            self.lost(job, str(error))
        except Lost as error:
            self.lost(job, str(error))
        except Exception as error:  # What a task raised that none of ours expects.
            if job.task is None:
                self.give_up(state, f"listing failed: {type(error).__name__}: {error}")
            else:
                self.leave(job, job.task, f"{type(error).__name__}: {error}")
        else:
            if isinstance(result, Cut):
                self.listed(state, result)
            elif job.task is not None:
                state.report.add(result)
                state.left_files -= job.task.files
                state.left_bytes -= job.task.bytes
        finally:
            future.release()

    def end(self, job: Job) -> None:
        """Notes that nobody does this any more."""
        if job.task is None:
            job.state.listing = False
        else:
            job.state.running -= 1

    def lost(self, job: Job, why: str) -> None:
        """Puts back what lost its worker, unless that happened too often."""
        job.losses += 1
        if job.task is None:
            job.state.listing_losses += 1
            if job.state.listing_losses > LOSSES:
                self.give_up(job.state, f"its listing lost its worker {job.state.listing_losses} times: {why}")
        elif job.losses > LOSSES:
            self.leave(job, job.task, f"it lost its worker {job.losses} times: {why}")
        else:
            self.put_back(job)

    def put_back(self, job: Job) -> None:
        if job.task is not None:
            self.wait(job.state, job.task, job.losses)

    def wait(self, state: PlaceState, task: Task, losses: int) -> None:
        self.number += 1
        heapq.heappush(state.waiting, (task.oldest, self.number, task, losses))

    def leave(self, job: Job, task: Task, why: str) -> None:
        """Gives up a task; the others go on."""
        job.state.failed += 1
        job.state.report.errors.append(f"a task of {task.files} files failed ({task.id}): {why}")

    def listed(self, state: PlaceState, found: Cut) -> None:
        state.files += found.listed_files
        state.bytes += found.listed_bytes
        state.after, state.top = found.last, found.top
        state.is_listed = found.last is None
        for task in found.tasks:
            self.wait(state, task, 0)
            state.left_files += task.files
            state.left_bytes += task.bytes
        state.doubted += found.doubted
        report = state.report
        report.add(known_bad(found.bad, "as this cycle found before"))
        report.bad += [BadFile(path, "unverifiable", error) for path, error in found.errors[: NAMED - len(report.bad)]]
        report.verdicts["unverifiable"] += len(found.errors)
        report.still_missing += found.missing

    def give_up(self, state: PlaceState, why: str) -> None:
        """Ends the work on a place; the others go on."""
        if state.is_given_up:
            return
        state.is_given_up = True
        state.report.errors.append(why)
        theirs = [future for future, job in self.jobs.items() if job.state is state]
        for future in theirs:
            del self.jobs[future]
            future.release()
        state.running, state.listing = 0, False

    def refuse_lost_scheduler(self) -> None:
        if self.client.status not in ("running", "connecting"):
            raise FleetError("the scheduler is gone; start again: all parts that were written are kept")

    def finish(self) -> None:
        """Completes the report, and removes the notes of places that were done."""
        now = time.monotonic()
        self.report.seconds = now - self.begun
        for state in self.states:
            report = state.report
            report.seconds = now - (state.started or now)
            report.verdicts = +report.verdicts
            if not state.is_listed:
                continue
            report.listed_files, report.listed_bytes = state.files, state.bytes
            report.left_files, report.left_bytes = state.left_files, state.left_bytes
            if state.is_done and not state.is_given_up and not state.failed:
                self.lake.remove(self.lake.notes(state.place.name), recursive=True)


def known_bad(files: list[tuple[bytes, str]], detail: str) -> Outcome:
    """What is known of files, by the states of their records."""
    known = Outcome()
    for path, state in files:
        known.note(path, "modified" if state == "held" else state, detail)
    return known


class Lost(Exception):
    """A task's worker, or the scheduler, went away."""


def outcome_of(future: Future[Any]) -> Any:
    """What a future gives; `Lost` if its worker was lost."""
    from asyncio import CancelledError
    from concurrent.futures import CancelledError as OtherCancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        return future.result(timeout=10)
    except (KilledWorker, CancelledError, OtherCancelledError, CommClosedError, TimeoutError) as error:
        raise Lost(str(error)) from None


def restart_workers(client: Client) -> None:
    """Lets the client's own cluster start the workers that it has given up.

    Some seconds after a cluster lost a worker it gives that up for ever if it is away just then, though its nanny may
    only be starting it once more.
    """
    cluster: Any = client.cluster
    planned, workers = getattr(cluster, "worker_spec", {}), getattr(cluster, "workers", {})
    if len(workers) < len(planned) and cluster.status is Status.running:
        cluster.scale(len(planned))


def prefix(place: Place) -> str:
    """What Dask's dashboard calls the tasks of a place. It takes a hyphen for the end of a name.

    A name that is no UTF-8 is written with backslashes: Dask would lose its connection over it.
    """
    return place.name.replace("-", "_").encode("utf-8", "backslashreplace").decode()


def asks_version() -> Callable[[], str | None]:
    """A function that gives a worker's version of verisum.

    It goes to the workers as it is: one without verisum could not find it by a name.
    """

    def version() -> str | None:
        try:
            from verisum.dask._version import VERSION
        except ImportError:
            return None
        return VERSION

    return version


def refuse_other_workers(client: Client) -> set[str]:
    """Raises `VersionError` where a worker has another version of verisum, and gives the addresses of the others."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    answers: Any = client.run(asks_version(), on_error="return")
    for address, found in answers.items():
        # One that went away just now is asked when it is back.
        if found != VERSION and not isinstance(found, BaseException):
            name = workers.get(address, {}).get("name", "")
            raise VersionError(mismatch(f"{name} at {address}", found, VERSION))
    return {address for address, found in answers.items() if found == VERSION}


def as_places(places: Iterable[Place | str] | Place | str) -> list[Place]:
    """Places, of which some may be paths."""
    several = [places] if isinstance(places, (Place, str)) or not isinstance(places, Iterable) else list(places)
    return [place if isinstance(place, Place) else Place(text("places", place)) for place in several]
