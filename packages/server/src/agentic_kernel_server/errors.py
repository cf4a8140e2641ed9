"""Refused: an answer of the server that is an error, with the wire's code and HTTP status."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal

from agentic_kernel import CannotStart, KernelError
from agentic_kernel_engine import HostClosed
from agentic_kernel_engine.errors import HostGone
from agentic_kernel_engine.faults import said

_log = logging.getLogger(__name__)
Code = Literal[
    "NOT_FOUND",
    "CONFLICT",
    "VALIDATION_ERROR",
    "FORBIDDEN",
    "UNAUTHORIZED",
    "RATE_LIMITED",
    "SERVICE_UNAVAILABLE",
]
STATUS: Final[Mapping[str, int]] = {
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "VALIDATION_ERROR": 400,
    "FORBIDDEN": 403,
    "UNAUTHORIZED": 401,
    "RATE_LIMITED": 429,
    "SERVICE_UNAVAILABLE": 503,
}
"""The HTTP status of each code."""


class Refused(KernelError):
    """The server refuses a request.

    Attributes:
        code: One of the wire's codes, for programs.
        message: Text for people.
        details: More for programs, as JSON.
        retry_after: Seconds after which the request may succeed, for RATE_LIMITED.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: float | None = None,
    ) -> None:
        self.code: Code = code
        self.message = message
        self.details = details
        self.retry_after = retry_after
        super().__init__(code, message, details)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.code]

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        return {"error": self.message, "code": self.code, "details": dict(self.details or {})}


def not_found(what: str, id: str) -> Refused:
    """The answer about a thing that does not exist, or that belongs to another tenant."""
    return Refused("NOT_FOUND", f"{what} {id[:200]!r} does not exist")


def unavailable(fault: KernelError, what: str = "a request") -> Refused:
    """The answer to a request that the store, or the end of this process, left undone.

    The fault is for the log alone: it may name the place of the store and the Hosts.

    Args:
        what: Names the request in the log.
    """
    _log.warning("%s: %s", what, said(fault))
    if isinstance(fault, (CannotStart, HostClosed, HostGone)):
        return Refused("SERVICE_UNAVAILABLE", "the server is stopping; use another one")
    return Refused("SERVICE_UNAVAILABLE", "the store does not answer; try again")
