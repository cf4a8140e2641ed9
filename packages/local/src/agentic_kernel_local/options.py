"""AnswerOptions: limits and sampling of an answer, which a Task may override."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from agentic_kernel import InvalidValue
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

    max_tokens: int = 1024
    temperature: float | None = 0.0
    seed: int | None = None
    """Seed for a temperature above 0; random if None."""

    def __post_init__(self) -> None:
        providers.AnswerOptions.__post_init__(self)
        edges.whole(self.max_tokens, "max_tokens", 1, MOST_TOKENS)
        seed: Any = self.seed
        if seed is not None and (type(seed) is not int or not 0 <= seed < 2**32):
            raise InvalidValue("seed", "must be a whole number from 0 to 4294967295, or None")
        if self.system is not None:
            edges.text(self.system, "system")
