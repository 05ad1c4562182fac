"""`scrub`, `Catalog` and `accept` against the command, over files that really rotted."""

import gc
import json
import os
import pickle
import subprocess
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import verisum
from conftest import COMMAND
from interrupted import ctrl_c, run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    for number in range(20):
        (root / "sub" / f"{number}").write_bytes(bytes([number]) * (number * 100 + 1))
    with open(os.fsencode(root) + b"/\xff", "wb") as file:
        file.write(b"no utf-8")
    return root


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return tmp_path / "c.db"


def rot(path: Path) -> None:
    """Other content of the same length, with the time that the file had."""
    stat = os.stat(path)
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def command(*words: str | Path, codes: tuple[int, ...] = (0, 1)) -> list[dict[str, object]]:
    said = subprocess.run([COMMAND, *words], capture_output=True)
    assert said.returncode in codes, said.stderr
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_a_first_run_records_and_the_next_verifies(tree: Path, catalog: Path) -> None:
    first = verisum.scrub(tree, catalog=catalog)
    assert first.summary is None
    assert {finding.verdict for finding in first} == {"new"}
    assert first.summary is not None and first.summary.class_ == "change"
    assert first.summary.counts["new"] == first.summary.files == 21
    second = verisum.scrub(tree, catalog=catalog).finish()
    assert (second.counts["ok"], second.read_files, second.class_) == (21, 21, "clean")
    assert second.complete and not second.interrupted and not second.alarm
    assert second.tree == str(tree) and second.bytes == sum(f.stat().st_size for f in tree.rglob("*") if f.is_file())


def test_a_callback_that_refers_to_its_iterator_keeps_no_catalogue_locked(tree: Path, catalog: Path) -> None:
    def begin() -> None:
        runs: list[verisum.Scrub] = []
        runs.append(verisum.scrub(tree, catalog=catalog, limit=1, progress=lambda *_: runs[0].close()))

    begin()
    gc.collect()
    assert verisum.scrub(tree, catalog=catalog).finish().files == 21


