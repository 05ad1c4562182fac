"""Places hashed, scrubbed and compared by the workers of a cluster of four processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest
import pyarrow.parquet
from dask.utils import key_split
from distributed import Client, LocalCluster
from fleet_tree import Trace, contents, expected, make_tree, notes, present, wait_until_idle
from fsspec.implementations.memory import MemoryFileSystem

import verisum.dask
from verisum.dask import (
    BadFile,
    LakeError,
    Place,
    PlaceError,
    PlaceReport,
    Report,
    VersionError,
    compare_places,
    hash_places,
    scrub_places,
)
from verisum.dask._cut import Cut, Mode, Step, cut
from verisum.dask._errors import PartError
from verisum.dask._lake import Lake, LakeRecord, part_bytes, part_groups
from verisum.dask._run import PlaceState, Run, prefix
from verisum.dask._version import VERSION
from verisum.dask._work import Order, Outcome, Row, columns_of, milliseconds, work
from verisum.fleet import read_plan


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    options: dict[str, Any] = {"dashboard_address": None, "memory_limit": "512MiB"}
    made: Any = LocalCluster(n_workers=4, threads_per_worker=1, **options)
    with made:
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as made:
        yield made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree", 300)


def parts(lake: Path) -> list[Path]:
    """The parts in no order that means something: their names come from hashes."""
    return sorted(lake.rglob("*.parquet"))


def part_of(lake: Path, rows: int) -> Path:
    """A part with so many rows."""
    read: Any = pyarrow.parquet
    return next(part for part in parts(lake) if read.read_metadata(part).num_rows == rows)


def test_many_processes_find_what_one_does(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    report = scrub_places(client, str(tree), str(lake), task_files=50)
    assert report.exit_code == 0
    assert report.verdicts == {"new": 306}
    assert report.places[0].left_files == 0
    assert contents(lake, str(tree)) == expected(tree)
    assert len(parts(lake)) == 7
    # Nothing of the run is left but its parts.
    assert all(path.suffix == ".parquet" for path in lake.rglob("*") if path.is_file())
    again = scrub_places(client, str(tree), str(lake), task_files=50)
    assert again.verdicts == {"ok": 306}
    assert again.read_bytes == sum(size for size, _ in expected(tree).values())


def test_only_what_is_new_or_changed_is_hashed(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert hash_places(client, str(tree), str(lake), task_files=50).read_files == 306
    assert hash_places(client, str(tree), str(lake), task_files=50).read_files == 0
    (tree / "d1" / "f00001").write_bytes(b"another content")
    (tree / "d2" / "f00002").unlink()
    (tree / "here").write_bytes(b"here")
    report = hash_places(client, str(tree), str(lake), task_files=50)
    assert report.verdicts == {"modified": 1, "missing": 1, "new": 1}
    assert contents(lake, str(tree)) == expected(tree)


def test_what_is_left_out_keeps_its_record(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    place = Place(str(tree), exclude=["/d1/", "*.txt", "f00003"])
    left_out = {path for path in expected(tree) if path.startswith(b"d1/") or path.endswith((b".txt", b"f00003"))}
    assert len(left_out) == 45
    assert scrub_places(client, place, lake).verdicts == {"new": 306 - len(left_out)}
    assert scrub_places(client, str(tree), lake).verdicts == {"ok": 306 - len(left_out), "new": len(left_out)}
    assert scrub_places(client, place, lake).verdicts == {"ok": 306 - len(left_out)}
    assert contents(tmp_path / "lake", str(tree)) == expected(tree)
    with pytest.raises(ValueError, match=r"\[z-a\]"):
        Place(str(tree), exclude=["[z-a]"])
    with pytest.raises(TypeError, match="a list of patterns"):
        Place(str(tree), exclude="*.txt")


def test_max_age_leaves_out_what_was_verified(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    scrub_places(client, str(tree), lake)
    assert scrub_places(client, str(tree), lake, max_age=3600).read_files == 0
    assert scrub_places(client, str(tree), lake, max_age=0).read_files == 306


WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"max_age": "1"}, "max_age: a number of seconds"),
    ({"budget": "8h"}, "budget: a number of seconds"),
    ({"budget": True}, "budget: a number of seconds"),
    ({"patience": "1m"}, "patience: a number of seconds"),
    ({"threads": "2"}, "threads: a whole number"),
    ({"task_files": 1.5}, "task_files: a whole number"),
    ({"algorithm": 7}, "algorithm: text"),
    ({"catalog": 7}, "catalog: text"),
    ({"places": 7}, "places: text"),
    ({"client": None}, "client: a distributed.Client"),
    ({"places": [7]}, "places: text"),
]
WRONG_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"max_age": -1}, "max_age: must be 0 or more seconds"),
    ({"max_age": float("nan")}, "max_age: must be"),
    ({"budget": 0}, "budget: must be more than 0 seconds"),
    ({"budget": timedelta(0)}, "budget: must be more than 0 seconds"),
    ({"threads": 129}, "threads: must be 0 to 128"),
    ({"task_bytes": 0}, "task_bytes: must be at least 1"),
    ({"places": []}, "places: none is named"),
    ({"places": ["/a", "/a"]}, "places: two have the same name"),
]


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [(TypeError, *wrong) for wrong in WRONG_TYPES] + [(ValueError, *wrong) for wrong in WRONG_VALUES],
)
def test_a_wrong_argument_is_named(
    kind: type[Exception], given: dict[str, Any], said: str, client: Client, tree: Path, tmp_path: Path
) -> None:
    run: Any = scrub_places
    with pytest.raises(kind, match=re.escape(said)):
        run(**{"client": client, "places": str(tree), "catalog": str(tmp_path / "lake"), **given})
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bytes_per_second": "200M"}, "bytes_per_second: a whole number"),
        ({"tasks": True}, "tasks: a whole number"),
        ({"name": 7}, "name: text"),
        ({"exclude": 7}, "exclude: must be a list"),
        ({"hosts": "web1"}, "hosts: must be a verisum.Hosts"),
    ],
)
def test_a_wrong_field_of_a_place_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        Place("/srv", **given)


def test_missing_files_are_named_once_and_counted_by_every_run(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    scrub_places(client, str(tree), lake)
    (tree / "d1" / "f00001").unlink()
    report = scrub_places(client, str(tree), lake)
    assert report.verdicts == {"ok": 305, "missing": 1} and report.places[0].still_missing == 0
    assert [file.path for file in report.places[0].bad] == [b"d1/f00001"]
    (tree / "d2" / "f00002").unlink()
    for seen in ({"ok": 304, "missing": 1}, {"ok": 304}):
        report = scrub_places(client, str(tree), lake)
        assert report.verdicts == seen
    assert report.places[0].still_missing == 2 and not report.places[0].bad and report.exit_code == 0
    assert "304 ok, 2 missing since earlier" in str(report)
    assert hash_places(client, str(tree), lake).places[0].still_missing == 2
    assert scrub_places(client, Place(str(tree), exclude=["/d2/"]), lake).places[0].still_missing == 1


def test_a_place_without_files_never_looks_clean(client: Client, tree: Path, tmp_path: Path) -> None:
    lake, empty = str(tmp_path / "lake"), tmp_path / "never mounted"
    empty.mkdir()
    for place, said in ((empty, "no file is there; is it mounted?"), (tmp_path / "none", "No such file")):
        for run in (scrub_places, hash_places):
            report = run(client, [str(place), str(tree)], lake)
            assert report.exit_code == 3 and said in report.places[0].errors[0]
            assert report.places[1].listed_files == 306 and not report.places[1].errors


def test_a_budget_leaves_the_rest_and_says_so(client: Client, tree: Path, tmp_path: Path) -> None:
    report = scrub_places(client, str(tree), str(tmp_path / "lake"), budget=1e-9)
    assert (report.read_files, report.places[0].left_files, report.seconds_left) == (0, None, None)
    assert report.exit_code == 3 and "the budget was over before" in str(report)


def test_a_budget_that_the_listing_uses_up_says_so(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    scrub_places(client, Place(str(tree), name="tree"), str(lake))
    replace_record(lake, "tree", b"d1/f00001", state="suspicious")
    (tree / "d2" / "f00002").unlink()
    mode = Mode(True, "sha256", milliseconds())
    run = Run(client, [Place(str(tree), name="tree")], str(lake), mode, budget=3600)
    # The budget ends when the listing does.
    listed = run.listed

    def late(state: PlaceState, found: Cut) -> None:
        listed(state, found)
        run.begun -= 3600

    run.listed = late  # type: ignore[method-assign]
    report = run.go()
    assert (report.read_files, report.places[0].listed_files, report.places[0].left_files) == (0, 305, 305)
    assert report.exit_code == 1
    assert "suspicious: tree: d1/f00001: as an earlier run found" in str(report)
    (error,) = report.places[0].errors
    assert error.startswith("the budget was over before anything was verified")


def test_a_run_that_continues_a_cycle_names_what_is_missing(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    place = Place(str(tree), name="tree")
    scrub_places(client, place, str(lake))
    (tree / "d1" / "f00001").unlink()
    begun = milliseconds()
    scrub_places(client, place, str(lake))
    # As if the run had been killed after its last part: its cycle has not ended.
    Lake(str(lake)).write_note("tree", "cycle", {"begun": begun})
    report = scrub_places(client, place, str(lake))
    assert (report.read_files, report.places[0].still_missing, report.verdicts) == (0, 0, {"missing": 1})
    assert "missing: tree: d1/f00001: as this cycle found before" in str(report)


class Unreachable(MemoryFileSystem):  # type: ignore[misc]
    """A file system with an exception of its own, as that of each store has."""

    protocol = "unreachable"

    def unreachable(self, *_: Any, **__: Any) -> Any:
        raise LookupError("no answer\nfrom the store")

    find = exists = _open = cat_file = pipe_file = makedirs = rm = unreachable


def test_whatever_the_file_system_of_a_lake_raises_is_an_error_of_the_lake() -> None:
    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    lake = Lake("unreachable://lakes/a")
    calls: list[Callable[[], object]] = [
        lambda: lake.parts("p"),
        lambda: lake.find_part("p", "n", 0, 0),
        lambda: lake.read(f"{lake.root}/b"),
        lambda: lake.write(f"{lake.root}/b", b""),
        lambda: lake.read_note("p", "cycle"),
        lambda: part_groups(lake.url, f"{lake.root}/b"),
    ]
    for call in calls:
        with pytest.raises(LakeError, match="^unreachable://.*lakes/a/.*: no answer from the store$") as raised:
            call()
        assert not isinstance(raised.value, PartError)
    lake.remove(f"{lake.root}/b", recursive=True)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        (b"n/caf\xe9\xff", r"$'n/caf\351\377'"),
        (b"a\nb", r"$'a\nb'"),
        (rb"a\nb", r"a\nb"),
        (b"$'a'", r"$'$\'a\''"),
        (b"a\\\x1b[2J", r"$'a\\\033[2J'"),
        ("\u202egnp.exe".encode(), r"$'\342\200\256gnp.exe'"),
        ("caf\u00e9".encode(), "caf\u00e9"),
    ],
)
def test_names_are_printed_as_the_command_does(name: bytes, printed: str) -> None:
    place = PlaceReport(os.fsdecode(name), bad=[BadFile(name, "rot", "")], errors=["gone"])
    said = str(Report([place], 0)).splitlines()
    assert said[1].startswith(f"{printed}  ")
    assert said[2:] == [f"{printed}: gone", f"rot: {printed}: {printed}"]


def test_a_place_without_files_has_no_forecast() -> None:
    place = PlaceReport("empty", listed_files=0, listed_bytes=0, left_files=0, left_bytes=0)
    assert str(Report([place], 0)).splitlines()[1].endswith("?")


def replace_record(lake: Path, place: str, path: bytes, **changes: Any) -> None:
    """Writes a newer row of a file."""
    row = present(lake, place)[path]
    new = Row(path, row._replace(**changes), row.exported)
    opened = Lake(str(lake))
    columns = columns_of([new], row.algorithm, row.exported + 1)
    opened.write(opened.part(place, "test", row.exported), part_bytes(columns, 32, {}))


def test_rot_is_told_from_changes(client: Client, tree: Path, tmp_path: Path) -> None:
    lake, place = tmp_path / "lake", str(tree)
    scrub_places(client, place, str(lake))
    rotten, altered, touched = b"d1/f00001", b"d2/f00002", b"d3/f00003"
    for path in (rotten, altered, touched):
        file = tree / os.fsdecode(path)
        before = file.stat()
        if path != touched:
            file.write_bytes(file.read_bytes().replace(b" ", b"_"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + (path == touched)))
    # As if the storage had done it: no time moved.
    replace_record(lake, place, rotten, ctime=(tree / os.fsdecode(rotten)).stat().st_ctime_ns)
    report = scrub_places(client, place, str(lake))
    assert report.exit_code == 1
    assert report.verdicts == {"ok": 303, "rot": 1, "suspicious": 1, "touched": 1}
    found = {bad.path: bad for bad in report.places[0].bad}
    assert found[rotten].verdict == "rot" and "second read" in found[rotten].detail
    assert found[altered].verdict == "suspicious"
    assert present(lake, place)[rotten].state == "rot"
    # The record stays that of the good content.
    assert contents(lake, place)[rotten] != expected(tree)[rotten]
    assert "rot: " in str(report) and json.dumps(report.to_json())
    # It stays bad until it is good again.
    assert scrub_places(client, place, str(lake)).verdicts["rot"] == 1


def test_places_are_compared(client: Client, tree: Path, tmp_path: Path) -> None:
    copy = make_tree(tmp_path / "copy", 300)
    (copy / "d1" / "f00001").write_bytes(b"x")
    (copy / "d2" / "f00002").unlink()
    (copy / "more").write_bytes(b"y")
    found = compare_places(client, str(tree), Place(str(copy), name="copy"), str(tmp_path / "lake"))
    assert (found.same, found.different, found.only_a, found.only_b) == (304, 1, 1, 1)
    assert found.exit_code == 1
    assert {file.path: file.verdict for file in found.named or []} == {
        b"d1/f00001": "different",
        b"d2/f00002": "only in a",
        b"more": "only in b",
    }


def test_a_worker_with_another_version_is_refused_by_name(client: Client, tree: Path, tmp_path: Path) -> None:
    def pretend(version: str) -> str:
        import verisum.dask._version as module

        before, module.VERSION = module.VERSION, version
        return before

    address = sorted(client.scheduler_info(n_workers=-1)["workers"])[1]
    answer: Any = client.run(pretend, "0.0.1", workers=[address])
    try:
        with pytest.raises(VersionError, match=f"{address} has verisum 0.0.1, and this run needs "):
            hash_places(client, str(tree), str(tmp_path / "lake"))
    finally:
        client.run(pretend, answer[address], workers=[address])
    assert not parts(tmp_path / "lake")


# What workers do before they begin.
STRANGERS = {
    "old": """
