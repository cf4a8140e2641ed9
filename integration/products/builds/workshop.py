"""Workshop: the substrate that makes one target by running the lines of its recipe."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentic_kernel import CannotStart, Task
from agentic_kernel_engine import Accepting, Cleaning, Event, Job, Substrate, TaskFailed

from .processes import end_processes, run_line
from .shelf import MistakeError, Shelf, aside, inputs_digest

KIND = "build"
INPUTS_CHANGED = "build/inputs_changed"
"""The code of the failure of a target whose inputs changed while it was made."""
UNKNOWN = "build/unknown_lines"
"""The note with the numbers of the lines that a crash cut off."""
MOST_OUTPUT = 1 << 20
"""Characters of the output of one line that are kept."""
_TAIL = 2_000
"""Characters of the output of a failed line in the failure."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The instructions of a Task, as JSON."""

    folder: str
    run: tuple[str, ...]
    inputs: tuple[str, ...]
    inputs_digest: str
    outputs: tuple[str, ...]
    once: tuple[int, ...]
    """The lines that are not run again if a crash cuts them off; the first line is 0."""
    mark: str
    """A random text by which the Task's processes are found again."""

    @classmethod
    def of(cls, task: Task) -> Recipe:
        """Read the instructions of a Task.

        Raises:
            ValueError: They are not a recipe.
        """
        try:
            given: dict[str, Any] = json.loads(task.instructions)
            lists: dict[str, Any] = {
                name: tuple(given.pop(name)) for name in ("run", "inputs", "outputs", "once")
            }
            recipe = cls(**lists, **given)
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(str(error)) from error
        single = recipe.folder, recipe.inputs_digest, recipe.mark
        for text in (*single, *recipe.run, *recipe.inputs, *recipe.outputs):
            if not isinstance(text, str) or "\0" in text:
                raise ValueError("a field that must be a text is not one, or has a NUL character")
        if not all(isinstance(number, int) for number in recipe.once):
            raise ValueError("`once` must be a list of numbers")
        return recipe


class Workshop(Substrate, Accepting, Cleaning):
    """Runs the lines of a recipe one after the other, each in a session of its own.

    Before a line begins, a commit says so. If the next run finds that a line began and did not end,
    the outcome of that line is unknown: the record says so, all that is left of its processes is
    ended, and the line is run again, or the Task fails if the recipe says ``once`` of the line.

    Args:
        shelf: Keeps the outputs; None to keep no outputs.
    """

    def __init__(self, shelf: Shelf | None = None) -> None:
        self._shelf = shelf

    async def accept(self, task: Task) -> None:
        """Refuse instructions that are not a recipe."""
        try:
            Recipe.of(task)
        except ValueError as error:
            raise CannotStart(f"the instructions are not a recipe: {error}", task.id) from error

    async def execute(self, job: Job) -> dict[str, Any]:
        """Go on with the line after the last one that is done.

        The result has the number of ``lines``, and the ``outputs``: the digest and the mode of each
        by its name.

        Raises:
            TaskFailed: A line failed, an input changed, or an output is missing.
        """
        recipe = Recipe.of(job.task)
        state = job.state or {"done": 0, "begun": False}
        if state["begun"]:
            await end_processes(recipe.mark)
        await self._check_inputs(recipe)
        if state["begun"]:
            # A process that lost the Task meanwhile learns it here, before it runs the line again.
            await job.commit(state, progress=False)
            _say_unknown(job, recipe, state["done"])
        for number in range(state["done"], len(recipe.run)):
            if not state["begun"]:
                said = {"line": number + 1, "of": len(recipe.run), "text": recipe.run[number]}
                begun = {"done": number, "begun": True}
                await job.commit(begun, [{"type": "build.line", **said}], progress=False)
            await _run(job, recipe, number)
            # Each line has a text of its own, so that a line that is run again replaces only that.
            turn = [{"type": "run.turn"}]
            state = {"done": number + 1, "begun": False}
            await job.checkpoint(state, turn)
        await self._check_inputs(recipe)
        return {"lines": len(recipe.run), "outputs": await self._outputs(recipe)}

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """End everything that the target has running."""
        await end_processes(Recipe.of(task).mark)

    async def _check_inputs(self, recipe: Recipe) -> None:
        if recipe.inputs:
            try:
                digest = await aside(inputs_digest, Path(recipe.folder), recipe.inputs)
            except (MistakeError, OSError) as error:
                raise TaskFailed(INPUTS_CHANGED, f"an input cannot be read: {error}") from error
            if digest != recipe.inputs_digest:
                raise TaskFailed(
                    INPUTS_CHANGED,
                    "the inputs changed while it was made; a recipe must not change its own inputs",
                )

    async def _outputs(self, recipe: Recipe) -> dict[str, Any]:
        root = Path(recipe.folder)
        if missing := [name for name in recipe.outputs if not (root / name).is_file()]:
            raise TaskFailed(
                "build/output_missing", f"the recipe did not make the file {', '.join(missing)}"
            )
        if self._shelf is None or not recipe.outputs:
            return {}
        try:
            return await aside(self._shelf.keep, root, recipe.outputs)
        except OSError as error:
            raise TaskFailed("build/cannot_keep", f"outputs cannot be kept: {error}") from error


