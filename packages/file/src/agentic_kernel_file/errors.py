"""The errors of a folder of files, by who can act on them."""

from __future__ import annotations

from agentic_kernel_engine.errors import StoreError, UnknownOutcome


class ForeignFolder(StoreError):
    """The folder holds something else; choose another one. Nothing in it was touched."""


class SchemaTooNew(StoreError):
    """A newer version wrote the folder; upgrade. Nothing in it was touched."""


class Damaged(StoreError):
    """What was durable does not read back as written; restore the folder from a copy."""


class FolderGone(StoreError):
    """The folder, or a file of the store in it, was removed, renamed or replaced while in use.

    The store did not write. It opens whatever the path leads to when it is used next; hosts that
    joined before are gone.
    """


class FolderGoneMidway(FolderGone, UnknownOutcome):
    """The folder went away during a write, and the write may stand in the folder that went."""


class StoreBusy(StoreError):
    """Another process held the folder's lock for too long; it hangs or is stopped."""


class ReadOnly(StoreError):
    """The folder can be read but not written."""
