"""Decisions: the verbs by which people and other processes direct a run, on whichever Host it is.

A decision waits in the Task's inbox until the run consumes it, in the commit that acts on it (R12).
A decision that lets a paused Task go on also resumes the Task, in the same write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from .. import values
from ..plans import vocabulary
from ..receipt import Receipt
from . import inbox


class Decisions(ABC):
    """The verbs of a Host for runs of the bounded `Loop`, beside the six of every Runtime."""

    @abstractmethod
    async def decide(
        self, task_id: str, decision: Mapping[str, Any], *, at_version: int | None = None
    ) -> Receipt:
        """Leave a decision in the inbox, and resume the Task if it is paused."""

    @abstractmethod
    async def post(self, task_id: str, decision: Mapping[str, Any]) -> int:
        """Leave a decision in the inbox of a Task that has not ended; do not resume the Task."""

    async def approve(self, task_id: str, digest: str, *, by: str = "", why: str = "") -> Receipt:
        """Approve the one action with this digest, and let the Task go on."""
        return await self._approval(task_id, digest, True, by, why)

    async def deny(self, task_id: str, digest: str, *, by: str = "", why: str = "") -> Receipt:
        """Refuse the one action with this digest, and let the Task go on without it."""
        return await self._approval(task_id, digest, False, by, why)

    async def answer(
        self, task_id: str, text: str, *, by: str = "", at_version: int | None = None
    ) -> Receipt:
        """Answer the question that the Task is paused for, and let it go on.

        Args:
            at_version: The version of the record whose question this answers. If the record has
                another version by now, nothing is written and the receipt says ``none``.
        """
        decision = inbox.check({"type": vocabulary.ANSWER, "text": text, "by": by}, "")
        return await self.decide(task_id, decision, at_version=at_version)

    async def retune(
        self, task_id: str, limits: Mapping[str, Any] | None = None, *, by: str = "", **more: Any
    ) -> int:
        """Change some limits of a run from its next step on; the run may be in another process.

        Args:
            limits: New limits by name, as in `Limits`; keyword arguments do the same.

        Raises:
            InvalidValue: There is no such limit, or the value is not valid for it.
        """
        changes = {**({} if limits is None else values.mapping(limits, "limits")), **more}
        decision = inbox.check({"type": vocabulary.RETUNE, "limits": changes, "by": by}, "")
        return await self.post(task_id, decision)

    async def step(self, task: str) -> Receipt:
        """Let a paused Task do one step, after which it pauses again."""
        return await self.decide(task, {"type": vocabulary.STEP})

    async def _approval(
        self, task_id: str, digest: str, granted: bool, by: str, why: str
    ) -> Receipt:
        said = {"digest": digest, "granted": granted, "by": by, "why": why}
        decision = inbox.check({"type": vocabulary.APPROVAL, **said}, "")
        return await self.decide(task_id, decision)
