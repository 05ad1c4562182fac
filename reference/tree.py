"""The list that `verisum sum -r -a DIGEST ROOT` prints, by the standard library only.

    python3 tree.py DIGEST ROOT

Paths are sorted by their bytes; links, pipes and devices are left out; names are escaped as the
coreutils do.
"""

import hashlib
import os
import stat
import sys


def files(root):
    """All regular files below a root, as bytes, sorted."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                found.append(path)
    return sorted(found)


def line(digest, path):
    """One line, its end included."""
    with open(path, "rb") as file:
        value = hashlib.new(digest, file.read()).hexdigest().encode()
    escaped = path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    mark = b"\\" if escaped != path else b""
    return mark + value + b"  " + escaped + b"\n"


def main():
    digest, root = sys.argv[1:]
    for path in files(os.fsencode(root)):
        sys.stdout.buffer.write(line(digest, path))


if __name__ == "__main__":
    main()
