"""FileMemory: the Memory port over one folder of files."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from agentic_kernel import InvalidValue
from agentic_kernel_engine.errors import StoreError
from agentic_kernel_engine.faults import said
from agentic_kernel_engine.seams import (
    Hit,
    Item,
    Query,
    Remembered,
    Scope,
    check_id,
    check_reason,
    check_scope,
)
from agentic_kernel_engine.seams.memories import Embedder, Vectors, check_query, read_export

from .edges import folder_path, seconds
from .errors import FolderGone
from .files import Files
from .folder import as_store_error
from .memory_entries import Added, Entry, Forgotten, Known, Restored, encode, packed
from .memory_log import MemoryLog, Request
from .threads import Threads

T = TypeVar("T")

_MOST: Final = 256
"""Requests in one batch of the log."""
_TRIES: Final = 10
_log = logging.getLogger(__name__)


class FileMemory:
    """A `Memory` in one folder, for any number of processes on one machine.

    A call that returned is durable, as a write of a `FileStore` is. A call that raised any error
    but `UnknownOutcome` left no change. The calls of one process that wait at the same time share
    one sync. Readers take no lock and wait for no other process.

    With an embedder, the score of an item is three quarters the cosine of the angle between its
    vector and the query's, and one quarter the share of the query's words that the item has.
    Without the embedder, the score is that share alone. Words are compared without letter case and
    in one Unicode form. An item that was proposed without an embedder is found by its words.

    Each process holds all items in memory, and a query compares every live item of its scope, in
    plain Python in a thread: it is meant for thousands of items, not for millions.

    The log is compacted when more than half of it, and more than ``garbage`` bytes, are texts that
    were forgotten and vectors that no query needs. Until then the bytes of a forgotten text are on
    the disk; `compact` removes them at once. The ids of all items are kept for ever.

    One object serves all threads and event loops of its process, and a forked child.

    Args:
        folder: The first item creates the folder if it does not exist. The memory refuses a folder
            that holds other files, a store's folder included, and leaves it unchanged.
        embedder: Makes the vectors; the same one for the life of the folder.
        lock_timeout: Seconds that a write waits for a lock that another process holds; then it
            raises `StoreBusy`.
        garbage: Bytes; see above.
        files: The object that every operation on the disk goes through.

    Raises:
        InvalidValue: An argument cannot be used; the error's path is its name.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        embedder: Embedder | None = None,
        lock_timeout: float = 10.0,
        garbage: int = 1 << 20,
        files: Files | None = None,
    ) -> None:
        self.folder = folder_path(folder)
        self._timeout = seconds("lock_timeout", lock_timeout)
        if embedder is not None and not callable(getattr(embedder, "embed", None)):
            raise InvalidValue("embedder", f"must be an Embedder, not {type(embedder).__name__}")
        if isinstance(garbage, bool) or not isinstance(garbage, int) or garbage < 1:
            raise InvalidValue(
                "garbage", f"is {ascii(garbage)[:60]}; use a whole number of bytes, 1 or more"
            )
        if not isinstance(files, Files | None):
            raise InvalidValue("files", f"must be a Files, not {type(files).__name__}")
        self._embedded = None if embedder is None else Vectors(embedder)
        self._garbage = garbage
        self._files = files or Files()
        self._start()

    def _start(self) -> None:
        """Begin without threads and open files, as a new object or in a forked child."""
        self._process = os.getpid()
        # With one thread, no two of them use the log at once.
        self._threads = Threads(1)
        self._waiting: deque[Request] = deque()
        self._open: MemoryLog | None = None
        self._failed = 0
        """The length of the log at which a compaction failed."""

    def __repr__(self) -> str:
        return f"FileMemory({str(self.folder)!r})"

    async def propose(self, item: Item) -> bool:
        _check_item(item)
        vector = b""
        if self._embedded is not None:
            # Skip the embedding of an item that is known. The write decides again.
            if await self._read(lambda known: known.ledger.knows(item)):
                return False
            vector = await self._vector(item.text)
        return bool(await self._write(Added(item, None, vector)))

    async def supersede(self, predecessor: str, item: Item) -> bool:
        _check_item(item)
        check_id(predecessor)

        def look(known: Known) -> bool:
            if known.ledger.knows(item):
                return True
            known.ledger.current(item.scope, predecessor)
            return False

        if await self._read(look):
            return False
        return bool(await self._write(Added(item, predecessor, await self._vector(item.text))))

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        check_reason(reason)
        check_scope(scope)
        check_id(id)
        if await self._read(lambda known: bool(known.ledger.explain(scope, id).forgotten)):
            return False
        return bool(await self._write(Forgotten(scope, id, reason)))

    async def recall(self, query: Query) -> Sequence[Hit]:
        check_query(query)
        asked: list[float] | None = None
        if query.text and self._embedded is not None:
            asked = await self._embedded.asked(query.text)
        return await self._read(lambda known: known.found(query, asked))

    async def explain(self, scope: Scope, id: str) -> Remembered:
        return await self._read(lambda known: known.ledger.explain(scope, id))

    async def export(self, scope: Scope) -> dict[str, Any]:
        return await self._read(lambda known: known.ledger.export(scope))

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        check_scope(scope)
        entries = read_export(exported)
        vectors: dict[str, bytes] = {}
        if self._embedded is not None:
            live = {entry.id: entry.text for entry in entries if entry.live}
            made = await self._embedded.of(list(live.values()))
            vectors = {id: packed(each) for id, each in zip(live, made, strict=True)}
        if not entries:
            return 0
        entry = Restored(scope, entries, vectors)
        encode(entry)  # refuse what is too large before anything changes
        return int(await self._write(entry))

    async def compact(self) -> None:
        """Replace the log by one without the bytes of forgotten texts, durable when this returns.

        Other processes read on, and write on after it. The time grows with the number of items.

        Raises:
            StoreError: The log could not be replaced; no item is lost.
        """
        await self._run(self._compacted)

    def close(self) -> None:
        """Release the files and the items in memory; the next call opens the folder again.

        A write that is under way is finished.
        """
        if self._process == os.getpid():
            self._threads.start(self._drop)
        else:
            self._start()

    def _drop(self) -> None:
        self._open = None

    async def _vector(self, text: str) -> bytes:
        if self._embedded is None:
            return b""
        (vector,) = await self._embedded.of([text])
        return packed(vector)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._process != os.getpid():
            self._start()
        return await self._threads.run(work)

    async def _read(self, look: Callable[[Known], T]) -> T:
        return await self._run(lambda: self._looked(look))

    async def _write(self, entry: Entry) -> bool | int:
        request = Request(entry)
        if self._process != os.getpid():
            self._start()
        self._waiting.append(request)
        await self._threads.run(self._serve)
        if request.error is not None:
            raise request.error
        return request.result

    # The rest runs in the thread.

    def _looked(self, look: Callable[[Known], T]) -> T:
        """The result of ``look`` on all items that are acknowledged now."""
        for _ in range(_TRIES):
            opened = None
            try:
                opened = self._opened(create=False)
                if opened is None:
                    return look(Known())
                opened.refresh()
                return look(opened.known)
            except FolderGone as error:
                self._open = None
                _log.error("%s", said(error))
            except OSError as error:
                self._open = None
                raise as_store_error(error, str(self.folder), "read") from error
            except StoreError:
                self._open = None
                raise
        raise FolderGone(
            f"{self.folder} was replaced {_TRIES} times during one read; stop the program that "
            "replaces it, and try again"
        )

    def _serve(self) -> None:
        """Write all requests that wait; an earlier call may have written this one."""
        requests: list[Request] = []
        while self._waiting and len(requests) < _MOST:
            requests.append(self._waiting.popleft())
        if not requests:
            return
        try:
            opened = self._opened(create=True)
            assert opened is not None
            opened.write(requests)
        except BaseException as error:  # every caller gets an error of its own
            self._open = None
            if isinstance(error, OSError) and not isinstance(error, StoreError):
                error = as_store_error(error, str(self.folder), "write to")
            for request in requests:
                if request.error is None:
                    request.error = _copied(error)
        else:
            if self._compactable(opened):
                self._threads.start(self._compact)

    def _opened(self, *, create: bool) -> MemoryLog | None:
        if self._open is None:
            try:
                self._open = MemoryLog(self.folder, self._files, self._timeout, create=create)
            except FileNotFoundError:
                if create:
                    raise
                return None
        return self._open

    def _compactable(self, opened: MemoryLog) -> bool:
        garbage = opened.known.garbage
        return (
            garbage > self._garbage
            and 2 * garbage > opened.length
            and opened.length > self._failed + self._garbage
        )

    def _compact(self) -> None:
        """Compact the log, if it is still worth it; a failure is logged and loses nothing."""
        opened = self._open
        if opened is None or not self._compactable(opened):
            return
        try:
            opened.compact()
            self._failed = 0
        except (OSError, StoreError) as error:
            self._failed = opened.length
            self._open = None
            _log.warning(
                "the log of %s could not be compacted; no item is lost, and it is tried again when "
                "the log has grown: %s",
                self.folder,
                said(error),
            )

    def _compacted(self) -> None:
        try:
            opened = self._opened(create=False)
            if opened is not None:
                opened.compact()
        except OSError as error:
            self._open = None
            raise as_store_error(error, str(self.folder), "compact") from error
        except StoreError:
            self._open = None
            raise


def _check_item(item: object) -> None:
    if not isinstance(item, Item):
        raise InvalidValue("item", f"must be an Item, not {type(item).__name__}")


def _copied(error: BaseException) -> BaseException:
    """An exception of the caller's own; several callers may get the same error."""
    if isinstance(error, StoreError):
        copy = type(error)(error.reason)
        copy.__cause__ = error
        return copy
    return error
