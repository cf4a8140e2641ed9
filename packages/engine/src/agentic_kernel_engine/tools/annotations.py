"""Annotations: the JSON Schemas of Python types, and the hooks that read and write pydantic models.

A model is known by its class, and only in a program that has imported pydantic. A hook raises
NotImplementedError for every other type: msgspec asks for that, and then says which type it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from agentic_kernel import InvalidValue

from ..values import decode

_REFERENCE: Final = "#/$defs/{model}"
_DROPPED: Final = {"pydantic": "a pydantic field", "annotated_types": "annotated_types"}
"""Modules whose bounds msgspec leaves out of a schema, and does not check."""


def output_schema(annotation: Any) -> dict[str, Any] | None:
    """The schema of a return annotation; None if it says nothing that can be checked."""
    try:
        hook = partial(modelled, mode="serialization")
        schema = msgspec.json.schema(annotation, schema_hook=hook)
    except Exception:
        return None
    return hoisted(schema, schema.pop("$defs", {})) if schema else None


def hoisted(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """The schema with one ``$defs`` at its root, where the references of every model lead."""
    definitions = dict(parts)
    stack: list[Any] = [schema, *parts.values()]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            inner = part.pop("$defs", None) if "$ref" in part or "properties" in part else None
            for name, each in (inner or {}).items():
                if definitions.setdefault(name, each) != each:
                    raise InvalidValue("schema", f"has two models called {name!r}; rename one")
                stack.append(each)
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    if definitions:
        schema["$defs"] = definitions
    copy: dict[str, Any] = decode(msgspec.json.encode(schema))
    return copy


def reason_of(error: Exception) -> str:
    """The reason why a type has no schema; the last line, because pydantic explains at length."""
    return str(error).splitlines()[-1] if str(error) else type(error).__name__


def check_bounds(annotation: Any, path: str) -> None:
    """Refuse bounds that msgspec does not know, also in the parts and fields of a type.

    Raises:
        InvalidValue: A part is annotated with them; the path names its field.
    """
    seen: list[Any] = []
    stack = [(annotation, path)]
    while stack:
        part, place = stack.pop()
        if get_origin(part) is Annotated:
            for each in part.__metadata__:
                found = _DROPPED.get(type(each).__module__.partition(".")[0])
                if found is not None:
                    raise InvalidValue(
                        place,
                        f"is annotated with {found}; use msgspec.Meta, or a pydantic model",
                    )
            stack.append((part.__origin__, place))
        elif get_origin(part) not in (None, Literal):
            stack += [(each, place) for each in (get_origin(part), *get_args(part))]
        elif hasattr(part, "__value__") or hasattr(part, "__supertype__"):
            # The name of a type, by `type` or by NewType.
            if part not in seen:
                seen.append(part)
                stack.append((getattr(part, "__value__", None) or part.__supertype__, place))
        elif isinstance(part, type) and not is_model(part) and part not in seen:
            seen.append(part)
            stack += [(each, f"{place}.{name}") for name, each in _fields(part).items()]


def _fields(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):  # msgspec has resolved all that it needs.
        return {}


def is_model(annotation: Any) -> bool:
    """True for a pydantic model; False for everything if the program did not import pydantic."""
    pydantic = sys.modules.get("pydantic")
    return (
        pydantic is not None
        and isinstance(annotation, type)
        and issubclass(annotation, pydantic.BaseModel)
    )


def several_models(annotation: Any) -> tuple[dict[str, Any], Callable[[Any], Any]] | None:
    """The schema and the conversion of a type with a union of pydantic models; None for others.

    msgspec knows no such union, and pydantic does, discriminated or not.
    """
    if not _unites(annotation):
        return None
    adapter = sys.modules["pydantic"].TypeAdapter(annotation)
    return adapter.json_schema(ref_template=_REFERENCE), adapter.validate_python


def _unites(annotation: Any) -> bool:
    parts = get_args(annotation)
    if get_origin(annotation) in (Union, UnionType) and sum(map(is_model, parts)) > 1:
        return True
    return any(map(_unites, parts))


def modelled(annotation: Any, mode: str = "validation") -> dict[str, Any]:
    if not is_model(annotation):
        raise NotImplementedError
    schema: dict[str, Any] = annotation.model_json_schema(ref_template=_REFERENCE, mode=mode)
    return schema


def decoded(annotation: Any, value: Any) -> Any:
    if not is_model(annotation):
        raise NotImplementedError
    return annotation.model_validate(value)


def dumped(value: Any) -> Any:
    if not is_model(type(value)):
        raise NotImplementedError
    return value.model_dump(mode="json")
