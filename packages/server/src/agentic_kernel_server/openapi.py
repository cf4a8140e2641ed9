"""The OpenAPI document of the wire, made from the table of calls and the types of their bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .caller import SCOPES
from .descriptions import FIELDS, HEADS, SCOPES_OF, described
from .errors import STATUS
from .routes import ROUTES, Operation
from .wire import ErrorBody, StatusAnswer

PATH: Final = "/v0/openapi.json"
METRICS: Final = "/metrics"
REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{([a-z_]+)(?::[a-z]+)?\}")
_ABOUT: Final = re.compile(r"(execution|runner|step)s/\{")
_KEY: Final = "key"
_OPEN: Final[Sequence[tuple[str, str]]] = (
    ("/v0/health", "Says that the process lives."),
    ("/v0/ready", "Says if the process takes work; 503 while the store is away or it stops."),
)


@cache
def document() -> bytes:
    """The document, as JSON."""
    types = [each for call in ROUTES for each in (call.body, call.answer) if each is not None]
    _, bare = msgspec.json.schema_components([*types, ErrorBody, StatusAnswer], ref_template=REF)
    schemas = {name: described(name, schema) for name, schema in bare.items()}
    paths: dict[str, dict[str, Any]] = {}
    for call in ROUTES:
        there = paths.setdefault(_PARAMETER.sub(r"{\1}", call.path), {})
        there[call.method.lower()] = _operation(call)
    for path, summary in _OPEN:
        answers = _answers(200, _content(StatusAnswer), ("SERVICE_UNAVAILABLE",))
        paths[path] = {"get": {"summary": summary, "responses": answers, "security": []}}
    paths[METRICS] = {
        "get": {
            "summary": "The figures of all tenants, for Prometheus.",
            "description": "Needs the scope `metrics`.",
            "responses": _answers(
                200, {"text/plain": {"schema": {"type": "string"}}}, ("UNAUTHORIZED", "FORBIDDEN")
            ),
        }
    }
    paths[PATH] = {
        "get": {
            "summary": "This document.",
            "responses": _answers(200, _content(None), ()),
            "security": [],
        }
    }
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "AgenticKernel server",
            "version": version("agentic-kernel-server"),
            "description": "Executions, agents and runners over HTTP and server-sent events.",
        },
        "security": [{_KEY: []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                _KEY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": f"An API key, with scopes of {', '.join(SCOPES)}. A server on "
                    "a loopback address may run without keys.",
                }
            },
        },
    }
    return msgspec.json.encode(whole)


def routes() -> Sequence[Route]:
    """The route of the document; it says nothing about a tenant, so it needs no credential."""

    async def show(request: Request) -> Response:
        return Response(document(), media_type="application/json")

    return [Route(PATH, show, methods=["GET"])]


def _operation(call: Operation) -> dict[str, Any]:
    codes = ["VALIDATION_ERROR", "UNAUTHORIZED", "RATE_LIMITED", "SERVICE_UNAVAILABLE"]
    codes += ["FORBIDDEN", "NOT_FOUND", "CONFLICT"]
    made: dict[str, Any] = {
        "summary": call.summary,
        "operationId": _name(call),
        "description": SCOPES_OF.get(call.path, f"Needs the scope `{call.scope}`."),
        "parameters": [
            *_in_path(call.path),
            *_in_query(call.query),
            *([HEADS[call.method, call.path]] if (call.method, call.path) in HEADS else []),
        ],
        "responses": _answers(
            call.status,
            {"text/event-stream": {}} if call.streams else _content(call.answer),
            codes,
        ),
    }
    if call.body is not None:
        made["requestBody"] = {"required": True, "content": _content(call.body)}
    return made


def _name(call: Operation) -> str:
    words = re.findall(r"[a-z]+", _PARAMETER.sub("", call.path.removeprefix("/v0")))
    return "_".join([call.method.lower(), *words, *(["one"] if call.path.endswith("}") else [])])


def _answers(
    status: int, content: Mapping[str, Any], codes: Iterable[str]
) -> dict[str, dict[str, Any]]:
    answers: dict[str, dict[str, Any]] = {
        str(status): {"description": "The answer.", "content": content}
    }
    for code in codes:
        answer: dict[str, Any] = {"description": code, "content": _content(ErrorBody)}
        if code == "RATE_LIMITED":
            answer["headers"] = {
                "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}
            }
        answers[str(STATUS[code])] = answer
    return answers


def _content(kind: Any) -> dict[str, Any]:
    if kind is None:
        return {"application/json": {}}
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REF)
    return {"application/json": {"schema": schema}}


def _in_path(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": f"The id of the {_ABOUT.findall(path)[-1]}.",
            "schema": {"type": "string"},
        }
        for name in _PARAMETER.findall(path)
    ]


def _in_query(query: type[Any] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    _, schemas = msgspec.json.schema_components([query], ref_template=REF)
    schema = schemas[query.__name__]
    required = schema.get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": FIELDS.get(name, ""),
            "schema": each,
        }
        for name, each in schema["properties"].items()
    ]
