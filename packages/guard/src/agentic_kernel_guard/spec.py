"""CapabilitySpec: one operation that a Capability of the kernel names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agentic_kernel import Capability, InvalidValue
from agentic_kernel.frozen import freeze
from agentic_kernel_engine.edges import came
from agentic_kernel_engine.seams import compile_schema


class SafetyClass(str, Enum):
    """The effect of a call on the world."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


class Sensitivity(str, Enum):
    """The kind of data that a call may return."""

    NONE = "none"
    PII = "pii"
    PCI = "pci"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class CapabilitySpec:
    """One operation of one capability. The guard takes the operation from here, never from a call.

    Raises:
        InvalidValue: A field is wrong; the message names it.
    """

    name: str
    """Name of the kernel's `Capability`, ``<scope>/<name>``."""
    description: str
    """Text for a model: what the operation does."""
    operation: str
    """The operation of the driver, e.g. the name of a tool or a path of an API."""
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    """JSON Schema of the arguments."""
    result: Mapping[str, Any] | None = None
    """JSON Schema of the result, or None."""
    safety: SafetyClass = SafetyClass.DESTRUCTIVE
    """Without a word, a call counts as destructive."""
    idempotent: bool = False
    """True if a repeated call with the same arguments changes nothing more."""
    sensitivity: Sensitivity = Sensitivity.NONE
    allowed_fields: frozenset[str] | None = None
    """The fields of the result that a model may see; None for all. Sensitive data needs it."""
    sensitive_fields: frozenset[str] = frozenset()
    """Fields whose values are always replaced."""
    tags: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "name", Capability(self.name).name)
        for word in ("description", "operation"):
            _text(getattr(self, word), word)
        put(self, "safety", _member(SafetyClass, self.safety, "safety"))
        put(self, "sensitivity", _member(Sensitivity, self.sensitivity, "sensitivity"))
        if not isinstance(self.idempotent, bool):
            raise InvalidValue("spec.idempotent", "use True or False")
        for word in ("allowed_fields", "sensitive_fields", "tags"):
            given = getattr(self, word)
            if given is not None or word != "allowed_fields":
                put(self, word, _names(given, word))
        if self.sensitivity is not Sensitivity.NONE and self.allowed_fields is None:
            raise InvalidValue(
                "spec.allowed_fields",
                f"is None, but the data of {self.name} is {self.sensitivity.value}; list the "
                "fields that a model may see, or give an empty set",
            )
        for word in ("arguments", "result"):
            schema = getattr(self, word)
            if not isinstance(schema, Mapping) and not (word == "result" and schema is None):
                raise InvalidValue(f"spec.{word}", f"is {came(schema)}; give a JSON Schema")
        put(self, "arguments", freeze(dict(self.arguments), "spec.arguments"))
        compile_schema(self.arguments)
        if self.result is not None:
            put(self, "result", freeze(dict(self.result), "spec.result"))
            compile_schema(self.result)

    @property
    def repeatable(self) -> bool:
        """True if a second call changes nothing that the first one did not."""
        return self.idempotent or self.safety is SafetyClass.READ


def _text(value: object, word: str) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > 10_000:
        raise InvalidValue(f"spec.{word}", "must be a text of 1 to 10,000 characters")


def _member(kind: type[Any], value: object, word: str) -> Any:
    try:
        return kind(value)
    except (ValueError, TypeError):
        known = ", ".join(each.value for each in kind)
        raise InvalidValue(f"spec.{word}", f"use one of {known}") from None


def _names(value: object, word: str) -> frozenset[str]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidValue(f"spec.{word}", "must be a set of texts")
    names = frozenset(value)
    if not all(isinstance(name, str) and 0 < len(name) <= 256 for name in names):
        raise InvalidValue(f"spec.{word}", "must be texts of 1 to 256 characters")
    return names
