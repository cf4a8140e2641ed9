"""Driver: the port to what carries calls out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import came, function, instance, seconds, text

from ..errors import GuardError
from ..firewall.raw import RawResult

_TEXT: Final = frozenset({str})


class NoEffect(GuardError):
    """Raised by a driver if its call certainly had no effect, e.g. because it was never sent.

    The router may then try the next driver. Any other error may have had an effect. A model reads
    the message: it is redacted, and counts as text of the driver's source.

    Attributes:
        source: The source of the message; the router sets it.
    """

    def __init__(self, message: str, code: str = "guard/no_effect") -> None:
        self.source = ""
        super().__init__(code, message)


class Indeterminate(GuardError):
    """A call failed and may have had an effect. It is not repeated: a person has to look."""

    def __init__(self, message: str, code: str = "guard/indeterminate") -> None:
        super().__init__(code, message)


Progress = Callable[[float, float | None], None]
"""Takes how far a call is, and how far it will go if that is known. A text would be a way around
the firewall."""


class DriverCall(msgspec.Struct, frozen=True):
    """One call that the guard has allowed.

    Raises:
        InvalidValue: A field is of another type.
    """

    capability: str
    operation: str
    """The operation of the capability's spec. It never comes from the arguments."""
    arguments: Mapping[str, Any]
    key: str
    """Id of the action; the same action has the same key, so a server can drop a repetition."""
    constraints: Mapping[str, Any] = msgspec.field(default_factory=dict)
    timeout: float = 30.0
    """The most seconds that the call may take."""
    principal: Principal = msgspec.field(default_factory=Principal)
    """The principal for whom the call is made, as it was resolved."""
    task: str = ""
    """The id of the Task that the token is bound to; empty for none."""
    progress: Progress | None = None
    """Takes reports of progress; None if no caller listens."""

    def __post_init__(self) -> None:
        texts = (self.capability, self.operation, self.key, self.task)
        if not _TEXT.issuperset(map(type, texts)):
            for name, given in zip(("capability", "operation", "key", "task"), texts, strict=True):
                text(given, f"call.{name}")
        for name, each in (("arguments", self.arguments), ("constraints", self.constraints)):
            if type(each) is not dict and not isinstance(each, Mapping):
                raise InvalidValue(f"call.{name}", f"is {came(each)}; give a mapping by name")
        seconds(self.timeout, "call.timeout")
        instance(self.principal, "call.principal", Principal)
        if self.progress is not None:
            function(self.progress, "call.progress")


class Driver(Protocol):
    """Carries calls out: functions, an HTTP API, a registry of tools."""

    @property
    def name(self) -> str:
        """Name of the driver, for traces and errors.

        Its errors count as text of the source that its attribute ``source`` names, if it has one,
        and else of its name.
        """
        ...

    async def call(self, call: DriverCall) -> RawResult:
        """Carry one call out, once.

        Raises:
            NoEffect: The call certainly had no effect.
            Exception: The call failed and may have had an effect.
        """
        ...
