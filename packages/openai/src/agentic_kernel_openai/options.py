"""Options: those that each of OpenAI's two APIs has of the options of an answer."""

from __future__ import annotations

from typing import ClassVar, Final

from agentic_kernel_engine.providers import AnswerOptions

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The words of both APIs for an effort; each model knows some of them."""


class ResponsesOptions(AnswerOptions):
    """Answer options of the Responses API."""

    __slots__ = ()
    takes: ClassVar[tuple[str, ...]] = ("top_p", "effort")
    lacking: ClassVar[str] = 'is no option of the Responses API; leave it out, or use api="chat"'
    efforts: ClassVar[tuple[str, ...]] = EFFORTS


class ChatOptions(AnswerOptions):
    """Answer options of Chat Completions."""

    __slots__ = ()
    takes: ClassVar[tuple[str, ...]] = ("seed", "top_p", "stop", "effort")
    efforts: ClassVar[tuple[str, ...]] = EFFORTS
