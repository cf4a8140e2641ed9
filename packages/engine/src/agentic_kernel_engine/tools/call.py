"""Call: make one call of a tool, and turn its outcome into an observation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agentic_kernel import InvalidValue

from ..faults import (
    cause_has_note,
    is_a,
    is_closing,
    is_unwinding,
    kind_of,
    place_of,
    report,
    text_of,
)
from ..plans.action import ToolCall, digest
from ..plans.observation import (
    HANDLER_ERROR,
    MISSING_SCOPES,
    NO_THREAD,
    OUTPUT_SCHEMA_FAILED,
    SCHEMA_VALIDATION_FAILED,
    TIMEOUT,
    Observation,
)
from ..values import INT_MAX, INT_MIN, check_text, decode, encode, encode_checked
from ..values import plain as surely_stored
from .deadline import DeadlinePassed, Timed, bounded
from .exceptions import ToolError, Unfinished
from .schema import Fit
from .signature import plain
from .threads import NOTE_NOT_BEGUN, ThreadsExhausted
from .tool import Tool, ToolContext

MAX_OUTPUT: Final = 1_000_000
"""The longest result of a tool, as JSON text in bytes."""
MAX_CODE: Final = 200
"""The longest code in an observation, in characters."""
MAX_MESSAGE: Final = 2_000
"""The longest message of an observation, in characters."""


class Invocation(msgspec.Struct, eq=False):
    """One call on its way to its tool, as middleware sees it; the arguments may be changed."""

    tool: Tool
    """The tool that is called."""
    arguments: Mapping[str, Any]
    """The arguments; at first those of the planner."""
    call: ToolCall
    """The planner's action."""
    context: ToolContext
    """The facts about the call that the tool gets."""
    checked: Mapping[str, Any] | None = None
    """The arguments, if they were checked already; arguments that replace them are checked anew."""


def key(tool: Tool, task_id: str, step: int, index: int, call: ToolCall) -> str:
    """The idempotency key of a call: the same after a crash, and different for every other call.

    If the tool has an effect, the key holds the digest of the arguments. A step without effects is
    planned anew after a crash, so its keys name the place only.
    """
    place = f"{task_id}:{step}:{index}"
    if not tool.has_effect:
        return place
    return f"{place}:{digest(call, place)[:16]}"


