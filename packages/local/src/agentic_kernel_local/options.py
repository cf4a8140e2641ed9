"""AnswerOptions: limits and sampling of an answer; the runtime's defaults, and a Task's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import Limits, edges
from agentic_kernel_engine.inputs import Inputs

_SCOPE = "local/"
MOST_TOKENS: Final = 2**31 - 1
"""The most tokens that llama.cpp can count."""


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Limits and sampling of one answer; a Task overrides each by ``local/<name>`` in its metadata.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
    """

    max_tokens: int = 512
    """The most tokens of one answer. An answer that reaches the limit is cut off: a success for
    `LocalSubstrate`, a failure for `LocalPlanner`."""
    temperature: float = 0.0
    """0 takes the likeliest token each time; larger values vary more. Where two tokens are nearly
    equal, llama.cpp may take either, so an answer that goes on after a pause or a crash may end in
    other words than one that nothing interrupted."""
    seed: int | None = None
    """Seed for a temperature above 0; random if None."""
    system: str | None = None
    """The system text before the instructions."""

    def __post_init__(self) -> None:
        _check(self)

    def of(self, task: Task) -> AnswerOptions:
        """Return these options, overridden by the Task's metadata.

        Raises:
            InvalidValue: A ``local/…`` option is not valid; the error names its key.
        """
        asked = {
            name: task.metadata[_SCOPE + name]
            for name in AnswerOptions.__slots__
            if _SCOPE + name in task.metadata
        }
        try:
            return replace(self, **asked)
        except InvalidValue as error:
            raise InvalidValue(f"Task.metadata[{_SCOPE + error.path!r}]", error.reason) from None

    def accept(self, task: Task, inputs: Inputs) -> None:
        """Refuse a Task with an input that is not taken, or with an option that is not valid.

        Raises:
            CannotStart: The error names the input.
        """
        inputs.check(task)
        try:
            self.of(task)
        except InvalidValue as error:
            raise CannotStart(str(error), task.id) from error


_NAMES: Final = tuple(AnswerOptions.__slots__)
INPUTS: Final = Inputs(scope="local", options=_NAMES)
"""The inputs that `LocalSubstrate` takes."""
PLANNER_INPUTS: Final = Inputs(
    scope="local",
    options=_NAMES,
    agent=True,
    session=True,
    continues=True,
    limits=Limits.__struct_fields__,
    tools=True,
    agents=True,
    schema=True,
)
"""The inputs that a `Loop` with a `LocalPlanner` takes."""


def of_answers(answer: AnswerOptions | None) -> AnswerOptions:
    """Return the options that a constructor was given, or the default ones.

    Raises:
        InvalidValue: The value is neither `AnswerOptions` nor None.
    """
    if answer is None:
        return AnswerOptions()
    if not isinstance(answer, AnswerOptions):
        raise InvalidValue("answer", f"is {edges.came(answer)}; give AnswerOptions, or None")
    return answer


def _check(options: AnswerOptions) -> None:
    edges.whole(options.max_tokens, "max_tokens", 1, MOST_TOKENS)
    temperature: Any = options.temperature
    if type(temperature) not in (int, float) or not 0 <= temperature <= 2:
        raise InvalidValue("temperature", "must be a number from 0 to 2")
    seed: Any = options.seed
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**32):
        raise InvalidValue("seed", "must be a whole number from 0 to 4294967295, or None")
    if options.system is not None:
        edges.text(options.system, "system")
