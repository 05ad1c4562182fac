"""What several tests need: the command, a real sshd and a real server of S3 on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

import verisum

# A scrub waits for all other programs otherwise, for minutes on a busy machine.
os.environ["VERISUM_FOREGROUND"] = "true"

# A busy machine starts workers late, and no test is about such a limit; also for the programs that tests start.
os.environ.setdefault("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "300s")
os.environ.setdefault("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP", "300s")
os.environ.setdefault("DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT", "150s")

COMMAND = os.path.join(os.path.dirname(sys.executable), "verisum")

CONFIG = """\
Port {port}
ListenAddress {address}
HostKey {here}/host
AuthorizedKeysFile {here}/authorized
PidFile {here}/{name}.pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
UseDNS no
# The usual one takes ten times as long: it withstands computers that do not exist yet.
KexAlgorithms curve25519-sha256
"""

HOST = """\
Host {name}
HostName {address}
Port {port}
User root
IdentityFile {here}/user
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {here}/known
GlobalKnownHostsFile none
"""

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Sshds:
    """Servers that one configuration of ssh knows by name."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.config = here / "config"
        self.servers: list[subprocess.Popen[bytes]] = []
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", here / key], check=True)
        shutil.copy(here / "user.pub", here / "authorized")

    def know(self, name: str, address: str, port: int) -> None:
        """Adds a host to the configuration."""
        key = " ".join((self.here / "host.pub").read_text().split()[:2])
        with open(self.here / "known", "a") as known, open(self.config, "a") as config:
            known.write(f"[{address}]:{port} {key}\n")
            config.write(HOST.format(name=name, address=address, port=port, here=self.here))

    def start(self, name: str, address: str, port: int, inside: list[str]) -> None:
        """Starts a server, by a command that runs another one inside of something."""
        self.know(name, address, port)
        config, log = self.here / f"{name}.conf", self.here / f"{name}.log"
        config.write_text(CONFIG.format(name=name, address=address, port=port, here=self.here))
        assert SSHD is not None
        server = subprocess.Popen([*inside, SSHD, "-D", "-f", config, "-E", log])
        self.servers.append(server)
        deadline = time.monotonic() + 300
        while not (self.here / f"{name}.pid").exists():
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)

    def stop(self) -> None:
        for server in self.servers:
            server.terminate()
            server.wait()


def loud_skip(why: str) -> NoReturn:
    """Skips a test, and says so; on a machine that decides, it fails."""
    if os.environ.get("CI"):
        pytest.fail(f"NOT TESTED: {why}")
    pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that is soon full."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "none", str(mounted)], capture_output=True)
    if made.returncode != 0:
        loud_skip(f"no file system can be mounted: {made.stderr.decode().strip()}")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


def flip(path: Path) -> None:
    """Changes a bit of a file, whose length and times stay."""
    stat = os.stat(path)
    with open(path, "r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def need_sshd() -> None:
    if SSHD is None or shutil.which("ssh") is None or os.geteuid() != 0:
        loud_skip("needs sshd, ssh and root")
    Path("/run/sshd").mkdir(exist_ok=True)


@pytest.fixture(scope="session")
def ssh_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A configuration of ssh with the hosts web1, where an sshd listens, and down, where nothing does."""
    need_sshd()
    sshds = Sshds(tmp_path_factory.mktemp("sshd"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    sshds.know("down", "127.0.0.1", 1)
    sshds.start("web1", "127.0.0.1", port, [])
    yield sshds.config
    sshds.stop()


# As scripts/setup.sh installs it.
VERSITYGW = Path(__file__).resolve().parents[2] / "target" / "tools" / "versitygw"


class Store:
    """A server of S3 on this machine. What is in the folder of a bucket is in the bucket."""

    def __init__(self, here: Path) -> None:
        server = shutil.which("versitygw") or (str(VERSITYGW) if VERSITYGW.exists() else None)
        if server is None:
            loud_skip("needs versitygw, which scripts/setup.sh test installs")
        self.root = here / "root"
        self.root.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.hosts = verisum.Hosts(endpoint=self.url, region="us-east-1")
        keys = ["--access", os.environ["AWS_ACCESS_KEY_ID"], "--secret", os.environ["AWS_SECRET_ACCESS_KEY"]]
        command = [server, *keys, "--quiet", "--port", f"127.0.0.1:{port}", "posix", str(self.root)]
        with open(here / "log", "wb") as log:
            self.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 300
        while True:
            assert self.server.poll() is None and time.monotonic() < deadline, (here / "log").read_text()
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                time.sleep(0.01)

    def bucket(self, name: str) -> Path:
        """The folder of a bucket, which is made."""
        folder = self.root / name
        folder.mkdir()
        return folder

    def stop(self) -> None:
        self.server.kill()
        self.server.wait()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A server of S3, for whose keys the environment is set."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a+secret/of=tests")
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    # Nobody's own profiles are asked.
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    (tmp_path / "store").mkdir()
    store = Store(tmp_path / "store")
    yield store
    store.stop()
