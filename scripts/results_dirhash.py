#!/usr/bin/env python3
"""Measures all times of docs/results/directory-hashes.md anew and writes them into that page.

    python3 scripts/results_dirhash.py PROGRAM [--size try|usual|full] [--page FILE] [--bench PROGRAM]

Run it as root on a machine that does nothing else: about ten minutes, `full` about an hour, `try`, which says
nothing but that it works, half a minute. PROGRAM is target/release/verisum; --bench is the built bench
`namehash` of crates/dirhash, which otherwise is built. Some gigabytes are needed where temporary files lie
(TMPDIR), better in memory than on a disk that others use. With --page the measured page is a copy.

What stands between `<!-- KEY -->` and `<!-- /KEY -->` is replaced, in lines and in cells; the rest of the page,
its verdicts too, is written by people, and is to be read again against the new figures.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results" / "directory-hashes.md"
SEED = "11223344-5566-7788-99aa-bbccddeeff00"

SIZES = {
    "try": dict(
        names=2000, cycles=2000, directories=3, files=300, colliding=[300, 600], rounds=1, tries=10**6,
        most=10**5, samples=3,
    ),
    "usual": dict(
        names=50_000, cycles=20_000, directories=4, files=5000, colliding=[600, 2000], rounds=10,
        tries=4 * 10**8, most=10**7, samples=201,
    ),
    "full": dict(
        names=200_000, cycles=100_000, directories=100, files=10_000, colliding=[600, 5000], rounds=10,
        tries=4 * 10**9, most=10**7, samples=501,
    ),
}  # fmt: skip

COLUMNS = ["ext4 legacy", "ext4 half_md4", "ext4 tea", "xfs", "btrfs"]
HEADS = ["", "ext4 legacy", "half_md4", "tea", "XFS", "btrfs"]
PHASES = {
    "create": "create",
    "stat in reverse": "status in reverse, remounted",
    "delete": "delete",
    "create again": "create again",
}


class Run:
    """A verb's report, what it was asked, and what it took."""

    def __init__(self, program, *arguments):
        arguments = ["dirhash", *map(str, arguments), "--seed", SEED]
        print("$ verisum " + " ".join(arguments), file=sys.stderr)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = subprocess.run([program, *arguments, "--json"], stdout=subprocess.PIPE, check=False, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # 3 says that a search found less than was asked for.
        if ended.returncode not in (0, 3):
            raise SystemExit(f"verisum ended with {ended.returncode}")
        self.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.tables = [table["rows"] for table in json.loads(ended.stdout)["tables"]]


def in_rounds(count):
    return "one round" if count == 1 else f"{count} rounds"


def markdown(heads, rows, right_from=1):
    """A table; columns from `right_from` on are numbers."""
    marks = ["---" if place < right_from else "-:" for place in range(len(heads))]
    lines = ["| " + " | ".join(heads) + " |", "|" + "|".join(marks) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def mounted(run):
    """The directories and phases of `bakeoff --real`: a row for each, a column for each file system."""
    directories = {row["file system"]: row for row in run.tables[0]}
    times = {(row["file system"], row["phase"]): row for row in run.tables[1]}

    def blocks(row):
        if row["blocks"] is None:
            return ""
        return f"{row['blocks']}" if row["model"] is None else f"{row['blocks']}, {row['model']}"

    def filled(row):
        return "" if row["fill"] is None else f"{row['fill'] * 40.96:.0f} ({row['fill']:.0f}%)"

    def time(row):
        cell = f"{row['processor']:.2f}"
        verdict = row["by processor time"]
        return cell if verdict is None else f"{cell} ({row['ratio']:.2f}, {verdict})"

    rows = [
        ["blocks, and those of the model", *(blocks(directories[name]) for name in COLUMNS)],
        ["bytes filled of 4096", *(filled(directories[name]) for name in COLUMNS)],
    ]
    for phase, title in PHASES.items():
        rows.append([title, *(time(times[name, phase]) for name in COLUMNS)])
    return markdown(HEADS, rows)


def microseconds(run, phase, names, quantity="processor"):
    """A phase's time for each name, for each hash of ext4."""
    times = {row["file system"]: row[quantity] for row in run.tables[1] if row["phase"] == phase}
    return [times[name] * 1e6 / names for name in COLUMNS]


def peer(output):
    """The table of the bench `namehash`."""
    rows = []
    for line in output.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0] in ("legacy", "half_md4", "tea"):
            name, length, theirs, single, ratio, batch, batch_ratio, _ = fields
            shown = "" if rows and any(row[0] == name for row in rows) else name
            rows.append([shown, length, theirs, single, ratio, batch, batch_ratio])
    heads = ["hash", "length", "libext2fs", "one name", "ratio", "batch", "ratio"]
    return markdown(heads, rows) if rows else None


def attacked(runs):
    """What names of one hash do on a mounted ext4."""
    rows = []
    for run in runs:
        for place, row in enumerate(run.tables[2]):
            kind = "ordinary" if row["names"] == "ordinary" else "of one hash"
            seed = ", another seed" if row["seed"] == "another" else ""

            def ratio(of, row=row):
                value = row[f"{of} ratio"]
                return "" if value is None else f"{value:.1f}, {row[f'{of}s are']}"

            rows.append([
                f"{int(row['created']):,}" if place == 0 else "",
                kind + seed,
                f"{row['blocks']}, {row['model']}",
                f"{row['create']:.1f}", ratio("create"),
                f"{row['lookup']:.1f}", ratio("lookup"),
            ])  # fmt: skip
    heads = ["names", "", "blocks, and those of the model", "create", "ratio", "lookup", "ratio"]
    return markdown(heads, rows, right_from=2)


def measure(program, bench, size):
    """All texts by their keys."""
    texts = {}
    rounds = ["--rounds", size["rounds"]]
    times = lambda numbers, digits=1: ", ".join(f"{number:.{digits}f}" for number in numbers)

    creates = Run(program, "bakeoff", "--real", "-n", size["names"], "--names", "foo%09d", *rounds)
    texts["creates"] = mounted(creates)
    texts["creates count"] = f"{size['names']:,} names `foo000000000` and so on, {in_rounds(size['rounds'])}"
    of_names = lambda phase, quantity="processor": microseconds(creates, phase, size["names"], quantity)
    legacy, half_md4, *_ = of_names("create", "system")
    texts["create system"] = f"{half_md4:.1f} against {legacy:.1f} µs of the system a create"
    texts["create"] = f"{of_names('create')[1]:.0f}"

    cycles = Run(program, "bakeoff", "--real", "-n", size["cycles"], "--names", "foo%d", *rounds)
    texts["cycles"] = mounted(cycles)
    texts["cycles count"] = f"{size['cycles']:,} names `foo0` and so on, {in_rounds(size['rounds'])}"
    of_cycles = lambda phase: microseconds(cycles, phase, size["cycles"], "system")[1]
    texts["cycles now"] = (
        f"half_md4: {of_cycles('create'):.0f} and {of_cycles('delete'):.0f} in the system, "
        f"{of_cycles('create again'):.0f} to create again"
    )

    files = size["directories"] * size["files"]
    many = Run(
        program, "bakeoff", "--real", "-n", size["files"], "--directories", size["directories"],
        "--names", "file_name_%05d", *rounds,
    )  # fmt: skip
    texts["many"] = mounted(many)
    texts["many count"] = f"{size['directories']} directories of {size['files']:,} names, {in_rounds(size['rounds'])}"
    a_file = [f"{value:.1f}" for value in microseconds(many, "stat in reverse", files)]
    texts["many now"] = (
        f"of {files:,} files in {size['directories']} directories {a_file[0]} µs of processor time a file with "
        f"legacy, {a_file[1]} half_md4, {a_file[2]} tea, {a_file[3]} XFS, {a_file[4]} btrfs"
    )

    attacks = [
        Run(program, "attack", "--real", "--hash", "legacy", "-n", count, *rounds) for count in size["colliding"]
    ]
    texts["attacks"] = attacked(attacks)
    texts["attacks rounds"] = in_rounds(size["rounds"])
    worst = attacks[-1].tables[2][1]
    texts["hurt now"] = (
        f"{size['colliding'][-1]:,} names on a mounted ext4: creates take {worst['create ratio']:.1f} times "
        f"the processor's time, lookups {worst['lookup ratio']:.1f} times"
    )

    made = Run(program, "attack", "-n", 600, "--hash", "legacy").tables[0][0]
    search = Run(program, "attack", "-n", 1, "--tries", size["tries"], "--hash", "half_md4", "--hash", "tea").tables[0]
    texts["made"] = f"{made['time']:.1f} s"
    # Millions a second.
    rates = {row["hash"]: row["rate"] for row in search if row["rate"]}
    texts["rates"] = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
    texts["a name"] = f"{2**31 / (1e6 * rates['half_md4']):.0f} s"

    hashes = ["legacy", "half_md4", "tea", "siphash13", "siphash24", "halfsiphash24", "xxh3"]
    cost = Run(program, "cost", *(word for name in hashes for word in ("--hash", name)))
    lengths = sorted({row["length"] for row in cost.tables[0]})
    cells = {(row["hash"], row["length"]): row["time"] for row in cost.tables[0]}
    rows = [[name, *(f"{cells[name, length]:.1f}" for length in lengths)] for name in hashes]
    texts["cost"] = markdown(["ns a name, by its length", *map(str, lengths)], rows)
    texts["cost of 16"] = times([cells["legacy", 16], cells["half_md4", 16]], 0).replace(", ", " ns against ") + " ns"

    models = {name: Run(program, "bakeoff", "-n", size["most"], "--hash", name, "--points", 0) for name in hashes[:2]}
    texts["model"] = (
        f"A model of {size['most']:,} names takes {models['half_md4'].seconds:.1f} s of processor time with half_md4 "
        f"and {models['legacy'].seconds:.1f} s with legacy."
    )
    quality = Run(program, "quality", "--hash", "all")
    texts["quality"] = f"{quality.seconds:.0f} s of processor time"

    namehash = [bench] if bench else ["cargo", "bench", "-q", "-p", "verisum-dirhash", "--bench", "namehash", "--"]
    print("$ " + " ".join(namehash), file=sys.stderr)
    output = subprocess.run(
        [*namehash, f"samples={size['samples']}"], stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT
    ).stdout
    # Without the library beside it the figures are none.
    table = not output.startswith("without libext2fs") and peer(output)
    if table:
        texts["peer"] = table
        level = output.splitlines()[0].rpartition(" with ")[2]
        texts["peer with"] = level.upper().replace("AVX512", "AVX-512")
    else:
        print(output.splitlines()[0], file=sys.stderr)

    load = " ".join(pathlib.Path("/proc/loadavg").read_text().split()[:3])
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    texts["machine"] = (
        f"{model[1] if model else 'unknown processor'}, {os.cpu_count()} processors, Linux {os.uname().release}; "
        f"load when all was done {load}"
    )
    return texts


def replaced(page, texts):
    for key, text in texts.items():
        pattern = re.compile(rf"(<!-- {key} -->)(\n?).*?(<!-- /{key} -->)", re.DOTALL)
        page, count = pattern.subn(lambda m, text=text: m[1] + m[2] + text + m[2] + m[3], page)
        if not count:
            print(f"the page has no place for: {key}", file=sys.stderr)
    for key in sorted(set(re.findall(r"<!-- /(.*?) -->", page)) - set(texts)):
        print(f"not measured: {key}", file=sys.stderr)
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--size", choices=SIZES, default="usual")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    parser.add_argument("--bench", type=os.path.abspath)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("only root can mount file systems")
    if arguments.size == "try" and arguments.page == PAGE:
        raise SystemExit("a trial measures nothing: say with --page where it may write")
    texts = measure(arguments.program, arguments.bench, SIZES[arguments.size])
    # What was measured survives a page that it does not fit.
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="dirhash-", delete=False) as file:
        json.dump(texts, file, indent=1)
    print(f"all texts: {file.name}", file=sys.stderr)
    arguments.page.write_text(replaced(PAGE.read_text(), texts))


if __name__ == "__main__":
    main()
