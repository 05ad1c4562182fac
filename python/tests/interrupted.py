"""Long work in a process of its own that Ctrl-C ends."""

import os
import subprocess
import sys
import textwrap

# What every such process begins with. The times are those of the signal: of all processors for this process, as other
# work on the machine makes that hardly more, and of the clock.
BEGIN = """
import os, signal, threading, time, verisum
sent = []
def send():
    sent.extend([time.process_time(), time.monotonic()])
    os.kill(os.getpid(), signal.SIGINT)
"""

# A guard for work that does not compute but wait, and never the measure: some wait for minutes.
GUARD = 5.0


def run(code: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    script = textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=timeout)


def ctrl_c(before: str, work: str, after: str = "", *, delay: float = 0.3) -> str:
    """Does `before` and then `work`, which Ctrl-C has to end before a tenth of a second of every processor is spent.
    What `after` prints is given back.
    """
    script = f"{BEGIN}{textwrap.dedent(before)}\nthreading.Timer({delay}, send).start()\ntry:\n"
    script += textwrap.indent(textwrap.dedent(work), "    ")
    script += "\n    print('it came to its end')\nexcept KeyboardInterrupt:\n"
    script += "    print(time.process_time() - sent[0], time.monotonic() - sent[1])\n" + textwrap.dedent(after)
    limit = 0.1 * len(os.sched_getaffinity(0))
    waits: list[tuple[float, float]] = []
    # Whoever is to see the signal may be kept from a processor for once, so one of several has to be in time.
    while len(waits) < 8:
        ended = run(script)
        assert ended.returncode == 0, ended.stderr
        took, _, said = ended.stdout.partition("\n")
        assert took != "it came to its end", said
        computed, passed = map(float, took.split())
        waits.append((computed, passed))
        if computed < limit and passed < GUARD:
            return said
    raise AssertionError(f"more than {limit} s of the processors, or {GUARD} s: {waits}")
