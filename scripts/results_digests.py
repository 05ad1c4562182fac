#!/usr/bin/env python3
"""Measures experiment 1 anew and writes what it found into docs/results/digests.md.

    python3 scripts/results_digests.py target/release/verisum

Takes about fifteen minutes and wants a machine that does nothing else; --size, --runs, --time and --page
try it on less. What stands between the lines
`<!-- measured -->` and `<!-- /measured -->` is replaced; the rest of the page is written by people, and
is to be read again against the new figures.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "results" / "digests.md"
BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"

# What was published: a PowerBook G4, 30 runs, seconds.
THEN = {
    ("coreutils", "md5"): 58,
    ("openssl", "sha1"): 64,
    ("coreutils", "sha1"): 177,
    ("openssl", "sha256"): 169,
    ("coreutils", "sha256"): 653,
    ("coreutils", "sha512"): 1513,
}


def run(program, *arguments):
    """What the program prints, which also goes to this program's standard error as a sign of life."""
    print("$ verisum " + " ".join(arguments), file=sys.stderr)
    ended = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True)
    # What failed is said in the page; a wrong digest is no page.
    if ended.returncode not in (0, 3):
        sys.exit(f"{program}: exit code {ended.returncode}")
    return ended.stdout


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def tables(markdown, wanted):
    """The tables of a report whose title is wanted, in its order."""
    for part in markdown.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        if wanted(title):
            yield f"### {title}\n{rest.rstrip()}\n"


def beside_then(results):
    """The published seconds beside ours, each as a multiple of coreutils md5."""
    now = {
        (one["name"], one["labels"]["digest"]): median(one["wall"])
        for one in results["series"]
        if one["wall"] and one["labels"].get("size") == "large"
    }
    base = now.get(("coreutils", "md5"))
    lines = ["| program and digest | in 2011: 30 runs | times coreutils md5 | now: one run | times coreutils md5 |", "|-|-:|-:|-:|-:|"]
    for (program, digest), seconds in THEN.items():
        here = now.get((program, digest))
        shown = "SKIPPED | -" if here is None or not base else f"{here * 1e3:.0f} ms | {here / base:.2f}"
        lines.append(f"| {program} {digest} | {seconds} s | {seconds / 58:.2f} | {shown} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--size", type=int, default=256, metavar="MIB", help="the file that programs hash")
    parser.add_argument("--runs", default="30", help="of the lines of the experiment")
    parser.add_argument("--time", default="6m", help="for the rest")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    options = parser.parse_args()
    program, size, runs = options.program, options.size, options.runs
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = folder / "data"
        block = bytes(range(256)) * 4096
        with open(data, "wb") as file:
            for _ in range(size):
                file.write(block)
        report, raw, old = folder / "r.md", folder / "r.json", folder / "old.json"
        lines = run(program, "bench", "digests", "--style", "test-digests", "--runs", runs,
                    "--export-json", str(old), str(data))
        run(program, "bench", "digests", "--time", options.time, "--size", f"{size}M",
            "--export-markdown", str(report), "--export-json", str(raw))
        markdown = report.read_text()
        results = json.loads(raw.read_text())
        said = f"A file of {size} MiB, {runs} runs."
        parts = [f"### The lines of the experiment\n\n{said}\n\n```\n{lines}```\n"]
        parts.append("### Beside the published ones\n\n" + beside_then(json.loads(old.read_text())))
        for doubt in results["doubts"]:
            parts.append(f"**Noisy:** {doubt}.\n")
        parts += tables(markdown, lambda title: title.startswith(("Digests in", "Starting")))
        parts += tables(markdown, lambda title: title.endswith("of a file"))
        parts += tables(markdown, lambda title: "in process," in title and not title.startswith("Digests"))
        parts += tables(markdown, lambda title: title == "Host")
    page = options.page.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    options.page.write_text(before + BEGIN + "\n" + "\n".join(parts) + "\n" + END + after)


if __name__ == "__main__":
    main()
