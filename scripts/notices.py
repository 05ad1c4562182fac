"""Prints the licences of what is compiled into the programs: `notices.py TRIPLE [CRATE]...`; without crates, of the
command and the C library.

Reads `cargo metadata`, and the licence files in each package's source. One text that several packages have is printed
once, after their names.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ["verisum-cli", "verisum-capi"]
FILES = re.compile(r"(?i)^(un)?licen[cs]e|^copying|^notice|^copyright")
HEAD = """verisum is under the licences MIT and Apache-2.0. Its programs and its library hold code of the packages below, under the
licences that follow each group. The standard library of Rust, under MIT or Apache-2.0, is in them too.
"""


def shipped(metadata, programs):
    """The packages of others that are linked into programs: what is needed to build or to test is not."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [ident for ident, package in packages.items() if package["name"] in programs]
    found = set()
    while waiting:
        ident = waiting.pop()
        if ident in found or any("proc-macro" in target["kind"] for target in packages[ident]["targets"]):
            continue
        found.add(ident)
        waiting += [
            dependency["pkg"]
            for dependency in nodes[ident]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
    return [packages[ident] for ident in found if packages[ident]["source"]]


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if FILES.match(path.name) and path.is_file())
    return "\n\n".join(path.read_text(errors="replace").strip() for path in files)


def main():
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked"]
    command += ["--filter-platform", sys.argv[1]]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    groups = {}
    for package in shipped(metadata, sys.argv[2:] or PROGRAMS):
        groups.setdefault(texts(package), []).append(package)
    print(HEAD)
    order = sorted(groups.items(), key=lambda group: min((one["name"], one["version"]) for one in group[1]))
    for text, packages in order:
        for one in sorted(packages, key=lambda one: (one["name"], one["version"])):
            print(f"{one['name']} {one['version']} ({one['license']})")
            if not text:
                print(f"    {one['repository'] or ''} by {', '.join(one['authors']) or 'its authors'}")
        print(f"\n{text}\n\n{'-' * 80}\n" if text else "")


if __name__ == "__main__":
    main()
