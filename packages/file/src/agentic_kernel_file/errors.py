"""What a folder of files can refuse, by who can act on it."""

from __future__ import annotations

from agentic_kernel_engine.errors import StoreError


class ForeignFolder(StoreError):
    """The folder holds something else; choose another one. Nothing in it was touched."""


class SchemaTooNew(StoreError):
    """A newer version wrote the folder; upgrade. Nothing in it was touched."""


class Damaged(StoreError):
    """What was durable does not read back as written; restore the folder from a copy."""


class StoreBusy(StoreError):
    """Another process held the folder's lock for too long; it hangs or is stopped."""


class ReadOnly(StoreError):
    """The folder can be read but not written."""