async def perform(invocation: Invocation, timed: Timed | None = None) -> Observation:
    """Make one call and return its observation; a failure of the tool is an observation, too.

    A tool may raise `ToolError`, or return an `Observation` with an error of its own, whose output
    is JSON. Any other exception is logged once, with its traceback; the observation's metadata has
    its ``type``, ``file`` and ``line``.

    The tool gets a copy of the arguments, and its result is copied, so later changes by the tool do
    not change the record. ``SystemExit``, ``GeneratorExit`` and any other ``BaseException`` count
    as a failure of the tool, because no tool may end the process. So does a cancellation that the
    run did not ask for. A cancellation of the run and ``KeyboardInterrupt`` are raised again.

    Args:
        timed: The clock of a run with a limit of time: at its deadline the call is cancelled, and
            the observation is ``timeout``. None if the run has no such limit.

    Raises:
        Unfinished: The tool raised it.
        DeadlinePassed: The deadline came before the call was begun.
    """
    tool = invocation.tool
    context = invocation.context
    arguments = invocation.arguments
    if tool.scopes and not tool.scopes <= context.principal.scopes:
        missing = ", ".join(sorted(tool.scopes - context.principal.scopes))
        return _failed(
            invocation, MISSING_SCOPES,
            f"requires scopes that {context.principal.name or 'the principal'} lacks: {missing}",
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
        fits_input, fits_output = tool.checks(context.validator)
        problem = fits_input(arguments)
        if problem is not None:
            return _failed(invocation, SCHEMA_VALIDATION_FAILED, _at("arguments", problem))
        running = tool.start(text, context)
    except msgspec.ValidationError as error:
        return _failed(invocation, SCHEMA_VALIDATION_FAILED, f"arguments: {error}")
    except BaseException as error:  # Nothing was awaited, so no cancellation is the run's.
        return _raised(invocation, error)
    bound: asyncio.Timeout | None = None
    try:
        if tool.timeout is not None:
            bound = asyncio.timeout(tool.timeout)
        if timed is not None:
            result = await bounded(running, timed, f"the tool {tool.name!r}", bound)
        elif bound is None:
            result = await running
        else:
            async with bound:
                result = await running
    except asyncio.CancelledError as error:
        if is_unwinding(error):
            raise
        return _faulty(invocation, error)
    except Unfinished:
        raise
    except DeadlinePassed as error:
        if not error.begun:
            raise
        late = "did not return before the run's limit of time; effects it had by then remain"
        if cause_has_note(error, NOTE_NOT_BEGUN):
            late = "no thread was free for it before the run's limit of time; it was not begun"
        return _failed(invocation, TIMEOUT, late)
    except ThreadsExhausted as error:
        return _failed(invocation, NO_THREAD, str(error))
    except BaseException as error:
        if is_a(error, KeyboardInterrupt) or is_closing(error):
            raise
        if bound is not None and bound.expired():
            if cause_has_note(error, NOTE_NOT_BEGUN):
                return _failed(
                    invocation, TIMEOUT,
                    f"no thread of {context.threads.limit} was free for it within "
                    f"{tool.timeout:g} seconds; the call was not begun, so try again later",
                )  # fmt: skip
            return _failed(
                invocation, TIMEOUT,
                f"did not return within {tool.timeout:g} seconds; effects it had by then remain",
            )  # fmt: skip
        return _raised(invocation, error)
    try:
        return _observed(invocation, result, fits_output)
    except BaseException as error:  # A check of the result, or the result itself, has a bug.
        return _raised(invocation, error, "the tool ran, but its result cannot be checked: ")


def _observed(invocation: Invocation, result: Any, fits: Fit | None) -> Observation:
    """The observation of a call that returned."""
    if isinstance(result, Observation) and result.error:
        return _own_failure(invocation, result)
    try:
        output = stored(result)
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


def stored(result: Any, path: str = "output") -> Any:
    """A copy of a result's JSON form, which shares no part with the result.

    Raises:
        InvalidValue: It has no JSON form, or one that is over `MAX_OUTPUT` or may not be stored.
    """
    if _whole(result):
        return result
    try:
        text = encode(result, path)
    except InvalidValue as refused:
        text = _formed(result, path, refused)
    if len(text) > MAX_OUTPUT:
        raise InvalidValue(
            path,
            f"is {len(text):,} bytes of JSON, over the limit of {MAX_OUTPUT:,}; return less, or a "
            "reference to it",
        )
    return decode(text)


def _whole(result: Any) -> bool:
    """True for most results that have no parts: they are stored as they are."""
    kind = type(result)
    if kind is str:  # JSON writes a character as six bytes at most.
        return len(result) <= MAX_OUTPUT // 6 and surely_stored(result)
    return result is None or kind is bool or (kind is int and INT_MIN <= result <= INT_MAX)


def _formed(result: Any, path: str, refused: InvalidValue) -> bytes:
    """The JSON text of a value that is not JSON itself, but has a JSON form."""
    try:
        form = plain(result, path)
    except InvalidValue:
        raise
    except Exception:
        raise refused from None
    return encode(form, path)


def _own_failure(invocation: Invocation, given: Observation) -> Observation:
    """The observation of a tool that reported its own failure."""
    try:
        for name in ("error", "message"):
            text = getattr(given, name)
            if type(text) is not str:
                raise InvalidValue(name, f"must be a string, not {type(text).__name__}")
        check_text(given.error, "error")
        if len(given.error) > MAX_CODE:
            raise InvalidValue(
                "error", f"has {len(given.error):,} characters; use up to {MAX_CODE}"
            )
        return _failed(invocation, given.error, given.message, stored(given.output))
    except InvalidValue as error:
        return _failed(
            invocation, OUTPUT_SCHEMA_FAILED,
            f"the tool failed, and its Observation is refused: {error}",
        )  # fmt: skip


def _failed(invocation: Invocation, code: str, message: str, output: Any = None) -> Observation:
    # The text may be that of any exception; make it storable.
    message = message[:MAX_MESSAGE].replace("\0", "\\0")
    message = message.encode("utf-8", "backslashreplace").decode()
    return Observation(output, code, message, invocation.call.id, invocation.tool.name)


def _told(invocation: Invocation, error: BaseException) -> Observation:
    """The observation of a tool that raised `ToolError`."""
    given = Observation(None, getattr(error, "code", ""), text_of(error))
    return _own_failure(invocation, given)


def _raised(invocation: Invocation, error: BaseException, before: str = "") -> Observation:
    """The observation of a call in which this was raised; ``before`` begins a bug's message."""
    if is_a(error, KeyboardInterrupt):
        raise error
    if is_a(error, ToolError):
        return _told(invocation, error)
    return _faulty(invocation, error, before)


def _faulty(invocation: Invocation, error: BaseException, before: str = "") -> Observation:
    """The observation of a tool with a bug, which is logged."""
    context, kind, text = invocation.context, kind_of(error), text_of(error)
    report(error, context.task_id, context.step, f"the tool {invocation.tool.name!r}")
    observation = _failed(invocation, HANDLER_ERROR, before + (f"{kind}: {text}" if text else kind))
    return replace(observation, metadata={"type": kind, **place_of(error)})


def _at(root: str, problem: str) -> str:
    return f"{root}{problem}" if problem.startswith("[") else f"{root}: {problem}"
