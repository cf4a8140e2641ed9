"""RawResult: what a driver returned, before the firewall has looked at it."""

from __future__ import annotations

from typing import Any

import msgspec

from agentic_kernel_engine.edges import flag, text


class RawResult(msgspec.Struct, frozen=True):
    """The result of a driver. It reaches a model only through the firewall.

    Raises:
        InvalidValue: The driver or the source is no text, or `failed` no boolean.
    """

    value: Any
    """The result, of the forms of JSON."""
    driver: str
    """The name of the driver that answered."""
    source: str
    """The source of the data, e.g. the name of a server; taint names it."""
    failed: bool = False
    """True if it is the target's own answer that it failed."""

    def __post_init__(self) -> None:
        text(self.driver, "result.driver")
        text(self.source, "result.source")
        flag(self.failed, "result.failed")
