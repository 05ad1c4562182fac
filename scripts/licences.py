"""Checks the licence of every dependency against the list in deny.toml.

Reads `cargo metadata`. Understands SPDX expressions of AND, OR, WITH and parentheses, and the old
slash for OR. Exits 1 and names the packages whose licence is not allowed.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tokens(expression):
    return re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))


def allowed(expression, allow):
    """Whether an SPDX expression can be met by allowed licences alone."""
    words = tokens(expression)
    position = 0

    def peek():
        return words[position] if position < len(words) else None

    def take():
        nonlocal position
        position += 1
        return words[position - 1]

    def either():
        value = both()
        while peek() == "OR":
            take()
            value = both() or value
        return value

    def both():
        value = one()
        while peek() == "AND":
            take()
            value = one() and value
        return value

    def one():
        word = take()
        if word == "(":
            value = either()
            if take() != ")":
                raise ValueError("no closing parenthesis")
            return value
        if peek() == "WITH":
            take()
            word = f"{word} WITH {take()}"
        return word in allow

    value = either()
    if peek() is not None:
        raise ValueError(f"cannot read {expression!r}")
    return value


def main():
    with open(ROOT / "deny.toml", "rb") as file:
        allow = set(tomllib.load(file)["licenses"]["allow"])
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    bad = 0
    for package in metadata["packages"]:
        licence = package["license"]
        if licence is None or not allowed(licence, allow):
            bad += 1
            print(f"{package['name']} {package['version']}: licence {licence} is not allowed by deny.toml")
    print(f"licences: {len(metadata['packages'])} packages, {bad} not allowed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
