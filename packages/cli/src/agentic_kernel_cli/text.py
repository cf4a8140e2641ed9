"""Text that came from elsewhere, made safe to show.

Ids, errors and summaries are labels: one line, nothing that moves a cursor or turns the reading
order. A model's text is content: newlines and tabs stay, other control characters go.
"""

from __future__ import annotations

import re

from agentic_kernel import InvalidValue

_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
_SPAN = re.compile(r"([0-9]{1,5})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def label(text: str, width: int | None = None) -> str:
    """One line without control, formatting or bidirectional characters; those are shown escaped.

    Args:
        width: Cut to this many characters, the last of them an ellipsis.
    """
    if width is not None and len(text) > width:
        text = text[: width - 1] + "…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def content(text: str) -> str:
    """A model's text without the control characters that could drive a terminal."""
    return text.translate(_CONTROLS)


def seconds(span: str) -> int:
    """How many seconds ``90s``, ``45m``, ``12h``, ``30d`` or ``2w`` are.

    Raises:
        InvalidValue: Not such a span.
    """
    found = _SPAN.fullmatch(span)
    if found is None:
        raise InvalidValue(
            "--older-than", f"{ascii(span)[:40]} is not a number with s, m, h, d or w, as 30d"
        )
    return int(found[1]) * _SECONDS[found[2]]
