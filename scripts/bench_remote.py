#!/usr/bin/env python3
"""Measures `verisum sum HOST:PATH` against the pipeline of find and sha256sum, and prints a table in Markdown.

    scripts/bench_remote.py [--dir DIR] [--runs N] [--bin DIR] [--files N] [--delay MS] [--rate MBIT]

Run as root: an sshd with keys and a configuration of its own listens on 127.0.0.1 and lets the user nobody
in. It is asked for N files of 4 KiB (10,000) in DIR, which are in the page cache. With --delay or --rate a
program between carries every byte, later by so many milliseconds each way and no faster than so many
Mbit/s. All is removed at the end.
"""

import argparse
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

from alternate import Subject, apart, conditions, measure

USER = "nobody"


def make_files(folder, count):
    """`count` files of 4 KiB, 500 in a directory."""
    pool = os.urandom(4096)
    for i in range(count):
        directory = folder / f"{i // 500:03}"
        if i % 500 == 0:
            directory.mkdir(parents=True)
        (directory / f"file-{i:06}").write_bytes(i.to_bytes(8, "big") + pool[8:])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """An sshd, and what ssh needs to know of it."""

    def __init__(self, folder, path, between):
        self.folder = folder
        self.between = between
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        port = free_port()
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile {folder}/pid\n"
            f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            f"UseDNS no\nMaxStartups 100\nSetEnv PATH={path}\n", encoding="utf-8")
        accounts = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
        mine = [f"{USER}:x:65534:65534::/:/bin/sh"] + [a for a in accounts if not a.startswith(f"{USER}:")]
        (folder / "passwd").write_text("\n".join(mine) + "\n", encoding="utf-8")
        Path("/run/sshd").mkdir(exist_ok=True)
        start = 'mount --bind "$0" /etc/passwd && exec "$@"'
        self.child = subprocess.Popen(
            ["unshare", "--mount", "/bin/sh", "-c", start, folder / "passwd", shutil.which("sshd", path="/usr/sbin"),
             "-D", "-f", folder / "sshd_config", "-E", folder / "log"], stdin=subprocess.DEVNULL)
        self.account = Account(self.child.pid)
        front = between(port) if between else port
        key = (folder / "host.pub").read_text(encoding="utf-8").split()
        (folder / "known").write_text(f"[127.0.0.1]:{front} {key[0]} {key[1]}\n", encoding="utf-8")
        self.config = folder / f"config-{front}"
        self.config.write_text(
            f"Host web\nHostName 127.0.0.1\nPort {front}\nUser {USER}\nIdentityFile {folder}/user\n"
            f"IdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {folder}/known\n"
            f"GlobalKnownHostsFile none\n", encoding="utf-8")
        deadline = time.monotonic() + 30
        while subprocess.run(self.ssh() + ["true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            if time.monotonic() > deadline:
                sys.exit(f"sshd does not let in:\n{(folder / 'log').read_text(encoding='utf-8')}")
            time.sleep(0.05)

    def ssh(self, *options):
        return ["ssh", "-F", self.config, "-T", *options, "web"]

    def used(self):
        """The processor's seconds of all its sessions, once they have ended."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children")
        while children.read_text(encoding="utf-8").strip():
            time.sleep(0.002)
        return self.account.used()

    def stop(self):
        self.child.terminate()
        self.child.wait()
        self.account.stop()
        if self.between:
            self.between.stop()


class Account:
    """A group of processes, of which the system knows what they used: of either version, or none."""

    KINDS = (("/sys/fs/cgroup/cpuacct", "cpuacct.usage", 1e9), ("/sys/fs/cgroup", "cpu.stat", 1e6))

    def __init__(self, pid):
        self.folder = None
        for base, name, self.unit in self.KINDS:
            folder = Path(base) / f"verisum-bench-{pid}"
            try:
                folder.mkdir()
            except OSError:
                continue
            if (folder / name).exists():
                (folder / "cgroup.procs").write_text(str(pid), encoding="utf-8")
                self.folder, self.file = folder, folder / name
                return
            folder.rmdir()
        print("What the host used is not counted: it has no control group for that.")

    def used(self):
        # The newer one begins with a word.
        return int(self.file.read_text(encoding="utf-8").split("\n")[0].split()[-1]) / self.unit if self.folder else 0

    def stop(self):
        if self.folder:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                try:
                    self.folder.rmdir()
                    return
                except OSError:
                    time.sleep(0.05)


class Over(Subject):
    """A command that goes to a server, whose time counts too."""

    def __init__(self, server, *rest, **options):
        super().__init__(*rest, **options)
        self.server = server

    def run(self):
        before = self.server.used()
        super().run()
        self.cpu[-1] += self.server.used() - before


class Between:
    """Carries connections to a port, each byte later by a delay and no faster than a rate."""

    def __init__(self, delay, rate):
        self.delay, self.rate = delay, rate

    def __call__(self, port):
        listener = socket.create_server(("127.0.0.1", 0))
        child = os.fork()
        if child:
            self.child = child
            front = listener.getsockname()[1]
            listener.close()
            return front
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", port))
            for source, target in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.carry, args=(source, target), daemon=True).start()

    def carry(self, source, target):
        """One direction. What is on its way is bounded only by what a sender can have under way: 4 MiB."""
        waiting, held, free_at = deque(), 0, 0.0
        selector = selectors.DefaultSelector()
        source.setblocking(False)
        selector.register(source, selectors.EVENT_READ)
        is_over = False
        while waiting or not is_over:
            now = time.monotonic()
            wait = max(0.0, waiting[0][0] - now) if waiting else None
            if is_over or held >= 4 << 20:
                time.sleep(wait or 0)
            elif selector.select(wait):
                try:
                    part = source.recv(16 << 10)
                except OSError:
                    part = b""
                if part:
                    free_at = max(free_at, time.monotonic()) + (len(part) / self.rate if self.rate else 0)
                    waiting.append((free_at + self.delay, part))
                    held += len(part)
                else:
                    is_over = True
            while waiting and waiting[0][0] <= time.monotonic():
                _, part = waiting.popleft()
                held -= len(part)
                try:
                    target.sendall(part)
                except OSError:
                    return
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def one_by_one(server, tree, count, runs):
    """The seconds of one `ssh` a file over a connection that is open."""
    socket_path = server.folder / "control"
    master = subprocess.Popen(server.ssh("-M", "-S", socket_path, "-N"), stdin=subprocess.DEVNULL)
    while not socket_path.exists():
        time.sleep(0.01)
    files = sorted(path for path in tree.rglob("file-*"))[:count]
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        for file in files:
            subprocess.run(server.ssh("-S", socket_path) + ["md5sum", file], stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - start)
    master.terminate()
    master.wait()
    return sorted(seconds)[len(seconds) // 2] / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bin", type=Path, default=Path("target/release"))
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=0, help="milliseconds each way")
    parser.add_argument("--rate", type=float, default=0, help="Mbit/s each way")
    options = parser.parse_args()
    verisum = (options.bin / "verisum").resolve()
    if os.geteuid() != 0:
        sys.exit("only root can start an sshd that lets another user in")

    started = []
    with tempfile.TemporaryDirectory(prefix="verisum-remote-", dir=options.dir) as name:
        folder = Path(name)
        folder.chmod(0o755)
        tree = folder / "tree"
        apart(lambda: make_files(tree, options.files))

        def server(label, path):
            """With a carrier before it, if one is wanted."""
            own = folder / label
            own.mkdir()
            carrier = None
            if options.delay or options.rate:
                carrier = Between(options.delay / 1e3, options.rate * 125e3)
            started.append(Server(own, path, carrier))
            return started[-1]

        try:
            # With a copy: the user may not reach the build.
            programs = folder / "programs"
            programs.mkdir()
            shutil.copy(verisum, programs / "verisum")
            bare = server("bare", "/usr/bin:/bin")
            full = server("full", f"{programs}:/usr/bin:/bin")
            what = f"{options.files:,} files of 4 KiB, in the page cache, over ssh to the same machine"
            if options.delay or options.rate:
                what += f", {options.delay:g} ms later each way, {options.rate or '∞'} Mbit/s"
            conditions(verisum, what, options.runs)

            def ours(label, server, *words):
                argv = [verisum, "sum", "--ssh-config", server.config, *words, f"web:{tree}"]
                return Over(server, f"`verisum sum {label}web:P`", argv, 0, files=options.files)

            pipeline = f"find {tree} -type f -print0 | xargs -0 sha256sum"
            table = [
                ours("--way coreutils ", bare, "--way", "coreutils"),
                ours("--push --way verisum ", bare, "--push", "--way", "verisum"),
                ours("--way verisum ", full, "--way", "verisum"),
                ours("--way openssl ", bare, "--way", "openssl"),
                ours("--way perl ", bare, "--way", "perl"),
                ours("--way python ", bare, "--way", "python"),
                Over(bare, "`ssh web true`", bare.ssh() + ["true"], 0, files=options.files),
                Over(bare, "`ssh web 'find P -type f -print0 \\| xargs -0 sha256sum'`", bare.ssh() + [pipeline], 0,
                     files=options.files),
            ]
            measure("One host", table, options.runs)
            each = one_by_one(bare, tree, 100, 3)
            print(f"\n`ssh web md5sum FILE` over an open connection: {each * 1e3:.1f} ms a file, "
                  f"{each * options.files:.0f} s for {options.files:,}.")
        finally:
            for one in started:
                one.stop()


if __name__ == "__main__":
    main()
