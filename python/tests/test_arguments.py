"""Arguments of the wrong type, and one name where several may stand."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import verisum
from verisum.tables import hash_paths


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    for name in ("a.o", "b.o", "c"):
        (root / name).write_text(name)
    return root


def test_one_name_is_no_sequence_of_letters(tree: Path, tmp_path: Path) -> None:
    assert [Path(row.path).name for row in verisum.hash_files(tree, "sha256", exclude="*.o")] == ["c"]
    assert verisum.tag(tree, exclude="*.o").finish() == {"tagged": 1}
    assert verisum.status(tree, exclude="*.o").current == 1
    run = verisum.scrub(tree, catalog=tmp_path / "c.db", exclude="*.o")
    assert [Path(finding.path).name for finding in run] == ["c"]
    assert verisum.copy(tree, tmp_path / "copy", exclude="*.o").finish().copied == 1
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "x").write_text("x")
    assert verisum.create_bag(tmp_path / "bag", "md5").files == 1
    assert (tmp_path / "bag" / "manifest-md5.txt").exists()
    for one in (str(tree / "c"), os.fsencode(tree / "c"), tree / "c"):
        table = hash_paths(one)
        assert table.column("sha256").to_pylist() == [hashlib.sha256(b"c").digest()]


def untyped(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(verisum, name)
    return found


@pytest.mark.parametrize(
    ("name", "given", "argument"),
    [
        ("hash_files", {"paths": 7}, "paths"),
        ("hash_files", {"paths": [7]}, "paths"),
        ("hash_files", {"paths": ".", "algorithms": 7}, "algorithms"),
        ("hash_files", {"paths": ".", "algorithms": [b"sha256"]}, "algorithms"),
        ("hash_files", {"paths": ".", "exclude": [7]}, "exclude"),
        ("hash_files", {"paths": ".", "limit": True}, "limit"),
        ("hash_files", {"paths": ".", "limit": "7"}, "limit"),
        ("hash_files", {"paths": ".", "requests": False}, "requests"),
        ("hash_files", {"paths": ".", "hosts": "web1"}, "hosts"),
        ("hash_many", {"buffers": "text"}, "buffers"),
        ("hash_many", {"buffers": b"bytes"}, "buffers"),
        ("hash_many", {"buffers": [b"bytes", 7]}, "buffers"),
        ("scrub", {"tree": 7, "catalog": "c.db"}, "tree"),
        ("scrub", {"tree": ".", "catalog": None}, "catalog"),
        ("scrub", {"tree": ".", "catalog": "c.db", "limit": True}, "limit"),
        ("scrub", {"tree": ".", "catalog": "c.db", "max_age": "30d"}, "max_age"),
        ("scrub", {"tree": ".", "catalog": "c.db", "repair_from": [None]}, "repair_from"),
        ("repair", {"path": ".", "catalog": "c.db", "sources": 7}, "sources"),
        ("repair", {"path": ".", "catalog": "c.db", "progress": 7}, "progress"),
        ("copy", {"source": ".", "target": None}, "target"),
        ("check", {"lists": 7}, "lists"),
        ("check", {"lists": "SUMS", "base": 7}, "base"),
        ("compare", {"a": ".", "b": 7}, "b"),
        ("tag", {"paths": {7}}, "paths"),
        ("overview", {"catalogs": 7}, "catalogs"),
        ("image_sum", {"path": 7}, "path"),
        ("image_verify", {"image": ".", "map": 7}, "map"),
        ("image_repair", {"image": ".", "map": 7, "sources": "."}, "map"),
        ("Catalog", {"path": 7}, "path"),
        ("Parity", {"tree": 7}, "tree"),
        ("Hosts", {"push": 7}, "push"),
        ("create_bag", {"directory": 7}, "directory"),
    ],
)
def test_a_wrong_type_names_its_argument(
    name: str, given: dict[str, Any], argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError) as raised:
        untyped(name)(**given)
    # Python prints notes below the error.
    assert f"'{argument}'" in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    assert os.listdir(tmp_path) == []


def test_nothing_that_is_named_is_nothing_that_is_good(tmp_path: Path) -> None:
    for name in ("tag", "verify", "untag", "list_tags", "adopt", "status", "check", "overview"):
        with pytest.raises(ValueError, match="none is named"):
            untyped(name)([])


def test_numbers_that_nobody_can_mean_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for threads in (129, 1 << 32):
        for call in (
            lambda: verisum.hash_files(".", threads=threads),
            lambda: verisum.scrub(".", catalog="c.db", threads=threads),
            lambda: verisum.tag(".", threads=threads),
            lambda: verisum.hash_many([b""], threads=threads),
        ):
            with pytest.raises(ValueError, match="must be 0 to 128"):
                call()
    for option in ({"limit": 0}, {"requests": 0}):
        with pytest.raises(ValueError, match="must be 1 or more"):
            untyped("hash_files")(".", **option)
    negative: list[tuple[Callable[[], object], str]] = [
        (lambda: verisum.hash_files(".", threads=-1), "threads"),
        (lambda: verisum.hash_files(".", limit=-1), "limit"),
        (lambda: verisum.hash_files(".").to_arrow(batch_rows=-1), "batch_rows"),
        (lambda: verisum.scrub(".", catalog="c.db", stop_after=-1), "stop_after"),
        (lambda: verisum.overview(["c.db"], runs=-1), "runs"),
        (lambda: verisum.image_sum("x", block_size=-1), "block_size"),
        (lambda: verisum.image_sum("x", block_size=1 << 40), "block_size"),
        (lambda: verisum.Parity(".").create(set_bytes=-1), "set_bytes"),
        (lambda: verisum.Hosts(timeout=-1), "timeout"),
    ]
    for wrong, name in negative:
        with pytest.raises(ValueError) as raised:
            wrong()
        assert f"'{name}'" in "\n".join(getattr(raised.value, "__notes__", [])), name
    assert os.listdir(tmp_path) == []
    assert len(list(verisum.hash_files(".", threads=128, limit=1))) == 0


def test_phrases_that_are_translated_stand_in_the_libraries() -> None:
    root = Path(__file__).parents[2]
    table = (root / "python/src/errors.rs").read_text().partition("const PHRASES")[2].partition("];")[0]
    phrases = re.findall(r'\("(.+?)", ".+?"\)', table)
    files = [path for path in root.glob("crates/*/src/**/*.rs") if path.parts[len(root.parts) + 1] != "cli"]
    # Long texts go on in the next line.
    text = re.sub(r"\\\n\s*", "", "\n".join(path.read_text() for path in files))
    assert len(phrases) >= 15 and [phrase for phrase in phrases if phrase not in text] == []