def test_what_rotted_is_found_as_the_command_finds_it(tree: Path, catalog: Path, tmp_path: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    copy = tmp_path / "copy.db"
    rot(tree / "sub" / "3")
    (tree / "sub" / "4").write_bytes(b"written")
    (tree / "sub" / "5").unlink()
    (tree / "sub" / "6").rename(tree / "six")
    (tree / "fresh").write_text("fresh")
    subprocess.run([COMMAND, "catalog", "backup", "--catalog", catalog, copy], check=True, capture_output=True)
    lines = command("scrub", "--json", "--catalog", copy, tree)
    run_ = verisum.scrub(tree, catalog=catalog)
    found = sorted((finding.path_bytes.decode(errors="replace"), finding.verdict) for finding in run_)
    files = [line for line in lines if line["type"] == "file"]
    (summary,) = (line for line in lines if line["type"] == "summary")
    assert found == sorted((str(line["path"]), str(line["outcome"])) for line in files)
    mine = run_.summary
    assert mine is not None and mine.counts == summary["counts"]
    for key in ("files", "bytes", "read_files", "complete", "held", "waiting", "alarm", "still_missing"):
        assert getattr(mine, key) == summary[key], key
    assert mine.class_ == "corrupt"
    verdicts = {os.path.basename(path): verdict for path, verdict in found}
    assert verdicts == {"3": "suspicious", "4": "modified", "5": "missing", "six": "moved", "fresh": "new"} or (
        verdicts == {"3": "rot", "4": "modified", "5": "missing", "six": "moved", "fresh": "new"}
    )


def test_what_a_finding_tells(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    path = tree / "sub" / "3"
    before = path.read_bytes()
    rot(path)
    (finding,) = verisum.scrub(tree, catalog=catalog)
    assert finding.path == str(path) and finding.class_ == "corrupt" and finding.algorithm == "sha256"
    assert finding.recorded is not None and finding.found is not None
    assert finding.recorded.digest == verisum.new("sha256", before).digest()
    assert finding.found.hexdigest == verisum.new("sha256", path.read_bytes()).hexdigest()
    assert finding.recorded.mtime_ns == finding.found.mtime_ns == os.stat(path).st_mtime_ns
    assert finding.found.inode == os.stat(path).st_ino and finding.second_read_same is True
    assert finding.since_ms is None and finding.error is None and not finding.held
    (again,) = verisum.scrub(tree, catalog=catalog)
    assert again.verdict == finding.verdict
    path.write_bytes(before)
    assert [back.restored for back in verisum.scrub(tree, catalog=catalog)] == [True]


def test_accept(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    rot(tree / "sub" / "3")
    (tree / "sub" / "5").unlink()
    verisum.scrub(tree, catalog=catalog).finish()
    would = verisum.accept(tree, catalog=catalog, dry_run=True)
    assert sorted((one.path, one.now is None) for one in would) == [
        (str(tree / "sub" / "3"), False),
        (str(tree / "sub" / "5"), True),
    ]
    gone = verisum.accept(tree, catalog=catalog, dry_run=True, only_missing=True)
    assert [(one.was, one.now) for one in gone] == [("missing", None)]
    accepted = verisum.accept(tree / "sub" / "3", catalog=catalog)
    assert [one.error for one in accepted] == [None] and accepted[0].was in ("rot", "suspicious")
    assert accepted[0].recorded.digest != (tree / "sub" / "3").read_bytes()
    assert verisum.accept(tree / "sub", catalog=catalog)[0].was == "missing"
    assert verisum.accept(tree, catalog=catalog) == []
    summary = verisum.scrub(tree, catalog=catalog).finish()
    assert summary.class_ == "clean" and summary.files == 20


def moment(milliseconds: int | None) -> str:
    """A moment as JSON has it."""
    assert milliseconds is not None
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:03}000000Z"


def test_the_catalogue_tells_what_the_command_tells(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    rot(tree / "sub" / "3")
    verisum.scrub(tree, catalog=catalog, archive=True).finish()
    opened = verisum.Catalog(catalog)
    (line,) = command("catalog", "status", "--json", "--catalog", catalog, codes=(0,))
    (known,) = opened.trees()
    assert (known.path, known.files, known.bytes) == (line["path"], line["files"], line["bytes"])
    assert known.troubles == line["troubles"] and sum(known.troubles.values()) == 1
    assert moment(known.stalest_verification_ms) == line["stalest_verification"]
    fields = ("error", "seconds", "read_files", "read_bytes", "counts")
    runs = [
        {name: getattr(run_, name) for name in fields}
        | {"started": moment(run_.started_ms), "finished": moment(run_.finished_ms), "outcome": run_.how}
        for run_ in opened.runs(tree)
    ]
    assert runs == line["runs"]
    assert len(opened.runs(tree, most=1)) == 1
    exported = command("catalog", "export", "--catalog", catalog, codes=(0,))
    files = {line["path"]: line for line in exported if line["type"] == "file"}
    rows = list(opened.rows())
    assert len(rows) == len(files) == 21
    for row in rows:
        line = files[os.path.relpath(row.path_bytes, os.fsencode(tree)).decode(errors="replace")]
        assert row.tree == str(tree) and row.inode == line["inode"]
        for mine, theirs in {
            "size": "size",
            "algorithm": "algorithm",
            "hexdigest": "digest",
            "state": "outcome",
        }.items():
            assert getattr(row, mine) == line[theirs], mine
        for mine in ("first_seen", "last_changed", "last_verified"):
            assert moment(getattr(row, mine + "_ms")) == line[mine], mine
        for mine in ("mtime", "ctime"):
            nanoseconds = getattr(row, mine + "_ns")
            assert moment(nanoseconds // 10**6)[:-7] + f"{nanoseconds % 10**6:06}Z" == line[mine], mine


def test_which_records(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    time.sleep(0.01)
    later = datetime.now(timezone.utc)
    time.sleep(0.01)
    rot(tree / "sub" / "3")
    (tree / "sub" / "4").write_bytes(b"written")
    verisum.scrub(tree, catalog=catalog).finish()
    opened = verisum.Catalog(catalog)
    assert [row.path for row in opened.rows(state="ok", changed_since=later)] == [str(tree / "sub" / "4")]
    assert [row.path for row in opened.rows(changed_since=later.timestamp())] == [str(tree / "sub" / "4")]
    bad = [row.path for row in opened.rows(tree) if row.state != "ok"]
    assert bad == [str(tree / "sub" / "3")]
    assert len(list(opened.rows(tree / "sub"))) == 20 and len(list(opened.rows(str(tree)))) == 21
    (problem,) = opened.problems()
    assert problem.path == bad[0] and problem.found is not None and problem.found.digest != problem.recorded.digest
    assert problem.since_ms == problem.seen_ms and problem.tree == str(tree) and problem.error is None
    assert [one.path for one in opened.problems(tree / "sub")] == bad
    for ask in (opened.rows, opened.problems, opened.runs):
        with pytest.raises(verisum.CatalogError, match="not in the catalogue"):
            ask("/nowhere")
    with pytest.raises(ValueError):
        opened.rows(state="nosuch")  # type: ignore[arg-type]


def test_arrow_readers_take_the_records(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    opened = verisum.Catalog(catalog)
    table = pa.table(opened.rows().to_arrow(batch_rows=5))
    assert table.num_rows == 21 and table.column("path").num_chunks == 5
    table.validate(full=True)
    assert table.schema.field("verified").type == pa.timestamp("ms", "UTC")
    by_path = {row.path_bytes: row for row in opened.rows()}
    for line in table.select(["place", "path", "path_bytes", "digest", "state"]).to_pylist():
        path = os.path.join(os.fsencode(line["place"]), line["path_bytes"] or os.fsencode(line["path"]))
        assert (by_path[path].digest, by_path[path].state) == (line["digest"], line["state"])
    assert len(pl.DataFrame(opened.rows(tree / "sub"))) == 20
    rows = opened.rows()
    assert duckdb.connect().execute("select count(distinct digest) from rows").fetchone() == (21,)
    del rows


def test_budgets_and_samples(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    part = verisum.scrub(tree, catalog=catalog, sample=0.2, shuffle=True, max_age=timedelta(days=1)).finish()
    assert part.read_files < 21
    future = datetime.now(timezone.utc) + timedelta(days=1)
    for since, read in ((time.time() - 3600, 0), (future, 21)):
        assert verisum.scrub(tree, catalog=catalog, since=since).finish().read_files == read
    timed = verisum.scrub(tree, catalog=catalog, budget=3600.0, exclude=["1*"], threads=1, stop_after=0).finish()
    assert timed.forecast is not None and timed.forecast.seconds > 0 and timed.read_files == 10


def test_archives_alarms_and_missing_files(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    (tree / "sub" / "4").write_bytes(b"written")
    run_ = verisum.scrub(tree, catalog=catalog, archive=True)
    assert [(finding.verdict, finding.held) for finding in run_] == [("modified", True)]
    assert run_.summary is not None and (run_.summary.held, run_.summary.class_) == (1, "corrupt")
    (tree / "sub" / "4").write_bytes(bytes([4]) * 401)
    (tree / "sub" / "5").unlink()
    assert verisum.scrub(tree, catalog=catalog).finish().class_ == "change"
    assert verisum.scrub(tree, catalog=catalog, missing_fails=True).finish().class_ == "corrupt"
    for path in tree.rglob("1*"):
        path.write_bytes(b"all at once")
    assert verisum.scrub(tree, catalog=catalog, alarm_changed=0.1).finish().alarm


def test_an_age_of_nothing_is_all_files(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    counts = verisum.scrub(tree, catalog=catalog, max_age=3600).finish().counts
    all_read = verisum.scrub(tree, catalog=catalog, max_age=0).finish().counts
    assert counts.get("ok", 0) == 0 and all_read == verisum.scrub(tree, catalog=catalog).finish().counts


def test_values_that_are_none(tree: Path, catalog: Path) -> None:
    for option, value in {"sample": 0, "alarm_changed": 2, "budget": 0, "max_age": -1, "algorithm": "nosuch"}.items():
        with pytest.raises(ValueError):
            verisum.scrub(tree, catalog=catalog, **{option: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="exclude each other"):
        verisum.scrub(tree, catalog=catalog, max_age=1, since=1)
    for never in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            verisum.scrub(tree, catalog=catalog, since=never)
    with pytest.raises(ValueError, match="cross_file_systems: not for files on other machines"):
        verisum.scrub("web1:/srv", catalog=catalog, cross_file_systems=True)
    with pytest.raises(ValueError, match="named by their paths"):
        verisum.scrub(f"local:{tree}", catalog=catalog)
    assert not catalog.exists()


def test_a_real_host(tree: Path, catalog: Path, ssh_config: Path) -> None:
    hosts = verisum.Hosts(ssh_config=ssh_config)
    place = f"web1:{tree}"
    first = verisum.scrub(place, catalog=catalog, hosts=hosts).finish()
    assert (first.counts["new"], first.tree) == (21, f"ssh://web1{tree}")
    rot(tree / "sub" / "3")
    (finding,) = verisum.scrub(place, catalog=catalog, hosts=hosts)
    assert (finding.verdict, finding.path) == ("rot", f"ssh://web1{tree}/sub/3")
    # As far as the programs there tell.
    now = os.stat(tree / "sub" / "3")
    assert finding.found is not None and finding.found.inode in (None, now.st_ino)
    assert finding.found.ctime_ns in (None, now.st_ctime_ns)
    opened = verisum.Catalog(catalog)
    assert len(list(opened.rows(place))) == 21 and [run_.how for run_ in opened.runs(place)] == ["complete"] * 2
    assert [one.path for one in opened.problems(f"{place}/sub")] == [finding.path]
    (accepted,) = verisum.accept(f"{place}/sub/3", catalog=catalog, hosts=hosts)
    assert accepted.error is None and accepted.now is not None
    assert verisum.scrub(place, catalog=catalog, hosts=hosts).finish().class_ == "clean"
    with pytest.raises(verisum.HostError):
        verisum.scrub(f"down:{tree}", catalog=catalog, hosts=verisum.Hosts(ssh_config=ssh_config, timeout=50)).finish()
    # Nothing could be recorded of it.
    assert len(opened.trees()) == 1


def test_what_is_due_on_a_host(tree: Path, catalog: Path, ssh_config: Path) -> None:
    hosts = verisum.Hosts(ssh_config=ssh_config)
    place = f"web1:{tree}"
    verisum.scrub(place, catalog=catalog, hosts=hosts).finish()
    due = verisum.scrub(place, catalog=catalog, hosts=hosts, max_age=3600).finish()
    assert (due.read_files, due.files) == (0, 21)
    since = verisum.scrub(place, catalog=catalog, hosts=hosts, since=time.time() + 1, shuffle=True, budget=3600).finish()
    assert since.read_files == 21
    part = verisum.scrub(place, catalog=catalog, hosts=hosts, sample=0.2).finish()
    assert part.read_files < 21
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    began = time.monotonic()
    limited = verisum.scrub(place, catalog=catalog, hosts=hosts, limit=size // 2).finish()
    assert limited.read_files == 21 and time.monotonic() - began > 1.5


def test_a_host_that_is_given_up_in_the_middle_loses_no_file(tree: Path, catalog: Path, ssh_config: Path) -> None:
    hosts = verisum.Hosts(ssh_config=ssh_config)
    place = f"web1:{tree}"
    verisum.scrub(place, catalog=catalog, hosts=hosts).finish()
    for number in range(3000):
        (tree / f"more{number}").touch()
    with verisum.scrub(place, catalog=catalog, hosts=hosts) as run_:
        next(run_, None)
    deadline = time.monotonic() + 600
    while verisum.Catalog(catalog).runs(place)[0].how == "in progress" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "missing" not in {row.state for row in verisum.Catalog(catalog).rows()}


def test_a_catalogue_that_is_in_use(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    (tree / "large").write_bytes(b"x" * 1_000_000)
    with verisum.scrub(tree, catalog=catalog, limit=1000):
        deadline = time.monotonic() + 600
        while verisum.Catalog(catalog).runs(tree)[0].how != "in progress" and time.monotonic() < deadline:
            time.sleep(0.01)
        for work in (lambda: verisum.scrub(tree, catalog=catalog).finish(), lambda: verisum.accept(tree, catalog=catalog)):
            with pytest.raises(verisum.CatalogError, match="another run uses this catalogue") as raised:
                work()
            assert raised.value.operation == "lock" and raised.value.path == str(catalog)
        # To read is no matter.
        assert len(list(verisum.Catalog(catalog).rows())) == 21
    assert verisum.Catalog(catalog).runs(tree)[0].how == "interrupted"


def test_a_catalogue_that_is_damaged_or_none(tree: Path, catalog: Path, tmp_path: Path) -> None:
    with pytest.raises(verisum.CatalogError) as raised:
        verisum.Catalog(tmp_path / "none.db")
    assert isinstance(raised.value, OSError) and isinstance(raised.value.__cause__, FileNotFoundError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.operation) == (str(raised.value), "open")
    verisum.scrub(tree, catalog=catalog).finish()
    data = bytearray(catalog.read_bytes())
    data[4096 * 2 :] = os.urandom(len(data) - 4096 * 2)
    catalog.write_bytes(data)
    with pytest.raises(verisum.CatalogError, match="damaged"):
        list(verisum.Catalog(catalog).rows())
    with pytest.raises(verisum.CatalogError):
        verisum.scrub(tree, catalog=catalog).finish()
    text = tmp_path / "text"
    text.write_text("no catalogue " * 1000)
    with pytest.raises(verisum.CatalogError, match="not a catalogue"):
        verisum.Catalog(text)


def test_a_tree_that_is_not_there(tmp_path: Path, catalog: Path) -> None:
    with pytest.raises(verisum.FileError):
        verisum.scrub(tmp_path / "none", catalog=catalog).finish()


def test_closing_and_exceptions_keep_what_was_done(tree: Path, catalog: Path) -> None:
    for number in range(3000):
        (tree / f"{number:04}").write_bytes(b"%d" % number)
    run_ = verisum.scrub(tree, catalog=catalog)
    next(run_)
    run_.close()
    assert list(run_) == [] and run_.summary is None
    with pytest.raises(RuntimeError, match="before there was a summary"):
        run_.finish()
    assert verisum.Catalog(catalog).runs(tree)[0].how in ("interrupted", "complete")

    def fail(files: int, bytes: int) -> None:
        raise KeyError("enough")

    (tree / "large").write_bytes(b"x" * 1_000_000)
    with pytest.raises(KeyError):
        verisum.scrub(tree, catalog=catalog, limit=1000, progress=fail).finish()
    told: list[tuple[int, int]] = []
    verisum.scrub(tree, catalog=catalog, progress=lambda files, bytes: told.append((files, bytes))).finish()
    assert told == sorted(told) and told[-1][0] >= 1


def test_ctrl_c_ends_the_run_in_good_order(tree: Path, catalog: Path) -> None:
    (tree / "large").write_bytes(b"x" * 1_000_000)
    how = ctrl_c(
        f"run = verisum.scrub({str(tree)!r}, catalog={str(catalog)!r}, limit=1000)",
        "run.finish()",
        f"del run; print(verisum.Catalog({str(catalog)!r}).runs({str(tree)!r})[0].how)",
        delay=1,
    )
    assert how == "interrupted\n"


def test_a_forked_process_has_no_scrub(tree: Path, catalog: Path) -> None:
    ended = run(f"""
        import os, verisum
        run = verisum.scrub({str(tree)!r}, catalog={str(catalog)!r})
        next(run)
        child = os.fork()
        if child == 0:
            try:
                next(run)
            except RuntimeError as error:
                print(error, flush=True)
            del run
            os._exit(0)
        os.waitpid(child, 0)
        print(run.finish().files)
    """)
    assert "forked" in ended.stdout and ended.stdout.endswith("\n21\n"), ended


def test_a_catalogue_changes_its_digest(tree: Path, catalog: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    opened = verisum.Catalog(catalog)
    count = opened.algorithms["sha256"]
    assert opened.rehash_target is None and verisum.rehash(catalog, "blake3") == count
    assert opened.rehash_target == "blake3"
    verisum.scrub(tree, catalog=catalog).finish()
    assert opened.algorithms == {"blake3": count}
    assert verisum.rehash(catalog, None) == 0 and opened.rehash_target is None
    with pytest.raises(verisum.CatalogError):
        verisum.rehash(catalog.parent / "none.db", "blake3")
    with pytest.raises(verisum.DigestError):
        verisum.rehash(catalog, "md6")


def test_a_catalogue_goes_to_a_lake_and_back(tree: Path, catalog: Path, tmp_path: Path) -> None:
    verisum.scrub(tree, catalog=catalog).finish()
    opened, lake = verisum.Catalog(catalog), tmp_path / "lake"
    rows = {row.path: (row.digest, row.size) for row in opened.rows()}
    wanted = {"changed": len(rows), "gone": 0, "unchanged": 0, "damaged": 0}
    assert opened.export(lake) == wanted
    assert opened.export(lake) == {**wanted, "changed": 0, "unchanged": len(rows)}
    assert pl.scan_parquet(f"{lake}/**/*.parquet").collect().height == len(rows)
    other = tmp_path / "other.db"
    assert verisum.Catalog.import_lake(other, lake) == {"added": len(rows), "known": 0, "differing": 0}
    assert {row.path: (row.digest, row.size) for row in verisum.Catalog(other).rows()} == rows
    assert verisum.Catalog.import_lake(other, lake)["known"] == len(rows)
    with pytest.raises(verisum.FileError):
        verisum.Catalog.import_lake(other, tmp_path / "none")
    (tmp_path / "new").mkdir()
    with pytest.raises(verisum.FileError):
        verisum.Catalog.import_lake(tmp_path / "new" / "c.db", tmp_path / "none")
    assert other.exists() and not list((tmp_path / "new").iterdir())
