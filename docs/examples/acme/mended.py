"""Keeps Tasks in Acme's grid."""

from collections.abc import Sequence

from agentic_kernel_engine import Conflict, MemoryStore, Record


class AcmeStore(MemoryStore):
    """A store that counts its refused commits; a refused commit is refused."""

    refused = 0

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        try:
            await super().commit(before, after, events)
        except Conflict:
            self.refused += 1
            raise
