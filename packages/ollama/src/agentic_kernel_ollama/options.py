"""Options: those that ``/api/chat`` has of the options of an answer."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from agentic_kernel import InvalidValue
from agentic_kernel_engine.providers import AnswerOptions, present

LEVELS: Final = ("low", "medium", "high")
"""The levels of a model's thinking."""


class OllamaAnswers(AnswerOptions):
    """Answer options for an API that cannot force a call."""

    __slots__ = ()
    takes: ClassVar[tuple[str, ...]] = ("seed", "top_p", "stop", "effort")
    most_stops: ClassVar[int] = 16
    efforts: ClassVar[tuple[str, ...]] = LEVELS

    def __post_init__(self) -> None:
        AnswerOptions.__post_init__(self)
        if self.tool_choice not in ("auto", "none"):
            raise InvalidValue("tool_choice", "must be auto or none: Ollama cannot force a call")


def sampled(options: AnswerOptions) -> dict[str, Any]:
    """Return the model's options, by Ollama's names, for the options of an answer."""
    stops = list(options.stop or ()) or None
    return present(
        temperature=options.temperature, top_p=options.top_p, seed=options.seed, stop=stops
    )
