"""The kit's script for a `DictRuntime`."""

from __future__ import annotations

from typing import Any

from agentic_kernel_conformance import ScriptedWork

from .dict_runtime import Execution


class DictWork(ScriptedWork):
    """Makes the Tasks and, as ``perform``, does what they say."""

    def __init__(self) -> None:
        super().__init__("dict")

    async def perform(self, execution: Execution) -> Any:
        """Follow the script."""
        task = execution.task
        if task.instructions == "fail":
            raise RuntimeError("as the script says")
        for step in range(self.steps(task)):
            execution.output.append(f"{step} ")
            self.produced(task.id).set()
            await execution.safe_point()
        return {"done": task.instructions}
