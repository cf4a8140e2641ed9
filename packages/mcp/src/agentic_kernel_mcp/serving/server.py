"""ToolServer: the tools of a registry, as the tools of an MCP server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any, Final

import mcp
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agentic_kernel import InvalidValue
from agentic_kernel_engine import Principal
from agentic_kernel_engine.edges import instance, seconds, text, whole
from agentic_kernel_engine.loop import Observation, ToolCall
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.seams import (
    Invocation,
    Tool,
    ToolContext,
    ToolRegistry,
    Unfinished,
    perform,
)

from .answers import content_of, failed, listed
from .asking import MOST_ROUNDS, answer_of, form_of, questions_of
from .progress import Reports

MOST_CALLS: Final = 64
"""The most calls at once, of all clients."""
MOST_WAITING: Final = 256
"""The most calls that wait for one to end; more are refused."""
SENDING: Final = 5.0
"""Seconds for the last reports of a call, if its client reads slowly."""
_log = logging.getLogger(__package__)
_Context = Any


class ToolServer:
    """The tools of a registry as an MCP server; `serve_stdio` and `serve_http` run it.

    Each call is made for the one principal that the program names, never for one that a client
    names. A tool that asks a person asks through the client, if the client can ask its user. A tool
    that is called for may be cancelled by the client; what it did until then remains.

    Args:
        tools: The registry. It is looked at anew for each listing and each call.
        name: The server's name, for clients.
        version: The server's version, for clients.
        instructions: A text for the model of the client.
        principal: For whom calls are made.
        timeout: The most seconds of one call, the waiting for a person included.
        most_calls: The most calls at once.

    Raises:
        InvalidValue: An argument is not accepted.
    """

    def __init__(
        self,
        tools: ToolRegistry,
        *,
        name: str = "agentic-kernel",
        version: str = "",
        instructions: str | None = None,
        principal: Principal = NOBODY,
        timeout: float = 600.0,
        most_calls: int = MOST_CALLS,
    ) -> None:
        self._tools = tools
        self._principal = instance(principal, "principal", Principal)
        self._timeout = seconds(timeout, "timeout", zero=False)
        self._turns = asyncio.Semaphore(whole(most_calls, "most_calls", 1))
        self._waiting = 0
        if not text(name, "name"):
            raise InvalidValue("name", "is empty; name the server")
        self.name: Final = name
        self.protocol: Final[Server[Any]] = Server(
            name, version=version, instructions=instructions,
            on_list_tools=self._list, on_call_tool=self._call,
        )  # fmt: skip
        """The server of the SDK."""
        # What a client sends back as the state of a call is sealed; a restart forgets the key.
        sealed = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name)
        self.protocol.middleware.append(sealed)

    async def _list(self, context: _Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[listed(each) for each in self._tools.tools()])

    async def _call(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = self._tools.find(params.name)
        if tool is None:
            raise mcp.MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:200]!r}")
        if self._waiting >= MOST_WAITING:
            return failed(
                "mcp/busy", f"{MOST_WAITING} calls wait already; try again when some have ended"
            )
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout), self._turns:
                return await self._made(tool, context, params)
        except TimeoutError:
            return failed(
                "timeout",
                f"did not end within {self._timeout:g} seconds; effects it had by then remain",
            )
        finally:
            self._waiting -= 1

    async def _made(
        self, tool: Tool, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        asks = _can_ask(context)
        key, answers = token_hex(16), dict[str, str]()
        if modern and params.request_state is not None:
            state = json.loads(params.request_state)  # The boundary has checked who wrote it.
            key, answers = state["key"], state["answers"]
            answers |= questions_of(state["asked"], params.input_responses)
        async with _reporting(context) as report:
            for _ in range(MOST_ROUNDS):
                call = ToolCall(tool.name, dict(params.arguments or {}), key)
                told = ToolContext(
                    "", 0, 0, key, self._principal, report, answers=answers if asks else None
                )
                try:
                    found = await perform(Invocation(tool, call.arguments, call, told))
                except Unfinished as unfinished:
                    question = _question(unfinished)
                    if question is None:
                        return failed("mcp/unfinished", "waits for something that no client knows")
                    digest, said = question
                    if modern:
                        kept = {"key": key, "answers": answers, "asked": [digest]}
                        return types.InputRequiredResult(
                            input_requests={digest: types.ElicitRequest(params=form_of(said))},
                            request_state=json.dumps(kept),
                        )
                    form = form_of(said)
                    try:
                        reply = await context.session.elicit_form(
                            form.message, form.requested_schema, context.request_id
                        )
                    except mcp.MCPError:  # The client cannot ask after all.
                        reply = None
                    answers[digest] = answer_of(reply)
                    continue
                return _result(found)
        return failed("mcp/asks_on", f"asked {MOST_ROUNDS} questions, and asks one more")


def _result(found: Observation) -> types.CallToolResult:
    if not found.ok:
        return failed(found.error or "failed", found.message, found.output)
    return content_of(found.output)


def _question(unfinished: Unfinished) -> tuple[str, str] | None:
    """The digest and the text of a question to a person; None if it waits for something else."""
    waiting = unfinished.waiting
    if not isinstance(waiting, Mapping) or waiting.get("kind") != "question":
        return None
    return waiting["digest"], waiting["question"]


def _can_ask(context: _Context) -> bool:
    """True if the client can show a form to its user. An empty capability means forms."""
    known = context.session.client_capabilities
    elicitation = None if known is None else known.elicitation
    legacy = context.protocol_version not in MODERN_PROTOCOL_VERSIONS
    if elicitation is None or (legacy and not context.session.can_send_request):
        return False
    return elicitation.form is not None or elicitation.url is None


@asynccontextmanager
async def _reporting(context: _Context) -> AsyncIterator[Any]:
    """Takes the reports of a call and sends them on, in order, until the call has ended.

    The SDK sends nothing if the client did not ask for reports.
    """
    reports = Reports(context.session.report_progress)
    sending = asyncio.create_task(reports.send())
    try:
        yield reports.take
        reports.end()
        await asyncio.wait([sending], timeout=SENDING)
    finally:
        sending.cancel()
        await asyncio.wait([sending])
        if not sending.cancelled() and sending.exception() is not None:
            _log.info("progress could not be sent: %s", type(sending.exception()).__name__)
