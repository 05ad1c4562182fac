"""`hash_files` of trees on other machines, beside the same trees here."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import verisum
import verisum.dask
from interrupted import ctrl_c
from verisum._native import hash_place, list_place
from verisum.dask._lake import Lake

NAMES = [b"a", b"a b", b"a-b/c", b"b/line\nbreak", b"z\\t", b"\xff\xfe", "\u00e9".encode(), b"quote'\"$x"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for number, name in enumerate(NAMES):
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(bytes([number]) * (number * 997))
    return root


def digests(rows: verisum.HashFiles) -> dict[bytes, tuple[str, int]]:
    return {row.path_bytes: (row.hexdigest, row.size) for row in rows}


@pytest.mark.parametrize("way", [None, "coreutils", "openssl", "perl"])
def test_a_host_gives_what_is_there(tree: Path, way: str | None) -> None:
    here = digests(verisum.hash_files(tree))
    assert digests(verisum.hash_files(f"local:{tree}", hosts=verisum.Hosts(way=way))) == here
    assert len(here) == len(NAMES)


def test_a_tree_whose_name_is_no_utf_8(tree: Path, ssh_config: Path) -> None:
    hosts, root = verisum.Hosts(ssh_config=ssh_config), os.fsdecode(os.fsencode(tree) + b"\xff")
    tree.rename(root)
    place = verisum.dask.Place(f"ssh://web1{root}", hosts=hosts)
    files, errors = list_place(place.path, hosts)
    assert ({path for path, *_ in files}, errors) == (set(NAMES), [])
    assert all(read is not None and read.digest for read in hash_place(place.path, files, "sha256", hosts))


def test_what_a_host_tells_of_a_file(tree: Path) -> None:
    (row,) = verisum.hash_files(f"local:{tree}/a b", ["md5"])
    stat = os.stat(tree / "a b")
    assert row.host == "local" and row.error is None and not row.changed
    assert row.size == stat.st_size and row.mtime_ns // 10**9 == stat.st_mtime_ns // 10**9
    assert (row.ctime_ns, row.inode, row.device, row.links, row.stored) == (None,) * 5
    (own,) = verisum.hash_files(tree / "a b", ["md5"])
    assert own.host is None and own.digest == row.digest


def test_a_real_host(tree: Path, ssh_config: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "verisum")
    hosts = verisum.Hosts(ssh_config=ssh_config)
    here = digests(verisum.hash_files(tree))
    rows = list(verisum.hash_files([f"web1:{tree}", f"ssh://web1{tree}/a", tree], hosts=hosts))
    assert {row.path_bytes: (row.hexdigest, row.size) for row in rows} == here
    assert sorted(str(row.host) for row in rows) == ["None"] * len(NAMES) + ["web1"] * (len(NAMES) + 1)
    assert any(record.message.startswith("web1: sha256 by ") for record in caplog.records)
    table = pa.table(verisum.hash_files([f"web1:{tree}"], hosts=hosts))
    assert set(table.column("host").to_pylist()) == {"web1"}
    assert table.column("inode").null_count == table.num_rows == len(NAMES)


def test_a_host_that_is_down_is_a_row_and_the_others_go_on(tree: Path, ssh_config: Path) -> None:
    hosts = verisum.Hosts(ssh_config=ssh_config, timeout=50)
    rows = list(verisum.hash_files([f"down:{tree}", "down:/srv", f"web1:{tree}"], hosts=hosts))
    failed = [row for row in rows if row.error is not None]
    assert [(row.host, row.path) for row in failed] == [("down", str(tree)), ("down", "/srv")]
    error = failed[0].error
    assert isinstance(error, verisum.HostError) and isinstance(error, OSError)
    assert str(error).startswith("down: connect: ") and error.operation == "connect"
    assert len(rows) == len(NAMES) + 2


def test_what_is_missing_on_a_host_is_a_row(tree: Path) -> None:
    (row,) = verisum.hash_files(f"local:{tree}/none")
    assert row.error is not None and "none" in str(row.error)
    with pytest.raises(verisum.Error):
        row.digest


def test_what_is_an_address(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    Path("web1:x").write_text("here")
    for path in ("web1:x", b"web1:x", Path("web1:x"), "./web1:x"):
        (row,) = verisum.hash_files(path)
        assert row.host is None and row.size == 4
    # Nothing of that name is here, and it is no address all the same.
    for absent in (b"local:a", Path("local:a")):
        (row,) = verisum.hash_files(absent)
        assert row.host is None and isinstance(row.error, verisum.FileError)
    with pytest.raises(ValueError, match="empty"):
        verisum.hash_files("ssh://")


PATHS: dict[str, Callable[[str | bytes], object]] = {
    "hash_files": verisum.hash_files,
    "hash_files of several": lambda path: verisum.hash_files(["x", path]),
    "check": verisum.check,
    "check below": lambda path: verisum.check("sums", base=path),
    "compare": lambda path: verisum.compare(path, "x"),
    "compare with": lambda path: verisum.compare("x", path),
    "scrub": lambda path: verisum.scrub(path, catalog="c.db"),
    "scrub into": lambda path: verisum.scrub("x", catalog=path),
    "accept": lambda path: verisum.accept(path, catalog="c.db"),
    "rehash": lambda path: verisum.rehash(path, "sha256"),
    "repair": lambda path: verisum.repair(path, tags=True, sources="x"),
    "repair from": lambda path: verisum.repair("x", tags=True, sources=path),
    "copy": lambda path: verisum.copy(path, "x"),
    "copy to": lambda path: verisum.copy("x", path),
    "tag": verisum.tag,
    "untag": verisum.untag,
    "verify": verisum.verify,
    "list_tags": verisum.list_tags,
    "create_bag": verisum.create_bag,
    "overview": verisum.overview,
    "image_sum": verisum.image_sum,
    "image_verify": lambda path: verisum.image_verify(path, "map"),
    "image_repair": lambda path: verisum.image_repair("x", "map", path),
    "Catalog": verisum.Catalog,
    "BlockMap": verisum.BlockMap,
    "BlockMap.create": lambda path: verisum.BlockMap.create("map", path),
    "Parity": verisum.Parity,
    "Hosts": lambda path: verisum.Hosts(ssh_config=path),
    "dask": lambda path: verisum.dask.Place(os.fsdecode(path)),
    "lake": lambda path: Lake(os.fsdecode(path)),
}


@pytest.mark.parametrize("function", PATHS)
def test_an_empty_path_is_no_path(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It would be the working directory.
    monkeypatch.chdir(tmp_path)
    for path in ("", b""):
        with pytest.raises(ValueError, match="empty path"):
            PATHS[function](path)
    assert os.listdir(tmp_path) == []


def test_options_that_hosts_do_not_have(tree: Path) -> None:
    place = f"local:{tree}"
    for option, value in {"ordered": True, "threads": 2, "one_file_system": True, "follow_links": True}.items():
        with pytest.raises(ValueError, match=f"{option}: not for files on other machines"):
            verisum.hash_files(place, **{option: value})  # type: ignore[arg-type]
    for path in (place, tree, "https://example.org/x"):
        with pytest.raises(ValueError, match="recorded: only for files in buckets"):
            verisum.hash_files(path, recorded=True)
    with pytest.raises(ValueError, match="one digest"):
        verisum.hash_files(place, ["md5", "sha1"])
    with pytest.raises(ValueError, match="coreutils"):
        verisum.Hosts(way="nosuch")
    with pytest.raises(ValueError):
        verisum.Hosts(timeout=0)
    with pytest.raises(FileNotFoundError, match="/nonexistent"):
        verisum.Hosts(push="/nonexistent")


def test_files_of_a_host_are_left_out(tree: Path) -> None:
    chosen = digests(verisum.hash_files(f"local:{tree}", exclude=["a*", "!a b"]))
    assert chosen == digests(verisum.hash_files(tree, exclude=["a*", "!a b"])) and len(chosen) == len(NAMES) - 2
    (row,) = verisum.hash_files(f"local:{tree}/none", exclude=["x"])
    assert row.error is not None and "none" in str(row.error)


@pytest.mark.parametrize(("limit", "requests"), [(10_000, None), (None, 4)])
def test_files_of_a_host_are_read_no_faster_than_a_limit(tree: Path, limit: int | None, requests: int | None) -> None:
    began = time.monotonic()
    rows = verisum.hash_files(f"local:{tree}", limit=limit, requests=requests)
    assert digests(rows) == digests(verisum.hash_files(tree))
    # 28 kB, or 8 files, of which a quarter of a second's worth may come at once.
    assert time.monotonic() - began > 0.9


def test_ctrl_c_while_a_host_is_silent(tmp_path: Path) -> None:
    # What stands for ssh never says anything.
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 100\n")
    ssh.chmod(0o755)
    ctrl_c(
        f"""
        os.environ["PATH"] = {str(tmp_path)!r} + ":" + os.environ["PATH"]
        rows = verisum.hash_files("web1:/srv")
        """,
        """
        try:
            list(rows)
        finally:
            rows.close()
        """,
    )


def test_closing_in_the_middle(tree: Path) -> None:
    for _ in range(5):
        with verisum.hash_files(f"local:{tree}") as rows:
            assert next(rows).host == "local"
        assert list(rows) == []
