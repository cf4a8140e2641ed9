"""The errors of a store in a folder, grouped by remedy."""

from __future__ import annotations

from agentic_kernel_engine.errors import StoreError, UnknownOutcome


class ForeignFolder(StoreError):
    """The folder holds files that are not a store's; choose another folder.

    The store changed nothing in the folder.
    """


class SchemaTooNew(StoreError):
    """A newer version wrote the folder; upgrade. This version changed nothing in the folder."""


class Damaged(StoreError):
    """Durable bytes are missing or do not match their checksum; restore the folder from a copy."""


class FolderGone(StoreError):
    """The folder, or a file of the store in it, was removed, renamed or replaced while in use.

    The store did not write. Its next call opens the folder that the path leads to then. Hosts that
    joined before are gone.
    """


class FolderGoneMidway(FolderGone, UnknownOutcome):
    """The folder was removed, renamed or replaced during a write, and may hold that write."""


class StoreBusy(StoreError):
    """Another process held the folder's lock for too long; that process hangs or is stopped."""


class ReadOnly(StoreError):
    """The folder can be read but not written."""
