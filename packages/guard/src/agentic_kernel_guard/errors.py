"""The root of the guard's errors. Each error stands beside what raises it."""

from __future__ import annotations

from agentic_kernel import KernelError


class GuardError(KernelError):
    """Root of every error that the guard raises on purpose.

    Attributes:
        code: ``guard/<code>``, for programs.
        message: Text for people: what was refused, and the remedy.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(code, message)

    def __str__(self) -> str:
        return self.message