import verisum.dask._version, verisum.dask._work
verisum.dask._version.VERSION = "0.0.1"
verisum.dask._work.done = verisum.dask._work.refuse_other = None
""",
    "bare": "import sys; sys.modules['verisum'] = None",
}


def test_workers_with_another_version_that_come_later_get_no_work(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"dashboard_address": None}
    made: Any = LocalCluster(n_workers=1, threads_per_worker=1, **options)
    strangers: list[subprocess.Popen[bytes]] = []
    before = Run.submit

    def submit(run: Run) -> None:
        """Begins with nothing but listings before the strangers have come and were met."""
        if not strangers:
            command = [sys.executable, "-m", "distributed.cli.dask_worker", made.scheduler_address, "--no-dashboard"]
            for name, code in STRANGERS.items():
                arguments = [*command, "--no-nanny", "--name", name, "--preload", code]
                strangers.append(subprocess.Popen(arguments, stderr=subprocess.DEVNULL))
        if len(run.report.refused) == 2 or not run.sent:
            before(run)

    monkeypatch.setattr(Run, "submit", submit)
    with made, Client(made) as client:
        try:
            report = hash_places(client, str(tree), str(tmp_path / "lake"), task_files=10, patience=600)
        finally:
            for stranger in strangers:
                stranger.terminate()
                stranger.wait()
    assert report.exit_code == 0 and report.verdicts == {"new": 306}
    old, bare = sorted(report.refused, key=lambda line: "no verisum" in line)
    assert re.fullmatch(r"worker old at tcp://\S+ has verisum 0.0.1, and this run needs \S+", old)
    assert re.match(r"worker bare at tcp://\S+ has no verisum", bare)
    assert old in str(report) and report.to_json()["refused"] == report.refused
    assert old in caplog.text


def test_a_half_written_part_is_named_and_the_other_places_finish(client: Client, tree: Path, tmp_path: Path) -> None:
    lake, other = tmp_path / "lake", Place(str(make_tree(tmp_path / "other", 10)), name="other")
    hash_places(client, str(tree), str(lake), task_files=50)
    half = part_of(lake, 50)
    half.write_bytes(half.read_bytes()[:-100])
    for name, run in (("other", hash_places), ("others", scrub_places)):
        report = run(client, [str(tree), replace(other, name=name)], str(lake), task_files=50)
        assert f"{half.name}: this part is not whole" in report.places[0].errors[0]
        assert (report.places[0].read_files, report.exit_code) == (0, 3)
        assert report.places[1].verdicts == {"new": 16} and not report.places[1].errors
    with pytest.raises(PlaceError, match=half.name):
        compare_places(client, str(tree), other, str(lake))
    half.unlink()
    report = hash_places(client, str(tree), str(lake), task_files=50)
    assert report.read_files == 50
    assert contents(lake, str(tree)) == expected(tree)


def test_a_damaged_note_ends_its_place_only(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    lake.write(f"{lake.notes(str(tree))}/cycle.json", b"{")
    report = scrub_places(client, [str(tree), str(make_tree(tmp_path / "other", 10))], lake.url)
    assert "cycle.json: this note of an earlier run is damaged" in report.places[0].errors[0]
    assert report.places[1].verdicts == {"new": 16} and report.exit_code == 3


def test_a_task_writes_its_half_written_part_anew(tree: Path, tmp_path: Path) -> None:
    lake, place = Lake(str(tmp_path / "lake")), Place(str(tree))
    found = cut(Step(place, lake.url, Mode(False, "sha256", 1), VERSION))
    assert isinstance(found, Cut)
    order = Order(place, lake.url, found.tasks[0], False, 1, milliseconds(), VERSION, 1, found.top)
    for _ in range(2):
        outcome = work(order)
        assert isinstance(outcome, Outcome) and outcome.read_files == 306
        assert contents(tmp_path / "lake", str(tree)) == expected(tree)
        (part,) = parts(tmp_path / "lake")
        part.write_bytes(part.read_bytes()[:-100])


def test_a_damaged_record_is_no_rot(tree: Path, tmp_path: Path) -> None:
    row = LakeRecord(1, 2, 3, 4, "sha256", bytes(32), "ok", 5, 6, 7, 8)
    lake = Lake(str(tmp_path / "lake"))
    digests = [os.urandom(32) for _ in range(100)]
    rows = [Row(b"%03d" % number, row._replace(digest=digest), None) for number, digest in enumerate(digests)]
    part = lake.part("place", "name", 0)
    lake.write(part, part_bytes(columns_of(rows, "sha256", 8), 32, {}))
    assert len(lake.records(lake.groups("place"), None, None)) == 100
    data = bytearray(Path(part).read_bytes())
    # Random bytes are not compressed, so this is one bit of a digest. The least and the greatest also
    # stand in the statistics, which nobody reads and no checksum covers.
    data[data.index(sorted(digests)[50])] ^= 1
    other = lake.part("place", "other", 0)
    lake.write(other, bytes(data))
    Path(part).unlink()
    with pytest.raises(LakeError, match="other.parquet: this part is not whole"):
        lake.records(lake.groups("place"), None, None)


def test_a_damaged_part_is_not_imported(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    hash_places(client, str(tree), str(lake))
    (part,) = parts(lake)
    whole = part.read_bytes()
    digests = sorted(row.digest for row in verisum.hash_files(str(tree), ["sha256"]))
    # One that does not stand in the statistics too.
    middle = next(digest for digest in digests[1:-1] if whole.count(digest) == 1)
    damaged = bytearray(whole)
    damaged[whole.index(middle)] ^= 1
    part.write_bytes(damaged)
    catalog = str(tmp_path / "c.db")
    with pytest.raises(verisum.Error, match=part.name):
        verisum.Catalog.import_lake(catalog, str(lake))
    part.write_bytes(whole)
    assert verisum.Catalog.import_lake(catalog, str(lake))["added"] == len(digests)


def test_parquet_of_something_else_is_no_part(tmp_path: Path) -> None:
    write: Any = pyarrow.parquet
    lake = Lake(str(tmp_path / "lake"))
    part = lake.part("place", "name", 0)
    Path(part).parent.mkdir(parents=True)
    write.write_table(pyarrow.table({"x": [1]}).replace_schema_metadata({b"verisum.lake": b"1"}), part)
    with pytest.raises(LakeError, match="name.parquet: this is no part of a lake"):
        lake.groups("place")


def test_a_place_whose_name_is_no_utf8(client: Client, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / os.fsdecode(b"\xff"), 10)
    assert scrub_places(client, str(tree), str(tmp_path / "lake")).verdicts == {"new": 16}
    report = scrub_places(client, str(tree), str(tmp_path / "lake"))
    assert report.verdicts == {"ok": 16} and "\\377'" in str(report)


def test_scratch_of_a_killed_writer_is_no_part(client: Client, tree: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    hash_places(client, str(tree), str(lake))
    part = parts(lake)[0]
    (part.parent / f".{part.name}.0123").write_bytes(b"half")
    assert hash_places(client, str(tree), str(lake)).read_files == 0


def test_a_full_lake_is_one_error_and_nothing_is_lost(client: Client, tmp_path: Path, small_disk: Path) -> None:
    tree = make_tree(tmp_path / "tree", 2000)
    with pytest.raises(LakeError, match="write: No space left on device"):
        hash_places(client, str(tree), str(small_disk), task_files=100)
    # Tasks that were begun end behind the run, and may write parts.
    wait_until_idle(client)
    kept = parts(small_disk)
    assert not list(small_disk.rglob("**/day=*/.*"))
    subprocess.run(["mount", "-o", "remount,size=10m", str(small_disk)], check=True)
    known = contents(small_disk, str(tree)) if kept else {}
    report = hash_places(client, str(tree), str(small_disk), task_files=100)
    assert report.read_files == 2006 - len(known)
    assert contents(small_disk, str(tree)) == expected(tree)


def test_a_vanished_place_is_an_error_and_the_others_go_on(client: Client, tree: Path, tmp_path: Path) -> None:
    lake, moved = str(tmp_path / "lake"), tmp_path / "moved"
    other = Place(str(make_tree(tmp_path / "other", 10)), name="other")
    scrub_places(client, [str(tree), other], lake)
    tree.rename(moved)
    report = scrub_places(client, [str(tree), other], lake)
    assert report.exit_code == 3
    assert "No such file or directory" in report.places[0].errors[0]
    assert report.places[1].verdicts == {"ok": 16}
    # What it is mounted on is there.
    tree.mkdir()
    report = scrub_places(client, [str(tree), other], lake)
    assert "is it mounted?" in report.places[0].errors[0]
    assert not report.places[0].verdicts
    tree.rmdir()
    moved.rename(tree)
    assert scrub_places(client, [str(tree), other], lake).verdicts == {"ok": 322}
    with pytest.raises(PlaceError, match="No such file"):
        compare_places(client, str(tree), str(moved), lake)


def test_a_place_that_no_worker_has_is_given_up(client: Client, tree: Path, tmp_path: Path) -> None:
    place = Place(str(tree), resource="photos")
    report = hash_places(client, place, str(tmp_path / "lake"), patience=0)
    assert report.exit_code == 3
    assert "no worker has the resource 'photos'" in report.places[0].errors[0]


def test_work_goes_to_the_worker_that_has_the_place(tree: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options: dict[str, Any] = {"dashboard_address": None}
    cluster: Any = LocalCluster(n_workers=0, **options)
    with cluster, Client(cluster) as client:
        client.register_plugin(Trace(log))
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-dashboard"]
        workers = [
            subprocess.Popen([*command, "--resources", f"{name}=1"], env=environment, stderr=subprocess.DEVNULL)
            for name in ("photos", "music")
        ]
        try:
            client.wait_for_workers(2)
            two = Place(str(make_tree(tmp_path / "two", 50)), name="other", resource="music")
            report = hash_places(client, [Place(str(tree), name="photos"), two], str(tmp_path / "lake"), task_files=20)
            assert report.verdicts == {"new": 362}
        finally:
            for worker in workers:
                worker.terminate()
                worker.wait()
    found = {(note["place"], *note["worker"]) for note in notes(log)}
    assert found == {("photos", "photos"), ("other", "music")}


def test_the_dashboard_names_places() -> None:
    assert key_split((prefix(Place("/srv/old-photos")), "0123")) == "/srv/old_photos"
    assert key_split((prefix(Place("/srv/x", name="ssh://web2/srv")), "0123")) == "ssh://web2/srv"


def test_limits_are_divided_among_the_tasks_that_run_at_once() -> None:
    place = Place("/srv", bytes_per_second=100, requests_per_second=3, tasks=4)
    assert (place.at_once, place.share(place.bytes_per_second), place.share(place.requests_per_second)) == (4, 25, 1)
    assert Place("/srv", bytes_per_second=100).at_once == 1
    assert Place("/srv").at_once is None
    with pytest.raises(ValueError, match="at least 1"):
        Place("/srv", tasks=0)


UNREADABLE = """
import json, os, sys
from verisum.dask._cut import Cut, Mode, Step, cut
from verisum.dask._place import Place
from verisum.dask._version import VERSION
from verisum.dask._work import Order, milliseconds, work
place, lake = Place(sys.argv[1]), sys.argv[2]
found = cut(Step(place, lake, Mode(True, "sha256", 1), VERSION))
assert isinstance(found, Cut), found
outcome = work(Order(place, lake, found.tasks[0], True, 1, milliseconds(), VERSION, 1, found.top))
print(json.dumps(outcome.to_json()))
print(json.dumps([os.fsdecode(path) for path, _ in found.errors]))
"""


def test_what_cannot_be_read_never_looks_clean() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lake").mkdir()
        tree = folder / "tree"
        (tree / "closed").mkdir(parents=True)
        for file in ("closed/in", "good", "secret"):
            (tree / file).write_bytes(b"data")
        (tree / "closed").chmod(0)
        (tree / "secret").chmod(0)
        arguments = [sys.executable, "-c", UNREADABLE, str(tree), str(folder / "lake")]
        if os.geteuid() == 0:
            # Another user could perhaps not read the installed packages, which may lie in root's own folder.
            arguments = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *arguments]
        ended = subprocess.run(arguments, capture_output=True, text=True, cwd="/")
        (tree / "closed").chmod(0o700)
        assert ended.returncode == 0, ended.stderr
        outcome, unlisted = map(json.loads, ended.stdout.splitlines())
        assert unlisted == ["closed/"]
        assert outcome["verdicts"] == {"new": 1, "unverifiable": 1}
        ((path, verdict, detail),) = outcome["bad"]
        assert (path, verdict) == ("secret", "unverifiable") and "Permission denied" in detail
        rows = present(folder / "lake", str(tree))
        assert rows[b"secret"].digest is None and rows[b"secret"].state == "unverifiable"


def test_a_lake_may_be_in_a_store_of_objects(tree: Path) -> None:
    lake = Lake("memory://bucket/lake")
    lake.write(lake.part("place", "name", 0), b"data")
    assert lake.read(lake.parts("place")[0]) == b"data"
    assert lake.find_part("place", "name", 0, 0) is not None
    assert lake.find_part("place", "other", 0, 86_400_000 * 3) is None


VERISUM = Path(sys.executable).parent / "verisum"


def verisum_command(*arguments: object) -> str:
    ended = subprocess.run([str(VERISUM), *map(str, arguments)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_a_catalogue_takes_records_from_the_lake_and_gives_them(client: Client, tree: Path, tmp_path: Path) -> None:
    lake, catalog = tmp_path / "lake", tmp_path / "catalog.db"
    scrub_places(client, str(tree), str(lake), task_files=50)
    verisum_command("catalog", "import", "--catalog", catalog, lake)
    summary = json.loads(verisum_command("scrub", "--catalog", catalog, "--json", tree).splitlines()[-1])
    assert (summary["files"], summary["counts"]["new"], summary["counts"]["modified"]) == (306, 0, 0)
    (tree / "more").write_bytes(b"more")
    verisum_command("scrub", "--catalog", catalog, tree)
    verisum_command("catalog", "export", "--catalog", catalog, "--format", "parquet", lake)
    assert contents(lake, str(tree)) == expected(tree)
    assert scrub_places(client, str(tree), str(lake)).verdicts == {"ok": 307}


PAGE = Path(__file__).resolve().parents[2] / "docs" / "fleet.md"


@pytest.mark.parametrize("example", re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE))
def test_an_example_of_the_page_runs(example: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example)
    ended = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "1 new" in ended.stdout


def test_the_plan_of_the_page_can_be_read(tmp_path: Path) -> None:
    (plan,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "plan.toml").write_text(plan)
    assert len(read_plan(str(tmp_path / "plan.toml")).places) == 3


def test_what_is_exported_is_documented() -> None:
    for name in verisum.dask.__all__:
        assert getattr(verisum.dask, name).__doc__, name
