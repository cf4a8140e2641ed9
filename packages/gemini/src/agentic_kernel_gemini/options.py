"""Options: those that the Gemini API has of the options of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from agentic_kernel_engine.providers import AnswerOptions, check_once, present

LEVELS: Final = ("thinkingLevel", "thinkingBudget")
"""The fields of ``thinkingConfig`` that say how much a model thinks; a request has one of them."""


class GeminiOptions(AnswerOptions):
    """Answer options of the Gemini API."""

    __slots__ = ()
    takes: ClassVar[tuple[str, ...]] = ("seed", "top_p", "stop", "effort")
    most_stops: ClassVar[int] = 5
    efforts: ClassVar[tuple[str, ...]] = ("minimal", "low", "medium", "high", "xhigh")


def check_levels(options: AnswerOptions, thinking: Mapping[str, Any]) -> None:
    """Refuse an effort beside a ``thinkingConfig`` that says how much a model thinks.

    Raises:
        InvalidValue: Both say it.
    """
    check_once(options.effort, "effort", "thinking", thinking, *LEVELS)


def sampled(options: AnswerOptions, thinking: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of ``generationConfig`` for the options of an answer.

    Args:
        options: The options; an effort replaces that of ``thinking``.
        thinking: The planner's ``thinkingConfig``.
    """
    if options.effort is not None:
        kept = {name: value for name, value in (thinking or {}).items() if name not in LEVELS}
        thinking = {**kept, "thinkingLevel": options.effort}
    stops = list(options.stop or ()) or None
    return present(
        temperature=options.temperature, topP=options.top_p, seed=options.seed,
        stopSequences=stops, thinkingConfig=thinking,
    )  # fmt: skip
