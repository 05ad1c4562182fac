#!/usr/bin/env python3
"""Lists what the libraries export, from the pages that rustdoc made.

    scripts/public_api.py DOC           writes api.txt from DOC, such as target/doc
    scripts/public_api.py DOC --check   compares api.txt with it

A line is an item, and below it are its methods, fields and variants. Whoever renames or removes one sees it in the
change of api.txt, and so does the reviewer.
"""

import argparse
import difflib
import html
import pathlib
import re
import sys

LIST = pathlib.Path(__file__).resolve().parent.parent / "api.txt"
CRATES = ("verisum", "verisum_digest", "verisum_files", "verisum_catalog", "verisum_remote", "verisum_object",
          "verisum_image", "verisum_blockhash", "verisum_pagecache", "verisum_lake", "verisum_mend",
          "verisum_parity",
          "verisum_dirhash", "verisum_bench", "verisum_kernels")
ITEM = re.compile(r'<li><a href="([^"]+)">([^<]+)</a></li>')
MEMBER = re.compile(r'id="(?:method|tymethod|variant|structfield|associatedconstant|associatedtype)\.([^"]+)"')


def members(page):
    """The names of an item's own members; those of the traits that it has come after them in its page."""
    text = page.read_text(encoding="utf-8")
    for end in ('id="trait-implementations"', 'id="synthetic-implementations"', 'id="foreign-impls"',
                'id="implementors"', 'id="blanket-implementations"'):
        text = text.split(end)[0]
    return sorted(set(MEMBER.findall(text)))


def listing(doc):
    """The lines of the list."""
    for crate in CRATES:
        text = (doc / crate / "all.html").read_text(encoding="utf-8")
        for link, name in sorted(ITEM.findall(text), key=lambda item: item[1]):
            kind = link.rsplit("/", 1)[-1].split(".")[0]
            yield f"{kind} {crate}::{html.unescape(name)}"
            yield from (f"    {member}" for member in members(doc / crate / link))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("doc", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    lines = list(listing(arguments.doc))
    if not arguments.check:
        LIST.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return
    recorded = LIST.read_text(encoding="utf-8").splitlines()
    difference = list(difflib.unified_diff(recorded, lines, "api.txt", "the libraries", lineterm=""))
    if difference:
        sys.exit("\n".join([*difference, "", "If that is meant: scripts/public_api.py target/doc"]))


if __name__ == "__main__":
    main()
