"""Call: how one call of a tool becomes an observation, whatever happens in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentic_kernel import InvalidValue

from ..loop.action import ToolCall
from ..loop.observation import (
    HANDLER_ERROR,
    MISSING_SCOPES,
    OUTPUT_SCHEMA_FAILED,
    SCHEMA_VALIDATION_FAILED,
    TIMEOUT,
    Observation,
)
from ..values import decode, encode, encode_checked
from .schema import Fit
from .signature import plain
from .tool import Tool, ToolContext

MAX_OUTPUT: Final = 1_000_000
"""How long one result may be as JSON text, in bytes."""
MAX_MESSAGE: Final = 2_000
"""How long the message of an observation may be, in characters."""


class Invocation(msgspec.Struct, eq=False):
    """One call on its way to its tool, as middleware sees it; the arguments may be changed."""

    tool: Tool
    """What is called."""
    arguments: Mapping[str, Any]
    """With what; begins as the planner's own."""
    call: ToolCall
    """What the planner asked for."""
    context: ToolContext
    """What the tool is told."""
    checked: Mapping[str, Any] | None = None
    """The arguments, if they were checked already; others that take their place are not."""


class Unfinished(Exception):
    """Raised by a tool whose call is not over: it wants to be called again, with the same key.

    What the tool began goes on without it. The other calls of the batch are settled, the Task
    pauses, and once it goes on the call is made again.

    Attributes:
        waiting: What the call waits for, as in the note ``engine/waiting_for``; None where it only
            makes way for a pause that waits.
    """

    def __init__(self, waiting: Mapping[str, Any] | None) -> None:
        self.waiting = waiting
        super().__init__(waiting)


async def perform(invocation: Invocation) -> Observation:
    """Make one call; whatever goes wrong in it is an observation.

    A tool may give an `Observation` with an error of its own, whose output is JSON.

    The tool gets arguments of its own, and what it returned is copied: nothing that it does with
    either changes the record. A ``SystemExit`` counts as its failure, because no tool may end the
    process, and so does a cancellation that nobody asked for. A cancellation of the run passes, as
    does ``KeyboardInterrupt``.

    Raises:
        Unfinished: The tool says so.
    """
    tool = invocation.tool
    context = invocation.context
    arguments = invocation.arguments
    if tool.scopes and not tool.scopes <= context.principal.scopes:
        missing = ", ".join(sorted(tool.scopes - context.principal.scopes))
        return _failed(
            invocation, MISSING_SCOPES,
            f"needs what {context.principal.name or 'the principal'} is not allowed: {missing}",
        )  # fmt: skip
    try:
        if not isinstance(arguments, dict):
            if not isinstance(arguments, Mapping):
                raise InvalidValue(
                    "arguments", f"must be an object, not a {type(arguments).__name__}"
                )
            arguments = dict(arguments)
        known = arguments is invocation.checked
        text = (encode_checked if known else encode)(arguments, "arguments")
    except InvalidValue as error:
        return _failed(invocation, SCHEMA_VALIDATION_FAILED, str(error))
    try:
        fits_input, fits_output = tool.checks()
        problem = fits_input(arguments)
        if problem is not None:
            return _failed(invocation, SCHEMA_VALIDATION_FAILED, _at("arguments", problem))
        running = tool.start(text, context)
    except msgspec.ValidationError as error:
        return _failed(invocation, SCHEMA_VALIDATION_FAILED, f"arguments: {error}")
    except Exception as error:
        return _failed(invocation, HANDLER_ERROR, _said(error))
    bound: asyncio.Timeout | None = None
    try:
        if tool.timeout is None:
            result = await running
        else:
            async with asyncio.timeout(tool.timeout) as bound:
                result = await running
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _failed(invocation, HANDLER_ERROR, _said(error))
    except Unfinished:
        raise
    except (Exception, SystemExit) as error:
        if bound is not None and bound.expired():
            return _failed(
                invocation, TIMEOUT,
                f"did not come back within {tool.timeout:g} seconds; what it did by then, it did",
            )  # fmt: skip
        return _failed(invocation, HANDLER_ERROR, _said(error))
    return _observed(invocation, result, fits_output)


def _observed(invocation: Invocation, result: Any, fits: Fit | None) -> Observation:
    """The observation of a call that came back."""
    if isinstance(result, Observation) and result.error:
        return _failed(invocation, result.error, result.message, result.output)
    try:
        try:
            text = encode(result, "output")
        except InvalidValue as refused:
            text = _formed(result, refused)
        if len(text) > MAX_OUTPUT:
            raise InvalidValue(
                "output", f"is {len(text):,} bytes of JSON, over the limit of {MAX_OUTPUT:,}"
            )
        output = decode(text)
        problem = None if fits is None else fits(output)
    except InvalidValue as error:
        problem, output = str(error), None
    else:
        problem = problem and _at("output", problem)
    if problem:
        return _failed(
            invocation, OUTPUT_SCHEMA_FAILED, f"the tool ran, but its result is refused: {problem}"
        )
    return Observation(output, call=invocation.call.id, tool=invocation.tool.name)


def _formed(result: Any, refused: InvalidValue) -> bytes:
    """The JSON text of what is not JSON itself, but has a JSON form."""
    try:
        form = plain(result)
    except Exception:
        raise refused from None
    return encode(form, "output")


def _failed(invocation: Invocation, code: str, message: str, output: Any = None) -> Observation:
    # Whatever an exception says has to be storable.
    message = message[:MAX_MESSAGE].replace("\0", "\\0")
    message = message.encode("utf-8", "backslashreplace").decode()
    return Observation(output, code, message, invocation.call.id, invocation.tool.name)


def _said(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _at(root: str, problem: str) -> str:
    return f"{root}{problem}" if problem.startswith("[") else f"{root}: {problem}"
