"""Builds the wheel: the extension by maturin, and beside it the command `verisum`.

The command is the program itself, not a Python entry point: it starts in a millisecond, and Python's handling
of signals is not between it and the terminal. Maturin builds a module or a program, never both; so the program is
built here, and maturin packs it as a data file.

VERISUM_WHEEL_PROFILE names the cargo profile; without it, it is `release`. VERISUM_WHEEL_SBOMS names a folder with
lists of what is in the wheel, for it to carry; without it, it carries none. VERISUM_WHEEL_COMPATIBILITY names the
systems that it is for, such as manylinux_2_28; without it, it is for this one.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import maturin
from maturin import get_requires_for_build_wheel

__all__ = ["build_editable", "build_wheel", "get_requires_for_build_wheel", "prepare_metadata_for_build_wheel"]

HERE = Path(__file__).resolve().parent
# What maturin puts into the wheel beside the module: programs, and what lands below the environment's folder.
SCRIPTS = HERE / "data" / "scripts"
DOCUMENTS = HERE / "data" / "data" / "share" / "doc" / "verisum"


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    # Maturin insists on the folder, though nothing in it is metadata.
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    prepare()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    prepare()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def prepare():
    profile = os.environ.get("VERISUM_WHEEL_PROFILE", "release")
    arguments = ["--profile", profile, "--locked"]
    if profile == "dev":
        arguments += ["--features", "as-in-tests"]
    if folder := os.environ.get("VERISUM_WHEEL_SBOMS"):
        for file in sorted(Path(folder).iterdir()):
            arguments += ["--sbom-include", str(file)]
    if systems := os.environ.get("VERISUM_WHEEL_COMPATIBILITY"):
        arguments += ["--compatibility", systems]
    os.environ["MATURIN_PEP517_ARGS"] = shlex.join(arguments)
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    shutil.copy2(command(profile), SCRIPTS / "verisum")
    DOCUMENTS.mkdir(parents=True, exist_ok=True)
    (DOCUMENTS / "THIRD-PARTY-NOTICES").write_bytes(notices())


def command(profile):
    """Builds the command, and returns where it is."""
    # With the features of the whole workspace, so that what was built before is of use.
    build = ["cargo", "build", "--locked", "--profile", profile, "--workspace", "--bin", "verisum"]
    build += ["--message-format", "json-render-diagnostics"]
    lines = subprocess.run(build, cwd=HERE, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    found = [message["executable"] for message in map(json.loads, lines) if message.get("executable")]
    if len(found) != 1:
        raise RuntimeError(f"cargo built {len(found)} programs, not one")
    return found[0]


def notices():
    """The licences of what is compiled in go with it."""
    version = subprocess.run(["rustc", "-vV"], cwd=HERE, check=True, capture_output=True, text=True).stdout
    host = next(line.removeprefix("host: ") for line in version.splitlines() if line.startswith("host: "))
    script = HERE.parent / "scripts" / "notices.py"
    list_of = [sys.executable, script, host, "verisum-cli", "verisum-python"]
    return subprocess.run(list_of, cwd=HERE, check=True, stdout=subprocess.PIPE).stdout
