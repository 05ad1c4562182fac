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
ListenAddress 127.0.0.1
HostKey {here}/host
AuthorizedKeysFile {here}/authorized
PidFile {here}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
UseDNS no
"""

HOST = """\
Host {name}
HostName 127.0.0.1
Port {port}
User root
IdentityFile {here}/user
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {here}/known
GlobalKnownHostsFile none
"""


@pytest.fixture(scope="session")
def ssh_config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A configuration of ssh with the hosts web1, where an sshd listens, and down, where nothing does."""
    sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if sshd is None or shutil.which("ssh") is None or os.geteuid() != 0:
        pytest.skip("needs sshd, ssh and root")
    here = tmp_path_factory.mktemp("sshd")
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", here / key], check=True)
    shutil.copy(here / "user.pub", here / "authorized")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (here / "sshd_config").write_text(CONFIG.format(port=port, here=here))
    key = " ".join((here / "host.pub").read_text().split()[:2])
    (here / "known").write_text(f"[127.0.0.1]:{port} {key}\n")
    hosts = [HOST.format(name=name, port=at, here=here) for name, at in (("web1", port), ("down", 1))]
    (here / "config").write_text("".join(hosts))
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([sshd, "-D", "-f", here / "sshd_config", "-E", here / "log"])
    deadline = time.monotonic() + 300
    while not (here / "pid").exists():
        assert server.poll() is None and time.monotonic() < deadline, (here / "log").read_text()
        time.sleep(0.01)
    yield here / "config"
    server.terminate()
    server.wait()
