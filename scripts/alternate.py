"""Runs whole commands in turn with their peers, and prints how they compare as a table in Markdown.

Used by the scripts bench_*.py. A table shows the median wall time and the processor time of each command,
its rate, the peak of its memory (with ≤ where it is hidden by this script's own), and how many times as fast it is as the last command of the table: the
median of the rounds, and the least and the most. A command that is not installed is left out, and said to
be.
"""

import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

MIB = 1 << 20
GIB = 1 << 30


class Subject:
    """One command: what to run, how to name it, and how many bytes, or files, it has read when it ends."""

    def __init__(self, label, argv, size, feed=None, image=None, files=None, before=None):
        self.label = label
        self.image = image
        self.files = files
        self.before = before
        self.argv = [str(a) for a in argv]
        self.size = size
        self.feed = feed
        self.wall, self.cpu, self.memory = [], [], []

    def available(self):
        return shutil.which(self.argv[0]) is not None

    def run(self):
        if self.image:
            read(self.image)
        if self.before:
            self.before()
        start = time.perf_counter()
        feeder = None
        actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        if self.feed:
            feeder = subprocess.Popen(self.feed, stdout=subprocess.PIPE)
            actions.append((os.POSIX_SPAWN_DUP2, feeder.stdout.fileno(), 0))
        pid = os.posix_spawnp(self.argv[0], self.argv, os.environ, file_actions=actions)
        if feeder:
            feeder.stdout.close()
        _, status, usage = os.wait4(pid, 0)
        if feeder and feeder.wait() != 0:
            sys.exit(f"{self.feed} failed")
        self.wall.append(time.perf_counter() - start)
        if status != 0:
            sys.exit(f"{' '.join(self.argv)} failed")
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        # Never less than this process has: the system counts the moment before the command is loaded.
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.memory.append((usage.ru_maxrss * 1024, usage.ru_maxrss <= own))

    def row(self, peer):
        wall = statistics.median(self.wall)
        ratios = sorted(p / w for p, w in zip(peer.wall, self.wall))
        rate = f"{self.size / wall / 1e9:.2f}" if self.size else ""
        if self.files:
            rate = f"{wall / self.files * 1e6:.2f}"
        ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"
        cpu = "" if None in self.cpu else f"{statistics.median(self.cpu) * 1e3:.1f}"
        memory = ""
        if None not in self.memory:
            most, hidden = max(self.memory)
            memory = f"{'≤ ' if hidden else ''}{most / MIB:.1f}"
        return (f"| {self.label} | {wall * 1e3:.1f} | {cpu} | {rate} | {memory} "
                f"| {ratio if self is not peer else '1'} |")


def read(path):
    """Brings a file into the page cache."""
    buffer = bytearray(MIB)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def measure(title, subjects, runs):
    """Runs the subjects in turn, prints their table and gives their seconds. The last one is the peer."""
    missing = [s.argv[0] for s in subjects if not s.available()]
    subjects = [s for s in subjects if s.available()]
    for _ in range(runs):
        for subject in subjects:
            subject.run()
    print(f"\n### {title}\n")
    rate = "µs a file" if subjects[0].files else "GB/s"
    print(f"| command | wall, ms | user + system, ms | {rate} | peak memory, MiB | times as fast |")
    print("|---|--:|--:|--:|--:|--:|")
    for subject in subjects:
        print(subject.row(subjects[-1]))
    for name in missing:
        print(f"\nLeft out, not installed: {name}")
    sys.stdout.flush()
    return [statistics.median(subject.wall) for subject in subjects]


def processor():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def conditions(verisum, what, runs):
    """The line above the tables: who ran what, where, and how often."""
    version = subprocess.run([verisum, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    print(f"{version.strip()}; {processor()}, {len(os.sched_getaffinity(0))} cores; Linux {platform.release()}; "
          f"{what}; median of {runs} alternating runs; load at the start {os.getloadavg()[0]:.2f}.")


def apart(work):
    """Does something in a process of its own: what this one holds would count as the peak memory of those
    it starts."""
    worker = os.fork()
    if worker == 0:
        work()
        os._exit(0)
    if os.waitpid(worker, 0)[1] != 0:
        sys.exit("what is to be measured could not be made")
