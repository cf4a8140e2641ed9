"""A substrate that speaks as the kit's script says, and commits only when it is told to stop."""

from __future__ import annotations

import asyncio
from typing import Any

from agentic_kernel_conformance import ScriptedSubstrate, ScriptedWork
from agentic_kernel_engine import Job


class Speaking(ScriptedSubstrate):
    """Says a word now and then, until it is stopped."""

    def __init__(self, work: ScriptedWork) -> None:
        super().__init__(work)
        self._told = work

    async def execute(self, job: Job) -> Any:
        """Speak if the script says ``run``; else do what the script says."""
        if job.task.instructions != "run":
            return await super().execute(job)
        said: int = job.state or 0
        while True:
            job.emit({"type": "run.delta", "text": "word ", "at": said})
            said += len("word ")
            self._told.produced(job.task.id).set()
            await asyncio.sleep(0.001)
            if job.stopping:
                await job.checkpoint(said)
