"""What several tests need: the command, and a real sshd on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def need_sshd() -> None:
    if SSHD is None or shutil.which("ssh") is None or os.geteuid() != 0:
        pytest.skip("NOT TESTED: needs sshd, ssh and root")
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
