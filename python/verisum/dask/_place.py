"""Places of a fleet, and the walk that lists their files in order."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import verisum
from verisum import Hosts
from verisum._native import Excludes, list_place, place_address
from verisum.dask._arguments import number, text
from verisum.dask._errors import PlaceError


@dataclass(frozen=True)
class Place:
    """A tree of files, and how much may be asked of it.

    Attributes:
        path: The directory, as the workers that have it see it; or the URL of a tree on another machine or in a bucket,
            ``ssh://HOST/PATH`` or ``s3://BUCKET/PREFIX``, which any worker reads, or those with the resource. ``HOST:PATH``
            is refused: it might be meant as either.
        name: Its name in the lake and in reports; the path if there is none.
        resource: The Dask resource of the workers that have it; each task takes 1 of it. None: the workers with a
            resource of the place's name, or all workers where there are none.
        bytes_per_second: The most bytes that are read in a second, by all workers together.
        requests_per_second: The most files, and pieces of large files, that are read in a second.
        tasks: The most tasks of the place that run at once; the limits are divided among them. 1 where there is a
            limit, otherwise as many as the workers take.
        exclude: Patterns of what is left out, as for `verisum.hash_files`. What has a record keeps it.
        hosts: How the place of a URL is reached; credentials are those of the workers.

    Raises:
        TypeError: A field has a wrong type.
        ValueError: The path is empty, the name blank, the URL is none of a place, or a limit or `hosts` is not for such a place.
    """

    path: str
    name: str = ""
    resource: str | None = None
    bytes_per_second: int | None = None
    requests_per_second: int | None = None
    tasks: int | None = None
    exclude: Sequence[str] = ()
    hosts: Hosts | None = None

    def __post_init__(self) -> None:
        is_text = isinstance(self.path, str)
        for name in ("path", "name", "resource"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, text(name, getattr(self, name)))
        if not self.path:
            raise ValueError("empty path")
        if self.name and not self.name.strip():
            raise ValueError(f"{self.path}: name: {self.name!r} is blank")
        if self.hosts is not None and not isinstance(self.hosts, Hosts):
            raise TypeError(f"{self.path}: hosts: must be a verisum.Hosts, not {self.hosts!r}")
        if "://" in self.path:
            object.__setattr__(self, "path", place_address(self.path))
            self.refuse_limits()
        else:
            if is_text:
                refuse_host(self.path)
            # Workers have other working directories.
            object.__setattr__(self, "path", os.path.abspath(self.path))
            if self.hosts is not None:
                raise ValueError(f"{self.path}: hosts: not for a directory of the workers")
        if not self.name:
            object.__setattr__(self, "name", self.path)
        if isinstance(self.exclude, str) or not isinstance(self.exclude, Iterable):
            raise TypeError(f"{self.name}: exclude: must be a list of patterns")
        object.__setattr__(self, "exclude", tuple(self.exclude))
        self.excludes()
        for name in ("bytes_per_second", "requests_per_second", "tasks"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, number(f"{self.name}: {name}", getattr(self, name)))

    def refuse_limits(self) -> None:
        """Fails for limits that cannot be kept: what is read on another machine is bounded by `tasks` only."""
        for name in ("bytes_per_second", "requests_per_second"):
            if getattr(self, name) is not None:
                raise ValueError(f"{self.path}: {name}: not for places on other machines; tasks bounds those")

    @property
    def is_remote(self) -> bool:
        """Whether it is on another machine or in a bucket."""
        return "://" in self.path

    def excludes(self) -> Excludes | None:
        """What is left out.

        Raises:
            ValueError: A pattern cannot be understood.
        """
        return Excludes(self.exclude) if self.exclude else None

    @property
    def at_once(self) -> int | None:
        """The most tasks that run at once; None where nothing bounds them."""
        has_limit = self.bytes_per_second is not None or self.requests_per_second is not None
        return self.tasks or (1 if has_limit else None)

    def share(self, limit: int | None) -> int | None:
        """What one task may take of a limit."""
        return None if limit is None else max(1, limit // (self.at_once or 1))


class ListedFile(NamedTuple):
    """A regular file as a walk finds it. Times are nanoseconds since 1970. Other machines tell less."""

    path: bytes
    size: int | None
    mtime: int | None
    ctime: int | None
    inode: int | None


def refuse_host(path: str) -> None:
    """Fails for what is an address of a host elsewhere, and would be a directory here."""
    host, colon, rest = path.partition(":")
    if host and colon and "/" not in host:
        remote = f"ssh://{host}/{rest.lstrip('/')}"
        raise ValueError(f"{path}: on the host {host}, write {remote}; for a directory of the workers, ./{path}")


@dataclass
class Walk:
    """The regular files below a root in the order of the bytes of their paths, on the root's file system.

    Paths are relative to the root. What could not be listed is in `errors`, with its path; nothing is known of what is
    below a path in `unlisted`.
    """

    root: bytes
    after: bytes | None = None
    excludes: Excludes | None = None
    errors: list[tuple[bytes, str]] = field(default_factory=list)
    unlisted: list[bytes] = field(default_factory=list)

    def __iter__(self) -> Iterator[ListedFile]:
        return self._below(look_at(self.root).st_dev)

    def _below(self, device: int) -> Iterator[ListedFile]:
        pending = [self._entries(b"")]
        while pending:
            entry = next(pending[-1], None)
            if entry is None:
                pending.pop()
                continue
            path, is_directory = entry
            if self.excludes is not None and self.excludes.leaves_out(path.rstrip(b"/"), is_directory):
                continue
            try:
                found = os.lstat(self.root + b"/" + path)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._failed(path, error)
                continue
            if is_directory:
                if found.st_dev == device:
                    pending.append(self._entries(path))
                else:
                    self.unlisted.append(path)
            elif stat.S_ISREG(found.st_mode):
                times = (clamp(found.st_mtime_ns), clamp(found.st_ctime_ns))
                yield ListedFile(path, found.st_size, *times, found.st_ino)

    def _entries(self, prefix: bytes) -> Iterator[tuple[bytes, bool]]:
        """What is in a directory that comes after `after`, in order. A directory's name sorts with its slash."""
        try:
            with os.scandir(self.root + b"/" + prefix) as entries:
                names = sorted(
                    entry.name + b"/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries
                )
        except OSError as error:
            if not prefix:
                raise PlaceError(f"{os.fsdecode(self.root)}: {error.strerror}") from None
            if not isinstance(error, FileNotFoundError):
                self._failed(prefix, error)
            return
        for name in names:
            path, is_directory = prefix + name, name.endswith(b"/")
            is_begun = is_directory and self.after is not None and self.after.startswith(path)
            if self.after is None or path > self.after or is_begun:
                yield path, is_directory

    def _failed(self, path: bytes, error: OSError) -> None:
        self.errors.append((path, error.strerror or str(error)))
        self.unlisted.append(path)


