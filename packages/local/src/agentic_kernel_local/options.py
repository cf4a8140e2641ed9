"""AnswerOptions: limits and sampling of an answer, which a Task may override."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from agentic_kernel_engine import edges, providers

MOST_TOKENS: Final = 2**31 - 1
"""The most tokens that llama.cpp can count."""


@dataclass(frozen=True, slots=True)
class AnswerOptions(providers.AnswerOptions):
    """Limits and sampling of one answer; a Task overrides each by ``local/<name>`` in its metadata.

    ``temperature`` 0 takes the likeliest token each time; larger values vary more. Where two tokens
    are nearly equal, llama.cpp may take either, so an answer that goes on after a pause or a crash
    may end in other words than one that nothing interrupted.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
    """

    takes: ClassVar[tuple[str, ...]] = ("seed", "top_p", "stop")
    most_seed: ClassVar[int] = 2**32 - 1
    most_stops: ClassVar[int] = 16

    max_tokens: int | None = 1024
    """A model in this process needs a bound."""
    temperature: float | None = 0.0

    def __post_init__(self) -> None:
        providers.AnswerOptions.__post_init__(self)
        edges.whole(self.max_tokens, "max_tokens", 1, MOST_TOKENS)
        if self.system is not None:
            edges.text(self.system, "system")
