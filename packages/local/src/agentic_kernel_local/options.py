"""How an answer is to be generated: the runtime's defaults, and what one Task asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine import edges

_SCOPE = "local/"
MOST_TOKENS: Final = 2**31 - 1
"""How many tokens llama.cpp can count."""


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Limits and sampling of one answer; a Task overrides each by ``local/<name>`` in its metadata.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; it is named.
    """

    max_tokens: int = 512
    """Tokens of one answer at most. An answer that reaches it is cut, and a success."""
    temperature: float = 0.0
    """0 takes the likeliest token each time, so that an answer continued after a pause or a
    crash is the answer it would have been; larger values vary more."""
    seed: int | None = None
    """For a temperature above 0; random if None."""
    system: str | None = None
    """What the model is told before the instructions."""

    def __post_init__(self) -> None:
        _check(self)

    def of(self, task: Task) -> AnswerOptions:
        """These options with what the Task's metadata asks for.

        Raises:
            InvalidValue: A ``local/…`` option is not valid; its key is named.
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


def of_answers(answer: AnswerOptions | None) -> AnswerOptions:
    """The options that a constructor was given, or the default ones.

    Raises:
        InvalidValue: It was given something else.
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