def _say_unknown(job: Job, recipe: Recipe, number: int) -> None:
    """Put on record that a line was cut off, with the commit that ends the line.

    Raises:
        TaskFailed: The line must not be run again.
    """
    line = recipe.run[number]
    what = f"line {number + 1} was cut off, so its outcome is indeterminate"
    if number in recipe.once:
        raise TaskFailed(
            "build/outcome_unknown",
            f"{what}: {line}; it is a line to run once, so look what it did, and build again to "
            "begin with the first line",
            {"line": number + 1},
        )
    job.note(UNKNOWN, sorted({*job.task.metadata.get(UNKNOWN, ()), number + 1}))
    job.emit({"type": "build.line_unknown", "line": number + 1, "text": line, "why": what})


async def _run(job: Job, recipe: Recipe, number: int) -> None:
    """Run one line; its output becomes a part of the Task's history."""
    line, tail, heard = recipe.run[number], "", 0

    def hear(text: str) -> None:
        nonlocal tail, heard
        text = text.replace("\0", "�")
        if kept := text[: max(0, MOST_OUTPUT - heard)]:
            job.emit({"type": "run.delta", "text": kept})
        heard += len(text)
        tail = (tail + text)[-_TAIL:]

    try:
        status = await run_line(line, Path(recipe.folder), recipe.mark, hear)
    except OSError as error:
        raise TaskFailed("build/cannot_start", f"line {number + 1}: {error}: {line}") from error
    if heard > MOST_OUTPUT:
        left = f"\n[{heard - MOST_OUTPUT:,} more characters of line {number + 1} are not kept]\n"
        job.emit({"type": "run.delta", "text": left})
    if status:
        how = f"ended with {status}" if status > 0 else f"was ended by signal {-status}"
        raise TaskFailed(
            "build/line_failed",
            f"line {number + 1} {how}: {line}",
            {"line": number + 1, "status": status, "output": tail},
        )


def task_of(
    target: str,
    lines: Sequence[str],
    folder: Path,
    *,
    task_id: str | None = None,
    inputs: Sequence[str] = (),
    inputs_digest: str = "",
    outputs: Sequence[str] = (),
    once: Sequence[int] = (),
    fingerprint: str = "",
) -> Task:
    """The Task that makes a target."""
    recipe = Recipe(
        str(folder), tuple(lines), tuple(inputs), inputs_digest, tuple(outputs), tuple(once),
        secrets.token_hex(16),
    )  # fmt: skip
    return Task.new(
        id=task_id,
        summary=target,
        instructions=json.dumps(asdict(recipe)),
        runtime_kind=KIND,
        metadata={"label/target": target, "label/fingerprint": fingerprint},
    )
