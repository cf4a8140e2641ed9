"""Logs: removes keys and secret headers from the logs of a vendor's SDK and its HTTP library.

These libraries log the headers of requests and responses if a program turns debugging on.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from .secrets import REDACTED, is_secret, known

_NAME: Final = re.compile(r"(['\"])([A-Za-z0-9_-]{1,100})\1(?:, |: )b?(['\"])")
"""The name of a header in the text of a pair or of a mapping, up to its value."""
_REST: Final = {
    quote: re.compile(rf"(?:\\.|[^\\{quote}])*+", re.DOTALL) for quote in ("'", '"')
}  # The repetition does not backtrack, so a value is read once.


class Mask(logging.Filter):
    """Logging filter that masks records; see `masked`."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
        except Exception:
            return True  # The handler reports it.
        shown = masked(said)
        if shown != said:
            record.msg, record.args = shown, ()
        return True


def masked(text: str) -> str:
    """The text without the values of secret headers, and without the keys in `known`."""
    parts: list[str] = []
    told = at = 0
    while (name := _NAME.search(text, at)) is not None:
        at = name.end()
        if is_secret(name[2]):
            value = _REST[name[3]].match(text, at)
            parts += text[told:at], REDACTED
            told = at = at if value is None else value.end()
    parts.append(text[told:])
    text = "".join(parts)
    for secrets in known:
        text = secrets.clean(text)
    return text


def mask(*libraries: str) -> None:
    """Mask the log records of these libraries, for every handler; idempotent.

    Args:
        libraries: Names of packages that are imported already.
    """
    begun = tuple(f"{library}." for library in libraries)
    names = {name for name in logging.Logger.manager.loggerDict if name.startswith(begun)}
    for name in names.union(libraries):
        logging.getLogger(name).addFilter(_MASK)


_MASK: Final = Mask()
