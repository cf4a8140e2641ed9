"""Logs: one JSON object a line, on standard error, without secrets and without control characters.

    at, level, logger, message      always
    process                         the id of the process
    request                         the id of the request, inside of one
    trace                           the id of its trace, if the request named one
    error                           the traceback, on an exception

A field that a record carries as ``extra`` comes after these.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, TextIO

MAX_TEXT: Final = 8_000
"""The longest text of a record, in characters; the rest is cut off."""
REDACTED: Final = "[redacted]"
request_id: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""The id of the request that is being served; empty outside of one."""
trace_id: Final[ContextVar[str]] = ContextVar("trace_id", default="")
"""The trace of the request that is being served; empty without one."""

UNFINISHED: Final = "ASGI callable returned without completing response."
"""uvicorn's record about a response that ended early: the server cuts streams in this way."""
_SECRETS: Final = (
    # The server's own keys, other credentials of a header, and the password of a URL.
    re.compile(r"ak_[0-9a-f]{12}_[A-Za-z0-9_-]{1,100}"),
    re.compile(r"(?i)(?<=bearer )\s{0,8}[\x21-\x7e]{1,2000}"),
    re.compile(r"(?i)(?<=basic )\s{0,8}[A-Za-z0-9+/=]{8,2000}"),
    re.compile(r"(?<=://)[^\s:/@]{0,200}:[^\s/@]{1,500}(?=@)"),
)
_OWN: Final = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}
_log: Final = logging.getLogger("agentic_kernel_server")


def scrubbed(text: str) -> str:
    """A text without secrets that a log must not have, cut to `MAX_TEXT` characters."""
    text = text[: 2 * MAX_TEXT]
    for pattern in _SECRETS:
        text = pattern.sub(REDACTED, text)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


class JsonLines(logging.Formatter):
    """Formats each record as one line of JSON in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": scrubbed(_message(record)),
            "process": record.process,
        }
        if request := request_id.get():
            fields["request"] = request
        if trace := trace_id.get():
            fields["trace"] = trace
        for name, value in record.__dict__.items():
            if name not in _OWN and name not in fields:
                fields[name] = _plain(value)
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = scrubbed("".join(traceback.format_exception(record.exc_info[1])))
        elif record.exc_text:
            fields["error"] = scrubbed(record.exc_text)
        return json.dumps(fields, ensure_ascii=True)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # Arguments of another library that do not fit its format.
        return f"a record that cannot be formatted ({type(error).__name__})"


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {scrubbed(str(key)): _plain(each) for key, each in list(value.items())[:50]}
    return scrubbed(str(value))


def begin(level: str = "info", stream: TextIO | None = None) -> None:
    """Send the records of this process as lines of JSON to standard error.

    Records of other libraries are kept from a warning on, because theirs may hold headers and
    bodies. The server logs each request itself, so uvicorn's own record of it is dropped.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(_of_interest)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.getLevelNamesMapping()[level.upper()])
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        other = logging.getLogger(name)
        other.handlers[:] = []
        other.propagate = name != "uvicorn.access"
    logging.captureWarnings(True)
    # A record that cannot be formatted would be printed with its raw arguments.
    logging.raiseExceptions = False


def _of_interest(record: logging.LogRecord) -> bool:
    if record.name == "uvicorn.error" and record.msg == UNFINISHED:
        return False
    return record.levelno >= logging.WARNING or record.name.startswith("agentic_kernel")
