"""What goes wrong with a fleet."""

from __future__ import annotations

from verisum._errors import Error


class FleetError(Error):
    """The base of the errors of `verisum.dask`."""


class LakeError(FleetError):
    """The lake could not be read or written, or a part of it is damaged."""


class PartError(LakeError):
    """A part or a note of one place is damaged, or cannot be read."""


class PlaceError(FleetError):
    """A place cannot be worked on: it is not there, or no worker has it."""


class VersionError(FleetError):
    """A worker has another version of verisum, or none."""
