"""The ports of a Guard: what shows results, and what carries calls out. The caller brings both."""

from __future__ import annotations

from typing import Any, Protocol

from .drivers import DriverCall
from .firewall import Frame, FrameLimits, RawResult, ResponseMode


class Redacts(Protocol):
    """Replaces secrets and personal data."""

    def text(self, text: str) -> tuple[str, int]:
        """The text without them, and how many parts were replaced."""
        ...

    def value(self, value: Any) -> tuple[Any, int]:
        """The value without them, and how many parts were replaced."""
        ...


class Shows(Protocol):
    """Makes what a model may see of a result."""

    @property
    def redactor(self) -> Redacts:
        """The redaction of the trace."""
        ...

    def check(self, mode: object, constraints: FrameLimits) -> None:
        """Refuse a mode that is not known or not allowed, before the call is made."""
        ...

    def hides(self, field: str, constraints: FrameLimits) -> bool:
        """True if the values of a field of the rows are not shown."""
        ...

    def frame(
        self, raw: RawResult, *, mode: ResponseMode, constraints: FrameLimits, handle: str | None
    ) -> Frame:
        """The frame of a result; an error if the mode is not allowed."""
        ...

    def select(
        self, value: Any, *, fields: Any, equals: Any, offset: int, limit: int | None
    ) -> Any:
        """A part of a kept result."""
        ...


class Routes(Protocol):
    """Carries calls out."""

    async def run(self, call: DriverCall, idempotent: bool) -> RawResult:
        """Carry a call out; `NoEffect` if it certainly had none."""
        ...
