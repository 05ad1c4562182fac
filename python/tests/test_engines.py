"""The examples for Ray and Spark give the digests that hashlib gives.

Each of both takes more than 100 MB: `scripts/test_python.sh` installs them where that can be done. Where one is missing
its test is skipped, says so, and fails on a machine that decides.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import loud_skip

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize(("package", "example"), [("ray", "ray_hash.py"), ("pyspark", "spark_hash.py")])
def test_an_engine_runs_the_same_function(package: str, example: str, tmp_path: Path) -> None:
    needed = {"ray": ["ray"], "pyspark": ["pyspark", "pandas"]}[package]
    if any(importlib.util.find_spec(name) is None for name in needed):
        loud_skip(f"{package} is not installed; pip install {' '.join(needed)}")
    if package == "pyspark" and shutil.which("java") is None:
        loud_skip("Spark needs Java, which is not installed")
    files = [tmp_path / f"file {number}" for number in range(20)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * 1000)
    command = [sys.executable, str(EXAMPLES / example), *map(str, files), str(tmp_path / "none")]
    # Spark would start the python3 of the PATH.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if str(tmp_path) in line]
    wanted = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}" for file in files]
    (error,) = set(lines) - set(wanted)
    assert set(wanted) < set(lines) and "No such file" in error
