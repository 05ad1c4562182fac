"""Files of any store that fsspec opens, read through Python for `hash_files`."""

from __future__ import annotations

from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    # The protocol of the store; the name of a file; its length and time of modification as far as they are known; and its content, its digests,
    # or why it has none.
    Read = tuple[str, str, int | None, int | None, bytes | list[bytes] | BaseException]

# So much is read before it is hashed side by side, and so many files at most. The first batch is small; the next ones
# grow while they are quick, and shrink where a store is so slow that rows would be late, and the end of the work too.
BATCH_BYTES = 16 << 20
BATCH_FILES = 256
FIRST_FILES = 4
QUICK, SLOW = 0.5, 1.0

# Longer files are read and hashed piece by piece.
SHORT = 1 << 20

PIECE = 4 << 20


def is_store(source: object) -> bool:
    """Whether it is a filesystem or a mapping of one, a file that fsspec can open, or a file object."""
    return hasattr(source, "read") or _is_filesystem(source) or _filesystem_of(source) is not None


def _is_filesystem(source: Any) -> bool:
    return hasattr(source, "find") and hasattr(source, "open") and hasattr(source, "cat_file")


def _filesystem_of(source: Any) -> Any:
    """The filesystem of `OpenFile` and of `FSMap`."""
    filesystem = getattr(source, "fs", None)
    return filesystem if _is_filesystem(filesystem) else None


class Batches:
    """Files as batches that are hashed side by side. `is_over` says whether nobody wants more; then nothing is whole."""

    def __init__(self, sources: Iterable[Any], algorithms: list[str]) -> None:
        self.algorithms = algorithms
        self.is_over: Callable[[], bool] = bool
        self.batches = self._of_all(sources)

    def __iter__(self) -> Iterator[list[Read]]:
        return self.batches

    def _of_all(self, sources: Iterable[Any]) -> Iterator[list[Read]]:
        for source in sources:
            if isinstance(source, list):
                # What `fsspec.open_files` gives.
                yield from self._of_all(source)
            elif hasattr(source, "read"):
                yield [self._file(source)]
            elif _is_filesystem(source):
                yield from self._tree(source, "")
            elif hasattr(source, "root"):
                yield from self._tree(source.fs, source.root)
            else:
                yield [self._opened(source)]

    def _opened(self, source: Any) -> Read:
        """An `OpenFile`, decompressed as it says."""
        try:
            with source as file:
                protocol, _, *read = self._file(file)
        except Exception as error:
            return _protocol(source.fs), source.path, None, None, error
        return _protocol(source.fs), source.path, *read

    def _file(self, file: Any) -> Read:
        """A file object, from where it stands."""
        name = getattr(file, "full_name", None) or getattr(file, "path", None) or getattr(file, "name", None)
        name = name if isinstance(name, str) else repr(file)
        protocol = _protocol(getattr(file, "fs", None))
        try:
            size, digests = self._hashed(file)
        except Exception as error:
            return protocol, name, None, None, error
        return protocol, name, size, None, digests

    def _hashed(self, file: Any) -> tuple[int, list[bytes]]:
        """The length and the digests of what is left of a file object."""
        from verisum._native import new

        hashes, size = [new(name) for name in self.algorithms], 0
        while piece := file.read(PIECE):
            if self.is_over():
                raise InterruptedError("it was not read to its end")
            size += len(piece)
            for hash in hashes:
                hash.update(piece)
        if piece is None:
            raise BlockingIOError("the file object is not ready to be read")
        return size, [hash.digest() for hash in hashes]

    def _tree(self, filesystem: Any, root: str) -> Iterator[list[Read]]:
        """The files of a filesystem below a root, in the order in which it lists them."""
        try:
            # Otherwise it would list what it listed before.
            filesystem.invalidate_cache()
            found = filesystem.find(root, detail=True)
            if not found:
                # It says so where there is no such directory; an empty one has no files.
                filesystem.info(root)
        except Exception as error:
            yield [(_protocol(filesystem), root, None, None, error)]
            return
        short: dict[str, tuple[int, int | None]] = {}
        waiting, most = 0, FIRST_FILES
        for name, info in found.items():
            if info.get("type") != "file":
                continue
            size, modified = info.get("size"), _time(info)
            if not isinstance(size, int) or size > SHORT:
                yield [self._long(filesystem, name, modified)]
                continue
            short[name] = (size, modified)
            waiting += size
            if waiting >= BATCH_BYTES or len(short) >= most:
                begun = monotonic()
                read = _short(filesystem, short)
                took = monotonic() - begun
                yield read
                most = min(2 * most, BATCH_FILES) if took < QUICK else max(most // 2, 1) if took > SLOW else most
                short, waiting = {}, 0
        if short:
            yield _short(filesystem, short)

    def _long(self, filesystem: Any, name: str, modified: int | None) -> Read:
        protocol = _protocol(filesystem)
        try:
            with filesystem.open(name, "rb") as file:
                size, digests = self._hashed(file)
        except Exception as error:
            return protocol, name, None, None, error
        return protocol, name, size, modified, digests


def _protocol(filesystem: Any) -> str:
    """What URLs of a filesystem begin with; a file object has none."""
    protocol = getattr(filesystem, "protocol", "file object")
    return protocol if isinstance(protocol, str) else protocol[0]


def _short(filesystem: Any, files: dict[str, tuple[int, int | None]]) -> list[Read]:
    """Short files, which stores of the network fetch side by side."""
    try:
        contents = filesystem.cat(list(files), recursive=False, on_error="return")
    except Exception as error:
        contents = dict.fromkeys(files, error)
    if not isinstance(contents, dict):
        contents = dict.fromkeys(files, contents)
    read: list[Read] = []
    protocol = _protocol(filesystem)
    for name, (_, modified) in files.items():
        content = contents.get(name)
        if isinstance(content, BaseException):
            read.append((protocol, name, None, None, content))
        elif content is None:
            read.append((protocol, name, None, None, OSError("the store did not give it")))
        else:
            content = bytes(content)
            read.append((protocol, name, len(content), modified, content))
    return read


def _time(info: dict[str, Any]) -> int | None:
    """When a file was modified, in nanoseconds since 1970; each filesystem has its own name for it."""
    for key in ("mtime", "LastModified", "last_modified", "modified", "updated", "created"):
        value = info.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value * 1_000_000_000)
        if value is not None and hasattr(value, "timestamp"):
            return int(value.timestamp() * 1_000_000) * 1000
    return None
