"""What goes wrong, with path, operation and cause."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Error(Exception):
    """The base of all errors of this package.

    Attributes:
        message: The whole error in one line.
        path: The file that it is about, as `os.fsdecode` gives it; None where it is about no file.
        operation: What was being done: ``open``, ``read``, ``find`` …
        errno: The system's number, where the system failed. The exception's ``__cause__`` is then the `OSError`.
    """

    def __init__(
        self,
        message: str,
        path: str | None = None,
        operation: str | None = None,
        errno: int | None = None,
    ) -> None:
        # Names that are no UTF-8 have surrogates, which cannot be printed.
        message = message.encode(errors="replace").decode()
        super().__init__(message)
        self.message = message
        self.path = path
        self.operation = operation
        self.errno = errno
        if errno is not None:
            self.__cause__ = OSError(errno, os.strerror(errno), path)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.path, self.operation, self.errno))


class DigestError(Error, ValueError):
    """A digest is not known, not available on this machine, or failed."""


class _PathError(Error, OSError):
    """What an `OSError` has too, for those who catch that."""

    def __init__(
        self,
        message: str,
        path: str | None = None,
        operation: str | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message, path, operation, errno)
        self.filename = path
        self.strerror = None if errno is None else os.strerror(errno)


class FileError(_PathError):
    """A file could not be found, opened, read or hashed."""


class ImageError(_PathError):
    """A disk image or a block map could not be opened, read or understood."""


class HostError(_PathError):
    """Another machine could not be reached, or did not do what it should."""


class CatalogError(_PathError):
    """A catalogue could not be opened, read or written: it is damaged, in use, or none.

    ``operation`` is ``lock`` where another run uses it.
    """
