"""Operation: one call of the wire, and the code that every call shares."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agentic_kernel import InvalidValue

from ..caller import Caller
from ..errors import Refused
from ..observing.requests import NAMED
from ..wire import Execution, check_body

if TYPE_CHECKING:
    from ..server import Server

_PLACES: Final = {
    "/v0/executions/": "execution",
    "/v0/runners/steps/": "step",
    "/v0/runners/": "runner",
}
"""The names of what a path is about, by its start; the first that fits."""
_IDS: Final = {
    "execution_id": "execution",
    "agent_id": "agent",
    "runner_id": "runner",
    "step_id": "step",
    "consumer_id": "consumer",
}
"""The fields of a query and a body that name what a request is about."""
_encode = msgspec.json.Encoder().encode


class Asked(msgspec.Struct):
    """One call: its caller, its path, its query and its body, all checked."""

    server: Any
    caller: Caller
    path: Mapping[str, str]
    query: Any
    body: Any
    headers: Mapping[str, str]


Handler = Callable[[Asked], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True):
    """One call of the wire."""

    method: str
    path: str
    scope: str
    """The scope that the credential needs; empty if every credential may make the call."""
    summary: str
    handler: Handler
    body: type[Any] | None = None
    query: type[Any] | None = None
    answer: Any = None
    """The type of the answer; None for a stream."""
    status: int = 200
    streams: bool = False

    async def __call__(self, server: Server, request: Request) -> Any:
        """Check the call, carry it out, and answer.

        Raises:
            Refused: The call is refused.
        """
        named: dict[str, str] = request.scope.get(NAMED, {})
        caller = await server.authenticate(request)
        named.update(principal=caller.name, tenant=caller.tenant)
        _name(named, self.path, request.path_params)
        await server.bounds.request(caller)
        if self.scope:
            caller.require(self.scope)
        query = None if self.query is None else _query(request, self.query)
        body = None if self.body is None else _body(await request.body(), self.body)
        for field, name in _IDS.items():
            named[name] = (
                getattr(body, field, "") or getattr(query, field, "") or named.get(name, "")
            )
        asked = Asked(server, caller, request.path_params, query, body, request.headers)
        answer = await self.handler(asked)
        if isinstance(answer, Execution):
            named["execution"] = answer.id
        if self.streams:
            return answer
        return Response(_encode(answer), self.status, media_type="application/json")


def _name(named: dict[str, str], path: str, parameters: Mapping[str, str]) -> None:
    """Name what the path is about."""
    for start, name in _PLACES.items():
        if path.startswith(start):
            named[name] = parameters.get("id", "")
            return


def _body(text: bytes, type: type[Any]) -> Any:
    try:
        body = msgspec.json.decode(text, type=type)
    except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
        why = _unreadable(text) or f"the body does not fit: {wrong}"
        raise Refused("VALIDATION_ERROR", why) from None
    try:
        check_body(body)
    except InvalidValue as wrong:
        raise Refused("VALIDATION_ERROR", str(wrong)) from None
    return body


def _unreadable(text: bytes) -> str:
    """The reason why a body is no text; empty if it is. The decoder does not say where."""
    try:
        text.decode()
    except UnicodeDecodeError as wrong:
        return f"the body is not UTF-8 at byte {wrong.start}; encode it as UTF-8"
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "the body has half a surrogate pair, as \\ud800 alone; send whole characters"
    except (ValueError, RecursionError):
        pass
    return ""


def _query(request: Request, type: type[Any]) -> Any:
    given: dict[str, Any] = {}
    lists = {field.name for field in msgspec.structs.fields(type) if field.type == list[str]}
    for name, value in request.query_params.multi_items():
        if name in lists:
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    try:
        return msgspec.convert(given, type, strict=False)
    except (msgspec.MsgspecError, ValueError) as wrong:
        raise Refused("VALIDATION_ERROR", f"the query does not fit: {wrong}") from None
