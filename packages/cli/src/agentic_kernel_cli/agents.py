"""The Host of this command: conversations with the local model, and Tasks with tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import Host, Job, Limits, Loop, Observer, Store
from agentic_kernel_engine.loop import ToolCall

from .kinds import KINDS, TOOLS_KIND
from .toolbox import AskBefore, Toolbox

LIMITS: Final = Limits(max_iterations=10)
"""The small model does not always know when it is done."""
_EXAMPLES: Final = (
    (
        "Write good day to the file day.txt.",
        ToolCall("write_file", {"path": "day.txt", "content": "good day"}),
        "day.txt",
        "The file day.txt is written.",
    ),
    (
        "What is 3 * 4?",
        ToolCall("calculator", {"expression": "3 * 4"}),
        "12",
        "12",
    ),
    (
        "How much is 250 + 31?",
        ToolCall("calculator", {"expression": "250 + 31"}),
        "281",
        "281",
    ),
)


class Work:
    """A substrate: the Task's runtime kind says whether it is a conversation or has tools.

    Raises:
        ImportError: The package of the local model is not installed.
    """

    def __init__(self, model: Path | None) -> None:
        # Only here: everything else that the command does needs no model.
        from agentic_kernel_local import AnswerOptions, Example, LocalPlanner, LocalSubstrate

        self._talk = LocalSubstrate(model_path=model)
        self._options = AnswerOptions(max_tokens=1024)
        examples = [Example(*parts) for parts in _EXAMPLES]
        self._planner = LocalPlanner(model_path=model, answer=self._options, examples=examples)

    async def accept(self, task: Task) -> None:
        """Refuse a Task whose options are not valid, or for which no model can be loaded."""
        if task.runtime_kind != TOOLS_KIND:
            await self._talk.accept(task)
            return
        try:
            Toolbox.of(task)
            self._options.of(task)
        except InvalidValue as error:
            raise CannotStart(str(error), task.id) from error
        await self._planner.open()

    async def execute(self, job: Job) -> Any:
        if job.task.runtime_kind != TOOLS_KIND:
            return await self._talk.execute(job)
        try:
            box = Toolbox.of(job.task)
            self._options.of(job.task)
            await self._planner.open()
        except (InvalidValue, CannotStart) as error:
            # What is missing here may be there elsewhere, or tomorrow.
            await job.pause(job.state, reason=str(error))
        tools = box.tools()
        asked = [] if box.yes else [tool.name for tool in tools if tool.has_effect]
        return await Loop(self._planner, tools, AskBefore(asked), limits=LIMITS).execute(job)

    async def close(self) -> None:
        """Let go of the model."""
        await self._planner.close()
        await self._talk.close()


class AgentHost(Host):
    """Runs the Tasks that this command is told to run, and no others."""

    def __init__(self, store: Store, model: Path | None, observer: Observer) -> None:
        self._work = Work(model)
        super().__init__(self._work, store, runtime_kinds=KINDS, observer=observer, claims=False)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self._work.close()
