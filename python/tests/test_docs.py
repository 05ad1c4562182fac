"""The examples of docs/python.md and of the package run as they are written."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import verisum

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
# Which packages have no types.
CONFIG = Path(__file__).resolve().parents[1] / "pyproject.toml"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[number])
    folder = tmp_path / "empty"
    folder.mkdir()
    # The command that the package brings.
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    ended = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(CONFIG), "--strict", str(script)], cwd=folder, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_there_are_examples() -> None:
    assert EXAMPLES


def test_the_example_of_the_package() -> None:
    failed, tried = doctest.testmod(verisum)
    assert tried >= 3 and failed == 0


def test_the_page_names_all_that_is_exported() -> None:
    page = PAGE.read_text()
    for name in verisum.__all__:
        assert re.search(rf"\b{name}\b", page), name


@pytest.mark.parametrize(
    "name",
    ["new", "hash_many", "hash_files", "compare", "scrub", "accept", "check", "image_sum", "BlockMap", "Catalog", "Hosts"],
)
def test_help_says_what_goes_in_and_comes_out(name: str) -> None:
    stubs = (PAGE.parents[1] / "python" / "verisum" / "_native.pyi").read_text()
    lines = (getattr(verisum, name).__doc__ or "").splitlines()
    assert "Args:" in lines or "Raises:" in lines
    assert all(line in stubs for line in lines)
