"""Signature: the description of a tool, read from a typed function.

The annotations give the schemas, the docstring gives the descriptions, and an argument whose
parameter has a default may be left out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Annotated, Any, NotRequired, Required, TypedDict, get_args, get_origin
from typing import get_type_hints as hints_of

import msgspec

from agentic_kernel import InvalidValue

from .. import edges
from ..size import check_size, parts_of_mapping
from .annotations import (
    check_bounds,
    decoded,
    dumped,
    hoisted,
    is_model,
    modelled,
    output_schema,
    reason_of,
)


class Signature:
    """The schemas and descriptions that were read from a function.

    Raises:
        InvalidValue: A parameter has no annotation, or one that has no JSON form; it is named.
    """

    __slots__ = ("arguments", "context", "description", "input_schema", "output_schema")

    def __init__(self, function: Callable[..., Any], context: type) -> None:
        """Read a function.

        Args:
            function: Any callable with annotations.
            context: Annotation of the parameter that gets the context. It is not an argument.
        """
        if not callable(function):
            raise InvalidValue("function", f"is {edges.came(function)}; give a tool or a function")
        where = getattr(function, "__name__", type(function).__name__)
        if any(map(_is_generator, (function, getattr(function, "__call__", None)))):  # noqa: B004
            raise InvalidValue(
                where, "is a generator function, and a tool returns one value; return a list"
            )
        hints = _hints(function, where)
        self.context = ""
        """The parameter that receives the context; "" if none does."""
        self.description, explained = described(inspect.getdoc(function) or "")
        types: dict[str, Any] = {}
        texts: dict[str, str] = {}
        defaults: dict[str, Any] = {}
        for name, parameter in _parameters(function, where):
            path = f"{where}({name})"
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise InvalidValue(path, "is not passed by name; use parameters that can be")
            if name not in hints:
                raise InvalidValue(path, "has no annotation; the schema is made from it")
            if hints[name] is context:
                self.context = name
                continue
            _one_schema(hints[name], path)
            texts[name] = _text(hints[name]) or explained.get(name, "")
            if parameter.default is parameter.empty:
                types[name] = Required[hints[name]]
            else:
                types[name] = NotRequired[hints[name]]
                defaults[name] = parameter.default
        # A TypedDict, because any name may be a key, and an argument that is left out stays out,
        # so that the function's own default holds.
        arguments = TypedDict("Arguments", types)  # type: ignore[misc]
        self.arguments = msgspec.json.Decoder(arguments, dec_hook=decoded).decode
        """Decodes the JSON text of the arguments into the function's arguments."""
        self.input_schema = _object_schema(arguments, texts, defaults)
        self.output_schema = output_schema(hints.get("return", Any))


def described(doc: str) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring in Google's style, and its ``Args`` by name."""
    summary = " ".join(doc.split("\n\n", 1)[0].split())
    explained: dict[str, str] = {}
    lines = iter(doc.splitlines())
    indent = name = ""
    for line in lines:
        if line.strip() in ("Args:", "Arguments:"):
            break
    for line in lines:
        if not line.strip():
            continue
        if not line[0].isspace():
            break
        found = re.match(r"(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)", line)
        if found is not None and found[1] == (indent or found[1]):
            indent, name = found[1], found[2]
            explained[name] = found[3]
        elif name:
            explained[name] = f"{explained[name]} {line.strip()}".strip()
    return summary, explained


def plain(value: Any, path: str = "value") -> Any:
    """The JSON form of a dataclass, an enum, a model or any other value that has one.

    Its size is counted before it is made. Keys become texts; two keys that become the same text
    are refused.

    Raises:
        InvalidValue: It would be too large or too deep, the value holds itself, or two keys of a
            part become the same text.
        Exception: The value has no JSON form, or making it failed.
    """
    check_size(value, path, lambda part: _parts(part, path))
    return msgspec.to_builtins(value, str_keys=True, enc_hook=dumped)


def _parts(value: Any, path: str) -> Iterable[Any] | None:
    """The parts of a value's JSON form; None for a value without parts."""
    kind = type(value)
    if isinstance(value, Mapping):
        if not all(type(key) is str for key in value):
            _refuse_same_keys(value, path)
        return parts_of_mapping(value)
    if isinstance(value, (list, tuple, Set)):
        return value
    fields = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    if fields is None and hasattr(kind, "__attrs_attrs__"):
        fields = [each.name for each in kind.__attrs_attrs__]
    if fields is not None:
        return [getattr(value, name, None) for name in fields]
    if is_model(kind):
        return [*vars(value).values(), *(value.model_extra or {}).values()]
    return None


def _refuse_same_keys(value: Mapping[Any, Any], path: str) -> None:
    """Refuse two keys with the same text; `msgspec` itself refuses a key without a text."""
    texts: dict[str, Any] = {}
    for key in value:
        (text,) = msgspec.to_builtins({key: None}, str_keys=True, enc_hook=dumped)
        if text in texts:
            raise InvalidValue(
                path,
                f"has the keys {edges.came(texts[text])} and {edges.came(key)}, which are the same "
                "text as JSON; use strings that differ",
            )
        texts[text] = key


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    target = inspect.unwrap(function)
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return hints_of(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise InvalidValue(
            where, f"has an annotation that cannot be resolved: {error}; define it at module level"
        ) from error


def _parameters(
    function: Callable[..., Any], where: str
) -> Iterable[tuple[str, inspect.Parameter]]:
    try:
        return inspect.signature(function).parameters.items()
    except (TypeError, ValueError) as error:  # Some builtins have none.
        raise InvalidValue(
            where, f"has no signature ({edges.came(str(error))}); wrap it in a typed function"
        ) from error


def _one_schema(annotation: Any, path: str) -> None:
    try:
        msgspec.json.schema(annotation, schema_hook=modelled)
    except Exception as error:
        raise InvalidValue(
            path,
            f"has an annotation without a JSON form ({reason_of(error)}); use a raw schema instead",
        ) from error
    check_bounds(annotation, path)


def _text(annotation: Any) -> str:
    """The description in an ``Annotated``."""
    if get_origin(annotation) is not Annotated:
        return ""
    text = ""
    for each in get_args(annotation)[1:]:
        if isinstance(each, str):
            text = each
        elif isinstance(each, msgspec.Meta):
            text = each.description or text
    return text


def _object_schema(
    arguments: Any, texts: dict[str, str], defaults: dict[str, Any]
) -> dict[str, Any]:
    (_,), parts = msgspec.json.schema_components((arguments,), schema_hook=modelled)
    own = parts.pop("Arguments")
    properties = own.get("properties", {})
    for name, part in properties.items():
        if texts[name]:
            # This may stand beside a reference; the model behind it keeps its own description.
            properties[name] = part = {**part, "description": texts[name]}
        if name in defaults:
            try:
                part["default"] = plain(defaults[name])
            except Exception:  # A default without a JSON form is not shown in the schema.
                continue
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if own.get("required"):
        schema["required"] = own["required"]
    schema["additionalProperties"] = False
    return hoisted(schema, parts)


def _is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
