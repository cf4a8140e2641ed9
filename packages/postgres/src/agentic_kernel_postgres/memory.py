"""PostgresMemory: the Memory port over one schema of a Postgres database."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from psycopg import errors
from psycopg_pool import AsyncConnectionPool

from agentic_kernel import InvalidValue
from agentic_kernel_engine.errors import StoreError
from agentic_kernel_engine.seams import (
    Export,
    Hit,
    Item,
    NotCurrent,
    Query,
    Remembered,
    Scope,
    UnknownItem,
    check_id,
    check_reason,
    check_scope,
)
from agentic_kernel_engine.seams.memories import (
    BadVector,
    Embedder,
    Vectors,
    check_query,
    read_export,
)

from . import memory_queries as queries
from .errors import NoVectorIndex
from .memory_index import make_indexes
from .memory_rows import digest_of, hit_from, known_from, newest_from, proposed, row_of, words_of
from .memory_sessions import sessions
from .memory_vectors import stored
from .place import check_place
from .schema import check_name
from .session import Row

_UNKNOWN: Final = -1
_NOT_CURRENT: Final = -2
"""The results of the schema's function `remember_1` that mean that it changed nothing."""


class PostgresMemory:
    """A `Memory` in one schema of a Postgres database, for any number of processes and machines.

    With an embedder and the extension pgvector, the score of an item is three quarters the cosine
    of the angle between its vector and the query's, and one quarter the share of the query's words
    that the item has. Without the embedder or the extension, the score is that share alone. Words
    are compared without letter case and in one Unicode form, in every language.

    A query compares every item of its scope. After `index` was called for a scope of more than
    3,000 items, it compares only those that an index by vector, the newest items and an index by
    word lead to. Scores and their order are the same, but an item that fits may be missed.

    A call that returned is committed, and is as durable as a write of a `PostgresStore` in the same
    place. If the answer to a call is lost, the call is made again; it takes effect once and gives
    the same result. Writers of one scope wait for each other. Writers of different scopes do not,
    and readers wait for no writer.

    One object serves all threads and event loops of its process, but not a forked child.

    Args:
        place: The database, as for `PostgresStore`; it may be the same pool.
        schema: The memory's schema in the database, made if it does not exist. It may be the schema
            of a store.
        embedder: Makes the vectors. A scope keeps one embedder for its life. The memory creates the
            extension in the database if it is missing and the role may create it.
    """

    def __init__(
        self,
        place: str | AsyncConnectionPool[Any] | None = None,
        *,
        schema: str = "agentic_kernel",
        embedder: Embedder | None = None,
    ) -> None:
        self.schema = check_name(schema)
        if embedder is not None and not callable(getattr(embedder, "embed", None)):
            raise InvalidValue("embedder", f"must be an Embedder, not {type(embedder).__name__}")
        self._sessions = sessions(check_place(place), schema, vectors=embedder is not None)
        self._embedded = Vectors(embedder, stored) if embedder is not None else None

    def __repr__(self) -> str:
        return f"PostgresMemory({self._sessions.name!r}, schema={self.schema!r})"

    async def __aenter__(self) -> Self:
        await self._sessions.here()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def propose(self, item: Item) -> bool:
        _check_item(item)
        # Skip the embedding of an item that is known. `_keep` decides again in the database.
        if await self._vectors() and await self._look(item.scope, item.id):
            return False
        new, _ = await self._keep(item.scope, [proposed(item)])
        return new == 1

    async def supersede(self, predecessor: str, item: Item) -> bool:
        _check_item(item)
        check_id(predecessor)
        if await self._vectors():
            known = await self._look(item.scope, item.id, predecessor)
            if item.id in known:
                return False
            if predecessor not in known:
                raise UnknownItem(predecessor)
            if not known[predecessor].live:
                raise NotCurrent(predecessor, known[predecessor].successor)
        new, successor = await self._keep(item.scope, [proposed(item, predecessor)], predecessor)
        if new == _UNKNOWN:
            raise UnknownItem(predecessor)
        if new == _NOT_CURRENT:
            raise NotCurrent(predecessor, successor)
        return new == 1

    async def tombstone(self, scope: Scope, id: str, reason: str) -> bool:
        check_reason(reason)
        check_scope(scope)
        check_id(id)
        ((first,),) = await self._asked(queries.FORGET, [digest_of(scope), id, reason, _number()])
        if first is None:
            raise UnknownItem(id)
        return bool(first)

    async def recall(self, query: Query) -> Sequence[Hit]:
        check_query(query)
        scope, words = query.scope, words_of(query.text)
        last = [digest_of(scope), query.min_score, query.limit]
        vectors = await self._vectors() if query.text else None
        if vectors is not None:
            extension = (await self._sessions.here()).extension
            digest, *bounds = last
            vector = await vectors.asked(query.text)
            near = [digest, extension, words, vector, query.limit]
            asked = [words, vector, *near, digest, digest, *bounds]
            rows = await self._asked(queries.by_meaning(extension), asked)
        elif words:
            rows = await self._asked(queries.BY_WORDS, [words, *last])
        else:
            rows = await self._asked(queries.NEWEST, [digest_of(scope), query.limit])
            return [newest_from(scope, row) for row in rows]
        return [hit_from(scope, row, len(words)) for row in rows]

    async def explain(self, scope: Scope, id: str) -> Remembered:
        check_scope(scope)
        check_id(id)
        found = await self._look(scope, id)
        if id not in found:
            raise UnknownItem(id)
        return found[id]

    async def export(self, scope: Scope) -> dict[str, Any]:
        check_scope(scope)
        rows = await self._asked(queries.EXPORT, [digest_of(scope)])
        exported: dict[str, Any] = msgspec.to_builtins(Export(scope, list(map(known_from, rows))))
        return exported

    async def restore(self, scope: Scope, exported: Mapping[str, Any]) -> int:
        check_scope(scope)
        new, _ = await self._keep(scope, read_export(exported))
        return new

    async def index(self, scope: Scope) -> bool:
        """Make the indexes of a scope that has, or will have, very many items.

        Meanwhile, this and other processes go on reading and writing. A hundred thousand items take
        one or two minutes. From then on each new item of the scope costs the database a few
        milliseconds more. Scopes without indexes are not affected. It is meant for dozens of large
        scopes in a schema, not for thousands.

        Returns:
            True if this call made an index; False if they were there.

        Raises:
            InvalidValue: The memory has no embedder, or it is not a scope.
            NoVectorIndex: The extension pgvector is missing or older than 0.8, or the vectors have
                more than 4,000 numbers.
            BadVector: The embedder's vectors have another length than those of the scope.
            StoreError: The database cannot be reached, or the role may not make an index.
        """
        check_scope(scope)
        if self._embedded is None:
            raise InvalidValue("embedder", "is missing; an index needs an embedder")
        opened = await self._sessions.here()
        if not opened.extension:
            raise NoVectorIndex(
                f"{self._sessions.name}: the extension vector is missing; install pgvector 0.8 or "
                "newer on the server, run CREATE EXTENSION vector, and make a new PostgresMemory"
            )
        vector = await self._embedded.asked("dimensions")
        return await make_indexes(opened.session, opened.extension, scope, len(vector))

    async def close(self) -> None:
        """Close all connections; the memory cannot be used any more."""
        await self._sessions.close()

    async def _vectors(self) -> Vectors | None:
        """The maker of vectors; None if there is no embedder or no extension."""
        return self._embedded if (await self._sessions.here()).extension else None

    async def _look(self, scope: Scope, *ids: str) -> dict[str, Remembered]:
        """The known items among these ids, by id."""
        rows = await self._asked(queries.LOOK, [digest_of(scope), list(ids)])
        return {known.id: known for known in map(known_from, rows)}

    async def _keep(
        self, scope: Scope, entries: Sequence[Remembered], predecessor: str | None = None
    ) -> tuple[int, str]:
        """Store entries; return the number of new ones, and the predecessor's successor.

        The number is `_UNKNOWN` or `_NOT_CURRENT` if the predecessor is not known, or not current.
        """
        marks: dict[str, list[float]] = {}
        vectors = await self._vectors()
        if vectors is not None:
            live = {entry.id: entry.text for entry in entries if entry.live}
            made = await vectors.of(list(live.values()))
            marks = dict(zip(live, made, strict=True))
        rows = [row_of(place, entry, marks.get(entry.id)) for place, entry in enumerate(entries)]
        dimensions = next(map(len, marks.values()), None)
        asked = [
            digest_of(scope), scope.tenant, scope.principal, scope.session, _number(),
            msgspec.json.encode(rows).decode(), dimensions, predecessor,
        ]  # fmt: skip
        ((new, successor),) = await self._asked(queries.KEEP, asked)
        return new, successor or ""

    async def _asked(self, text: str, asked: Sequence[object]) -> list[Row]:
        """The rows of a statement that is safe to run twice.

        Raises:
            BadVector: A vector has another length than the other vectors of the scope.
            StoreError: The database cannot be reached, or reports an error.
        """
        opened = await self._sessions.here()
        try:
            return await opened.session.query(text, asked)
        except StoreError as error:
            if isinstance(error.__cause__, errors.DataException):
                said = "the embedder's vector has another length than the vectors of the scope"
                raise BadVector(said) from error
            raise


def _check_item(item: object) -> None:
    if not isinstance(item, Item):
        raise InvalidValue("item", f"must be an Item, not {type(item).__name__}")


def _number() -> int:
    """A random number that identifies a call, also when the call is made again."""
    return secrets.randbits(62) + 1
