"""Forecast: an upper bound of the tokens of a call, computed before the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ..inputs import DOCUMENTS, IMAGES
from ..plans.transcript import Transcript
from ..seams.planner import Context
from .offers import Function

HIDDEN: Final = 1_000
"""Tokens that a vendor may add of its own: the marks of messages, and the text that explains tools
to the model."""
IMAGE: Final = 16_000
"""Tokens that one image may take."""
DOCUMENT: Final = 1_000_000
"""Tokens that one document may take: its pages are not counted here. Under a limit the vendor's
counter tells less."""


def input_bound(context: Context, functions: Sequence[Function], told: str) -> int:
    """An upper bound of the tokens of a prompt.

    A token of the usual tokenizers stands for at least one byte of text, and the JSON form of a
    transcript is longer than its text by more than the marks around each message. Functions are
    counted twice: vendors show them to the model in a form of their own.

    Args:
        functions: The functions that the model is shown.
        told: The instructions beside the conversation.
    """
    transcript = context.transcript
    size = transcript.size if isinstance(transcript, Transcript) else _size(transcript)
    shown = sum(_size([each.name, each.description, each.schema]) for each in functions)
    answer = 0 if context.output_schema is None else _size(context.output_schema)
    images = context.task.metadata.get(IMAGES, ())
    pictures = IMAGE * len(images) if isinstance(images, Sequence) else 0
    documents = context.task.metadata.get(DOCUMENTS, ())
    pages = DOCUMENT * len(documents) if isinstance(documents, Sequence) else 0
    return size + 2 * (shown + answer) + len(told.encode()) + pictures + pages + HIDDEN


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))