@dataclass
class RemoteWalk:
    """The same of a place on another machine. It is listed as a whole when it is begun, and kept in memory."""

    place: Place
    after: bytes | None = None
    excludes: Excludes | None = None
    errors: list[tuple[bytes, str]] = field(default_factory=list)
    unlisted: list[bytes] = field(default_factory=list)

    def __iter__(self) -> Iterator[ListedFile]:
        try:
            files, errors = list_place(self.place.path, self.place.hosts)
        except verisum.Error as error:
            raise PlaceError(f"{self.place.path}: {error}") from None
        self.errors += errors
        self.unlisted += [path for path, _ in errors]
        for path, size, mtime in files:
            if self.after is not None and path <= self.after:
                continue
            if self.excludes is not None and self.excludes.leaves_out_file(path):
                continue
            yield ListedFile(path, size, None if mtime is None else clamp(mtime), None, None)


def look_at(root: bytes, inode: int | None = None) -> os.stat_result:
    """The top of a place, which has to be the one with this inode, if that is known.

    Where the file system of a place is unmounted while it is worked on, its files must not be taken for missing.
    """
    try:
        top = os.stat(root)
    except OSError as error:
        raise PlaceError(f"{os.fsdecode(root)}: {error.strerror}") from None
    if not stat.S_ISDIR(top.st_mode):
        raise PlaceError(f"{os.fsdecode(root)}: it is no directory")
    if inode is not None and top.st_ino != inode:
        raise PlaceError(f"{os.fsdecode(root)}: another directory is there than at the start; is it mounted?")
    return top


def clamp(nanoseconds: int) -> int:
    """A time that 64 bits hold: those beyond wrap around, as in the catalogue."""
    return (nanoseconds + (1 << 63)) % (1 << 64) - (1 << 63)
