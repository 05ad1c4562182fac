"""The stubs: complete, true, and enough for who checks types strictly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def check(*command: str, cwd: Path = HERE.parent) -> None:
    environment = {**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]}
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("files", ["tests", "examples", "bench", "-p verisum"])
def test_mypy_is_content(files: str) -> None:
    check(sys.executable, "-m", "mypy", "--strict", *files.split())


def test_pyright_is_content() -> None:
    check(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "tests", "examples", "bench")


def test_the_stubs_are_what_is_there(tmp_path: Path) -> None:
    # Python names the buffer protocol since 3.12.
    allowed = tmp_path / "allowed"
    allowed.write_text("verisum._native.Digests.__buffer__\n")
    options = ["--allowlist", str(allowed), "--ignore-unused-allowlist"]
    # Not beside the sources, which have no native part.
    check(sys.executable, "-m", "mypy.stubtest", "verisum._native", *options, cwd=HERE)
