"""Signals, fork, spawn, and the end of the interpreter."""

import os
import signal
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import pytest

import verisum
from interrupted import ctrl_c, run

LONG = {
    "update": "verisum.new('sha512').update(data)",
    "update of a thread's object": "h = verisum.new('sha512'); h.update(data)",
    "hash_many": "verisum.hash_many([view[i:i + (64 << 20)] for i in range(0, len(data), 64 << 20)], 'sha512')",
    "hash_many of one": "verisum.hash_many([data], 'sha3-512')",
}


def test_ctrl_c_ends_hashing_of_very_many_buffers_soon() -> None:
    ctrl_c("data = [b'abc'] * 8_000_000", "verisum.hash_many(data)", delay=0.05)


def test_ctrl_c_leaves_a_named_pipe_that_nobody_writes_to(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # The interpreter ends too.
    ctrl_c(f"fifo = {os.fspath(fifo)!r}", "verisum.image_sum(fifo)")


@pytest.mark.parametrize("work", ["check(fifo)", "repair(tree, sums=fifo, sources=tree)"])
def test_ctrl_c_leaves_work_in_a_long_call_of_the_system(work: str, tmp_path: Path) -> None:
    # Opening a named pipe lasts until somebody writes to it. Storage that is busy or dying cannot be had everywhere.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f'''
import os, signal, threading, verisum
fifo, tree = {os.fspath(fifo)!r}, {os.fspath(tmp_path)!r}
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    verisum.{work}.finish()
except KeyboardInterrupt:
    print("interrupted", flush=True)
'''
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        killed = threading.Timer(60, process.kill)
        killed.start()
        assert process.stdout.readline() == "interrupted\n"
        # The interpreter waits for the end of the work, which then leaves nothing half done.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        fifo.open("w").close()
        assert process.wait() == 0
        killed.cancel()


@pytest.mark.parametrize("work", LONG)
def test_ctrl_c_ends_it_soon(work: str) -> None:
    # The memory is never written, so it is one page of zeros; it takes seconds to hash.
    ctrl_c("import mmap; data = mmap.mmap(-1, 12 << 30); view = memoryview(data)", LONG[work])


ROWS = {
    "hash_files": "verisum.hash_files(tree, ['sha256'])",
    "hash_files of places": "verisum.hash_files([tree], ['sha256'])",
    "check": "verisum.check(tree + '/sums')",
    "arrow": "pyarrow.RecordBatchReader.from_stream(verisum.hash_files(tree, ['sha256']).to_arrow())",
}


@pytest.mark.parametrize("rows", ROWS)
def test_ctrl_c_ends_what_takes_rows_without_running_python(rows: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "sums").write_text(f"{verisum.new('sha256', b'abc').hexdigest()}  {tmp_path / 'a'}\n")
    # `extend` asks first for the signal and then for a row, and no line of Python runs between them.
    ended = run(f"""
        import ctypes, pyarrow, signal, time, verisum
        tree = {os.fspath(tmp_path)!r}
        rows = {ROWS[rows]}
        send = getattr(ctypes.CDLL(None), "raise")
        taken = []
        try:
            try:
                taken.extend(zip(map(send, [signal.SIGINT]), rows))
            except pyarrow.ArrowException:
                while True:  # Only its text comes through Arrow; KeyboardInterrupt follows.
                    time.sleep(0.01)
        except KeyboardInterrupt:
            print(len(taken), flush=True)
    """)
    assert ended.stdout == "0\n", ended.stderr


def test_an_interrupted_update_adds_nothing() -> None:
    ended = run("""
        import mmap, os, signal, threading, time, verisum
        data = mmap.mmap(-1, 12 << 30)
        hash_ = verisum.new("sha512", b"before")
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            hash_.update(data)
        except KeyboardInterrupt:
            assert hash_.digest() == verisum.new("sha512", b"before").digest()
            print("as before")
    """)
    assert ended.stdout == "as before\n", ended.stderr


def test_a_handler_that_uses_the_hash_that_it_interrupts_fails() -> None:
    ended = run("""
        import mmap, os, signal, threading, time, verisum
        data = mmap.mmap(-1, 12 << 30)
        hash_ = verisum.new("sha512")
        signal.signal(signal.SIGALRM, lambda *_: hash_.update(b"more"))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            hash_.update(data)
        except RuntimeError as error:
            print(error)
    """)
    assert "signal handler" in ended.stdout, ended.stderr


def child_hashes(data: bytes) -> list[bytes]:
    return verisum.hash_many([data] * 300, "sha256")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_another_process_while_threads_hash(method: str) -> None:
    ended = run(f"""
        import multiprocessing, sys, threading, verisum
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from test_process import child_hashes
        data = bytes(1 << 20)
        stop = threading.Event()
        def work():
            while not stop.is_set():
                verisum.hash_many([data] * 64, "sha256")
        thread = threading.Thread(target=work)
        thread.start()
        want = verisum.new("sha256", data[:4096]).digest()
        context = multiprocessing.get_context({method!r})
        for _ in range(5):
            with context.Pool(1) as pool:
                assert pool.apply(child_hashes, (data[:4096],)) == [want] * 300
        stop.set()
        thread.join()
        print("done")
    """)
    assert ended.stdout == "done\n", ended.stderr


def test_the_interpreter_may_end_while_threads_hash() -> None:
    for _ in range(5):
        ended = run("""
            import threading, verisum
            data = bytes(1 << 20)
            def work():
                while True:
                    verisum.hash_many([data] * 64, "sha256")
                    verisum.new("sha256", data)
            for _ in range(3):
                threading.Thread(target=work, daemon=True).start()
            threading.Event().wait(0.2)
        """)
        assert (ended.returncode, ended.stderr) == (0, "")


def test_spawned_workers_import_quickly() -> None:
    ended = run("import sys, verisum; print([name for name in ('hashlib', 'typing', 're') if name in sys.modules])")
    assert ended.stdout == "[]\n", ended.stderr


def test_the_command_is_there() -> None:
    program = os.path.join(os.path.dirname(sys.executable), "verisum")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.split()[0] == "verisum"
    summed = subprocess.run([program, "sum", "-"], input=b"abc", capture_output=True, check=True).stdout
    assert verisum.new("sha256", b"abc").hexdigest().encode() in summed


def test_the_version_is_that_of_the_distribution() -> None:
    assert verisum.__version__ == metadata.version("verisum")


def test_the_licences_of_what_is_compiled_in_are_there() -> None:
    notices = Path(sys.prefix, "share", "doc", "verisum", "THIRD-PARTY-NOTICES").read_text()
    assert "\npyo3 " in notices and "\nclap " in notices and "\nrusqlite " in notices


def test_a_signal_that_only_wakes_does_not_end_it() -> None:
    data = bytes(64 << 20)
    came: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: came.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        digest = verisum.new("sha512", data).digest()
        several = verisum.hash_many([data, data], "sha512")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came and several == [digest] * 2


# Work on trees and images, each some seconds long. Files are holes: they take no room, and are hashed all the same.
TREES = {
    "copy": "verisum.copy(tree, target, algorithm='sha512', verify='none', threads=1, progress=progress).finish()",
    "copy from a slow disk": "verisum.copy(small, target, limit=1000, progress=progress).finish()",
    "compare": "verisum.compare(tree, other, 'sha512', progress=progress).finish()",
    "compare of three": "verisum.compare(tree, other, 'sha512', c=tree, progress=progress).finish()",
    "scrub": "verisum.scrub(tree, catalog=catalog, algorithm='sha512', progress=progress).finish()",
    "repair by a list": "verisum.repair(tree, sums=sums, sources=other, keep_bad=bad, progress=progress).finish()",
    "repair by a catalogue": "verisum.repair(broken, catalog=known, sources=good, progress=progress).finish()",
    "tag": "verisum.tag(tree, 'sha512', progress=progress).finish()",
    "create parity": "verisum.Parity(tree, place).create(progress=progress).finish()",
    "verify parity": "verisum.Parity(striped, made).verify(threads=1, progress=progress).finish()",
    "image_sum": "verisum.image_sum(image, 'sha3-512', threads=1, progress=progress)",
    "image_verify": "verisum.image_verify(image, map, threads=1, progress=progress)",
    "update a map": "verisum.BlockMap(wide_map).update(new_map, wide, [(0, 1)], progress=progress)",
    "image_repair": "verisum.image_repair(image, map, other_image, threads=1, progress=progress)",
}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The folders and files that the work takes, by name."""
    top = tmp_path_factory.mktemp("work")
    folders = ("tree", "small", "other", "bad", "broken", "good", "striped", "target", "place", "made")
    files = ("catalog", "known", "sums", "image", "other_image", "map", "wide", "wide_map", "new_map")
    paths = {name: top / name for name in (*folders, *files)}
    for name in folders[:7]:
        paths[name].mkdir()
    for name in ("tree", "other"):
        hole(paths[name] / "large", 24 << 30)
    (paths["small"] / "file").write_bytes(b"x" * 1_000_000)
    paths["sums"].write_text(f"{'0' * 128}  large\n")
    # A file that was recorded, and is gone; the copy, as long, is read to find that it is not the same.
    for name in ("broken", "good"):
        hole(paths[name] / "large", 2 << 30)
    with open(paths["good"] / "large", "r+b") as file:
        file.write(b"another")
    verisum.scrub(paths["broken"], catalog=paths["known"], algorithm="sha512").finish()
    os.remove(paths["broken"] / "large")
    (paths["broken"] / "more").write_bytes(b"more")
    verisum.scrub(paths["broken"], catalog=paths["known"]).finish()
    # A tree and an image that are really there.
    piece = os.urandom(64 << 20)
    with open(paths["striped"] / "large", "wb") as file:
        for _ in range(16):
            file.write(piece)
    verisum.Parity(paths["striped"], paths["made"]).create(redundancy=0.01).finish()
    os.link(paths["striped"] / "large", paths["image"])
    os.link(paths["image"], paths["other_image"])
    verisum.BlockMap.create(paths["map"], paths["image"], "sha3-512")
    # Its map is soon read, and takes seconds to check.
    hole(paths["wide"], 4 << 40)
    verisum.BlockMap.create(paths["wide_map"], paths["wide"])
    return {name: str(path) for name, path in paths.items()}


def hole(path: Path, length: int) -> None:
    with open(path, "wb") as file:
        file.truncate(length)


def clear(named: dict[str, str]) -> None:
    """Removes what work has begun to write."""
    for name in ("target", "place", "catalog"):
        subprocess.run(["rm", "-rf", named[name], named[name] + "-wal", named[name] + "-shm"], check=True)
    verisum.untag(named["tree"]).finish()


@pytest.mark.parametrize("work", TREES)
def test_ctrl_c_ends_work_on_trees_soon(work: str, named: dict[str, str]) -> None:
    clear(named)
    # A fast processor is soon through with a GiB.
    delay = 0.05 if work == "verify parity" else 0.3
    ctrl_c(f"globals().update({named!r}); progress = None", TREES[work], delay=delay)


@pytest.mark.parametrize("work", TREES)
def test_an_exception_of_a_callback_ends_work_on_trees(work: str, named: dict[str, str]) -> None:
    clear(named)

    def progress(*_: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        exec(TREES[work], {"verisum": verisum, "progress": progress, **named})


ITERATED = [work for work in TREES if TREES[work].endswith(".finish()")]


@pytest.mark.parametrize("work", ITERATED)
def test_the_interpreter_may_end_in_the_middle_of_work_on_trees(work: str, named: dict[str, str]) -> None:
    clear(named)
    ended = run(
        f"""
        import time, verisum
        globals().update({named!r})
        progress = None
        running = {TREES[work].removesuffix(".finish()")}
        time.sleep(0.1)
    """,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("work", ITERATED)
def test_a_forked_process_has_no_part_in_work_on_trees(work: str, named: dict[str, str]) -> None:
    clear(named)
    ended = run(f"""
        import os, sys, verisum
        globals().update({named!r})
        progress = None
        running = {TREES[work].removesuffix(".finish()")}
        child = os.fork()
        if child == 0:
            try:
                running.finish()
            except RuntimeError as error:
                print(error, flush=True)
            # The child's own work goes on.
            print(verisum.hash_many([b"abc"] * 300)[299].hex()[:8], flush=True)
            running.close()
            del running
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        running.close()
    """)
    told = "the work is done by the process that this one was forked from"
    assert ended.stdout.splitlines() == [told, "ba7816bf"], ended.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_while_a_tree_is_scrubbed(method: str, named: dict[str, str]) -> None:
    clear(named)
    ended = run(f"""
        import multiprocessing, sys, verisum
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from test_process import child_hashes
        want = verisum.new("sha256", b"abc").digest()
        with verisum.scrub({named["tree"]!r}, catalog={named["catalog"]!r}, algorithm="sha512") as running:
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                assert pool.map(child_hashes, [b"abc"] * 4) == [[want] * 300] * 4
        print("done")
    """)
    assert ended.stdout == "done\n", ended.stderr
