"""AnswerOptions: the limits and sampling of an answer, which a Task may override."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from agentic_kernel import CannotStart, InvalidValue, Task

from ..inputs import Inputs
from ..plans.limits import Limits
from ..plans.transcript import Turn
from ..seams.planner import Context
from .images import images_of


def loop_inputs(scope: str, images: str, answers: type[AnswerOptions] | None = None) -> Inputs:
    """The inputs of a Runtime that is a `Loop` around a planner with `AnswerOptions`.

    Args:
        scope: See `Inputs`.
        images: See `Inputs`.
        answers: The planner's own kind of `AnswerOptions`, if it has one.
    """
    return Inputs(
        scope=scope,
        options=tuple(field.name for field in fields(answers or AnswerOptions)),
        agent=True,
        session=True,
        continues=True,
        images=images,
        limits=Limits.__struct_fields__,
        tools=True,
        agents=True,
        schema=True,
    )


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Limits and sampling of one answer.

    A Task overrides each by ``<impl>/<name>`` in its metadata.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; it is named.
    """

    max_tokens: int = 4096
    """The most tokens of one answer, reasoning included; an answer that reaches it is a failure."""
    temperature: float | None = None
    """None for the vendor's default; some models accept no other."""
    system: str | None = None
    """Text that the model gets before everything else."""
    tool_choice: str = "auto"
    """``auto``, ``none``, ``required``, or the name of the function that the first answer must
    call. Only the first answer is forced, because a model that must always call never ends."""

    def __post_init__(self) -> None:
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise InvalidValue("max_tokens", "must be a whole number of at least 1")
        temperature: Any = self.temperature
        if temperature is not None and (
            type(temperature) not in (int, float) or not 0 <= temperature <= 2
        ):
            raise InvalidValue("temperature", "must be a number from 0 to 2, or None")
        if self.system is not None and not isinstance(self.system, str):
            raise InvalidValue("system", "must be a string, or None")
        if not isinstance(self.tool_choice, str) or not self.tool_choice:
            raise InvalidValue("tool_choice", "must be auto, none, required, or a function's name")

    def accept(self, task: Task, impl: str) -> None:
        """Refuse a Task whose options, or whose images, are not valid.

        Raises:
            CannotStart: An option or an image is not valid; the message names it.
        """
        try:
            self.of(task, impl)
            images_of(task)
        except InvalidValue as error:
            raise CannotStart(str(error), task.id) from error

    def of(self, task: Task, impl: str) -> AnswerOptions:
        """These options with the overrides of the Task's metadata.

        Raises:
            InvalidValue: An option there is not valid; its key is named.
        """
        names = (field.name for field in fields(self))
        asked = {
            name: task.metadata[key] for name in names if (key := f"{impl}/{name}") in task.metadata
        }
        if not asked:
            return self
        try:
            return replace(self, **asked)
        except InvalidValue as error:
            key = f"{impl}/{error.path}"
            raise InvalidValue(f"Task.metadata[{key!r}]", error.reason) from None

    def choice(self, context: Context) -> str:
        """The `tool_choice` for this step."""
        if self.tool_choice in ("auto", "none"):
            return self.tool_choice
        answered = any(isinstance(entry, Turn) for entry in context.transcript)
        return "auto" if answered else self.tool_choice

    def most(self, context: Context, least: int = 1) -> int:
        """The most tokens of an answer at this step: `max_tokens`, or the rest of a limit if less.

        Args:
            least: The smallest number that the vendor takes.
        """
        left = context.remaining.output_tokens
        return self.max_tokens if left is None else max(min(self.max_tokens, left), least)
