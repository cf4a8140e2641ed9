"""Options: those that the Messages API has of the options of an answer."""

from __future__ import annotations

from typing import Any, ClassVar

from agentic_kernel_engine.providers import AnswerOptions, present


class MessagesOptions(AnswerOptions):
    """Answer options of the Messages API."""

    __slots__ = ()
    takes: ClassVar[tuple[str, ...]] = ("top_p", "stop", "effort")
    most_stops: ClassVar[int] = 16
    efforts: ClassVar[tuple[str, ...]] = ("low", "medium", "high", "xhigh", "max")


def sampled(options: AnswerOptions) -> dict[str, Any]:
    """Return the fields of a request that its SDK has no argument for, or only some models take."""
    stops = list(options.stop or ()) or None
    return present(temperature=options.temperature, top_p=options.top_p, stop_sequences=stops)
