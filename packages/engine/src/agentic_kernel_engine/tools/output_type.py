"""OutputType: the Python type that a final answer becomes, and the JSON Schema of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar, cast, get_origin

import msgspec

from agentic_kernel import InvalidValue

from .. import edges
from ..values import decode, encode
from .annotations import check_bounds, decoded, hoisted, modelled, reason_of, several_models

T = TypeVar("T")
LONGEST: Final = 2_000
"""The most characters of a message about a value that does not become the type."""
_UNFIT: Final = (ValueError, AssertionError, msgspec.MsgspecError)
"""The exceptions that refuse an answer; pydantic's ValidationError is a ValueError."""
_OWN: Final = "#/$defs/"


class OutputType(Generic[T]):
    """A pydantic model, a dataclass, a TypedDict, or another type with a JSON form.

    ``str`` needs no schema: the answer is text, and the model is asked for nothing else.

    Raises:
        InvalidValue: The type has no JSON form; the message says why.
    """

    __slots__ = ("_decode", "kind", "schema")

    def __init__(self, kind: type[T], path: str = "output_type") -> None:
        self.kind = kind
        self.schema: dict[str, Any] | None
        """The JSON Schema of the answers; None for ``str``."""
        self._decode: Callable[[bytes], T]
        adapted = several_models(kind)
        if adapted is not None:
            schema, convert = adapted
            self.schema = _closed(_rooted(schema))
            self._decode = lambda text: cast("T", convert(msgspec.json.decode(text)))
        else:
            self.schema = None if kind is str else _schema(kind, path)
            self._decode = msgspec.json.Decoder(kind, dec_hook=decoded).decode

    def of(self, answer: Any) -> T:
        """The answer as a value of the type.

        A ValueError or an AssertionError of a validator says that the answer is wrong. Any other
        exception of a validator is a bug in it, and is passed on.

        Raises:
            InvalidValue: The answer does not become the type; the message says why.
        """
        try:
            return self._decode(encode(answer, "result"))
        except InvalidValue:
            raise
        except _UNFIT as error:
            # msgspec hides a TypeError of a validator in its own error.
            if isinstance(error.__cause__, Exception) and not isinstance(error.__cause__, _UNFIT):
                raise error.__cause__ from None
            reason = str(error)[:LONGEST] or type(error).__name__
            name = getattr(self.kind, "__name__", str(self.kind))
            raise InvalidValue("result", f"is not a {name}: {reason}") from error

    def problem(self, answer: Any) -> str | None:
        """The reason why the answer does not become the type; None if it does."""
        try:
            self.of(answer)
        except InvalidValue as error:
            return str(error)
        return None


def _schema(kind: Any, path: str) -> dict[str, Any]:
    if not (isinstance(kind, type) or get_origin(kind) is not None or hasattr(kind, "__args__")):
        raise InvalidValue(
            path, f"is {edges.came(kind)}; give a type, e.g. a dataclass or a pydantic model"
        )
    try:
        schema = msgspec.json.schema(kind, schema_hook=modelled)
    except Exception as error:
        raise InvalidValue(
            path,
            f"has no JSON form ({reason_of(error)}); use a type that has one, or give the runtime "
            "output_schema= when it is made",
        ) from error
    check_bounds(kind, path)
    return _closed(_rooted(hoisted(schema, schema.pop("$defs", {}))))


def _rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its object at the root, where servers want it, and not behind a reference."""
    reference = schema.get("$ref")
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    if not isinstance(reference, str) or not reference.startswith(_OWN):
        return schema
    name = reference.removeprefix(_OWN)
    root: dict[str, Any] = decode(encode(definitions[name], "schema"))
    rest = {each: part for each, part in definitions.items() if each != name}
    if f'"{reference}"'.encode() in encode([root, rest], "schema"):  # It holds itself.
        rest[name] = definitions[name]
    return {**root, "$defs": rest} if rest else root


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema whose objects have no other fields than the type's: servers can hold a model to
    such a schema while it writes."""
    stack: list[Any] = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if part.get("type") == "object" and isinstance(part.get("properties"), dict):
                part.setdefault("additionalProperties", False)
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    return schema
