"""Reader: the published catalog, brought up to date before every read without a file lock."""

from __future__ import annotations

import threading
from typing import Final

from .catalog import Catalog
from .errors import Damaged
from .files import File
from .folder import Folder
from .head import Published
from .log import Log
from .manifest import Manifest
from .table import Table, table_name

_TRIES: Final = 10


class Reader:
    """The published content of the folder, for one process.

    A reader takes no lock of the folder, so a writer in another process, even a stopped one, never
    blocks a read. `lock` only excludes the threads of this process from each other.
    """

    def __init__(self, folder: Folder) -> None:
        self.lock = threading.RLock()
        self._folder = folder
        self.manifest, self.catalog = self._open(None)
        self.refresh(folder.head.read())

    def current(self) -> Catalog:
        """The catalog with everything acknowledged before this call. The caller holds `lock`."""
        self.refresh(self._folder.head.read())
        return self.catalog

    def refresh(self, published: Published) -> None:
        """Apply the published batches to the catalog. The caller holds `lock`."""
        if published.generation != self.manifest.generation:
            self.reload()
        until = max(published.durable, self.manifest.active.start)
        if until > self.catalog.position.at:
            self.catalog.advance(until)

    def files(self) -> dict[str, File]:
        """The open files by name."""
        table, found = self.catalog.table, self.catalog.log.files()
        return found if table is None else {**found, table.file.name: table.file}

    def reload(self) -> None:
        """Read the manifest again and open the files that it names. The caller holds `lock`."""
        self.manifest, self.catalog = self._open(self.manifest)

    def _open(self, known: Manifest | None) -> tuple[Manifest, Catalog]:
        missing: FileNotFoundError | None = None
        for _ in range(_TRIES):
            manifest = self._folder.manifest()
            if known is not None and manifest.generation == known.generation:
                return known, self.catalog
            try:
                return manifest, self._catalog(manifest, known)
            except FileNotFoundError as error:
                # A compaction removed the file after the manifest was read: read the next manifest.
                missing = error
        name = None if missing is None else missing.filename
        raise Damaged(
            f"{self._folder.path} lacks {name}, which its manifest names; restore it from a copy"
        ) from missing

    def _catalog(self, manifest: Manifest, known: Manifest | None) -> Catalog:
        directory = self._folder.directory
        before = None if known is None else self.catalog
        log = Log(directory, manifest, None if before is None else before.log)
        if before is not None and known is not None and known.table == manifest.table:
            before.log = log
            return before
        table, states = None, self._folder.states.read
        if manifest.table is not None:
            table = Table(directory.open(table_name(manifest.table)), states)
        catalog = Catalog(log, table, states)
        catalog.advance(manifest.active.start)
        if before is not None:
            if before.position.at > catalog.position.at:
                catalog.advance(before.position.at)
            catalog.keep_records(before)
        return catalog
