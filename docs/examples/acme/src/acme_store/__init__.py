"""Keeps Tasks in Acme's grid."""

from collections.abc import Sequence

from agentic_kernel_engine import Conflict, MemoryStore, Record


class AcmeStore(MemoryStore):
    """A store whose answers may get lost on the way, so that a commit can find its own traces."""

    async def commit(self, before: Record, after: Record, events: Sequence[bytes] = ()) -> None:
        try:
            await super().commit(before, after, events)
        except Conflict:
            stored = await self.load(before.task.id)
            if stored.version != after.version or stored.task.status is not after.task.status:
                raise
            # The Task is where this commit wanted it: an earlier attempt must have landed.
