"""A program for a Python without the GIL: threads hash at once, and share objects. Needs nothing but the package."""

import hashlib
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path

import verisum

THREADS = 8


def main() -> None:
    # Importing the package must not bring the GIL back.
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert not (has_gil and sysconfig.get_config_var("Py_GIL_DISABLED")), "the GIL is on"
    data = bytes(range(256)) * 4096
    want = hashlib.sha256(data).digest()
    shared = verisum.new("sha256")
    failures: list[BaseException] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(100):
            Path(folder, str(number)).write_bytes(data[: number * 100])

        def work() -> None:
            try:
                for _ in range(20):
                    assert verisum.new("sha256", data).digest() == want
                    assert verisum.hash_many([data] * 8, "sha256") == [want] * 8
                    shared.update(bytes(64))
                    shared.copy().digest()
                for row in verisum.hash_files(folder):
                    assert row.digest == hashlib.sha256(data[: row.size]).digest()
                for row in rows:
                    taken.append(row.path)
            except BaseException as error:
                failures.append(error)

        # One iterator, of which every thread takes some rows.
        taken: list[str] = []
        rows = verisum.hash_files(folder)
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    assert sorted(taken) == sorted(str(Path(folder, str(number))) for number in range(100))
    assert shared.digest() == hashlib.sha256(bytes(64) * 20 * THREADS).digest()
    print("free-threaded:", "with the GIL" if has_gil else "without the GIL")


if __name__ == "__main__":
    main()
