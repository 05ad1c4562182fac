#!/usr/bin/env python3
"""Measures experiment 1 anew and writes what it found into docs/results/digests.md.

    python3 scripts/results_digests.py target/release/verisum

Takes about ten minutes and wants a machine that does nothing else. What stands between the lines
`<!-- measured -->` and `<!-- /measured -->` is replaced; the rest of the page is written by people, and
is to be read again against the new figures.
"""

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
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


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
    lines = ["| program, digest | then, 30 runs | of md5 | now, one run | of md5 |", "|-|-:|-:|-:|-:|"]
    for (program, digest), seconds in THEN.items():
        here = now.get((program, digest))
        shown = "SKIPPED | -" if here is None or not base else f"{here * 1e3:.0f} ms | {here / base:.2f}"
        lines.append(f"| {program} {digest} | {seconds} s | {seconds / 58:.2f} | {shown} |")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = folder / "data"
        block = bytes(range(256)) * 4096
        with open(data, "wb") as file:
            for _ in range(256):
                file.write(block)
        report, raw, old = folder / "r.md", folder / "r.json", folder / "old.json"
        lines = run(program, "bench", "digests", "--style", "test-digests", "--runs", "30",
                    "--export-json", str(old), str(data))
        run(program, "bench", "digests", "--time", "6m", "--size", "256M",
            "--export-markdown", str(report), "--export-json", str(raw))
        markdown = report.read_text()
        results = json.loads(raw.read_text())
        parts = ["### The lines of the experiment\n\nA file of 256 MiB, 30 runs.\n\n```\n" + lines + "```\n"]
        parts.append("### Beside the published ones\n\n" + beside_then(json.loads(old.read_text())))
        for doubt in results["doubts"]:
            parts.append(f"**Noisy:** {doubt}.\n")
        parts += tables(markdown, lambda title: title.startswith(("Digests in", "Starting")))
        parts += tables(markdown, lambda title: title.endswith("of a file"))
        parts += tables(markdown, lambda title: "in process," in title and not title.startswith("Digests"))
        parts += tables(markdown, lambda title: title == "Host")
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(parts) + "\n" + END + after)


if __name__ == "__main__":
    main()
