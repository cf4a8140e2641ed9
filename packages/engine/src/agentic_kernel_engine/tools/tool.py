"""Tool: a function that a planner may call, with its schemas, its effect and its bounds.

`Tools` is a registry of them that never changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypedDict, Unpack, get_args, overload

import msgspec
from msgspec.structs import replace

from agentic_kernel import InvalidValue, Task

from .. import edges
from ..plans.observation import NOBODY_TO_ASK
from ..principal import Principal
from ..values import decode, encode, mapping
from .caller import Caller
from .exceptions import ToolError, Unfinished
from .schema import Fit, Validator, compile_schema
from .signature import Signature
from .threads import SHARED, ToolThreads

SideEffect = Literal["none", "read", "write", "destructive"]
"""The effect of a call on the world: none, reads it, changes it, or destroys something in it."""
MOST_VALIDATORS: Final = 8
"""The most validators of Loops whose checks one tool keeps."""
MOST_QUESTIONS: Final = 20
"""The most questions that one call may ask."""
LONGEST_QUESTION: Final = 10_000
"""The most characters of a question."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolContext(msgspec.Struct, eq=False):
    """Facts about one call, for the tool."""

    task_id: str
    """Id of the Task that calls."""
    step: int
    """Number of steps before this one."""
    index: int
    """Index of the action in the step's plan."""
    key: str
    """Idempotency key: the same again when the call is repeated after a crash."""
    principal: Principal
    """The user or program that the run acts for."""
    progress: Callable[[Any], None]
    """Reports the progress of the call, as any JSON value."""
    caller: Caller | None = None
    """The run that calls, for tools that delegate; None for all others."""
    threads: ToolThreads = SHARED
    """The threads that run plain functions."""
    validator: Validator | None = None
    """Makes the checks of a tool that has no validator of its own; None for `compile_schema`."""
    task: Task | None = None
    """The Task that calls, as it was before this step; None outside of a run."""
    approved_by: str | None = None
    """The person who approved this very call, as the decision says; None without an approval."""
    answers: Mapping[str, str] | None = None
    """The answers to this call's questions, by the question's digest; None where no person can be
    asked."""
    over: bool = False
    """True once a call in a thread is over; the reports of an abandoned thread are dropped."""

    def ask(self, question: str) -> str:
        """The answer of a person to a question of this call.

        A call cannot wait for days. Without an answer, the call ends here: the other calls of its
        batch are settled, the Task pauses with the question, and it goes on when it is answered.
        Then the tool is called again, with the same key and the same arguments, and this returns
        the answer. So ask before the first effect, and do not catch `Unfinished`.

        Args:
            question: 1 to `LONGEST_QUESTION` characters; the same text is the same question.

        Raises:
            Unfinished: There is no answer yet.
            ToolError: The question is not accepted, the call has asked `MOST_QUESTIONS` others, or
                no person can be asked here: only a Loop can pause for an answer.
        """
        if self.answers is None:
            raise ToolError(
                "no person can be asked here, because only a Loop can pause for an answer; run the "
                "tool in a Loop, or pass the answer in its arguments",
                NOBODY_TO_ASK,
            )
        if not isinstance(question, str) or not 0 < len(question) <= LONGEST_QUESTION:
            came = f"{len(question):,}" if isinstance(question, str) else edges.came(question)
            raise ToolError(
                f"a question must be text of 1 to {LONGEST_QUESTION:,} characters, not {came}"
            )
        digest = hashlib.sha256(f"{self.key}\n{question}".encode("utf-8", "replace")).hexdigest()
        if digest in self.answers:
            return self.answers[digest]
        if len(self.answers) >= MOST_QUESTIONS:
            raise ToolError(
                f"one call may ask {MOST_QUESTIONS} questions, and this is one more; ask several "
                "things in one question"
            )
        raise Unfinished({"kind": "question", "question": question, "digest": digest})

    def for_thread(self) -> ToolContext:
        """A copy for a tool in a thread: its reports are handed to the event loop, until `over`."""
        post = asyncio.get_running_loop().call_soon_threadsafe
        heard = self.progress

        def report(value: Any) -> None:
            if not self.over:
                with suppress(asyncio.CancelledError):  # The run has ended, and unwinds.
                    heard(value)

        def progress(value: Any) -> None:
            post(report, decode(encode(value, "progress")))  # A copy: the tool may change `value`.

        return replace(self, progress=progress, caller=None, threads=SHARED, validator=None)


class Tool:
    """A function that a planner may call, with its schemas, its effect and its bounds.

    A coroutine function runs on the event loop, any other function in a thread of `ToolThreads`. A
    thread cannot be ended: after a timeout or a cancellation it is abandoned and goes on,
    unobserved, until it returns. Another thread takes its place, and the process does not wait for
    it.

    Args:
        name: 1 to 64 letters, digits, ``_`` and ``-``.
        handler: Called with the arguments as one dict; a parameter annotated `ToolContext` gets
            the context, by its name.
        description: For the planner.
        input_schema: JSON Schema of the arguments, with ``"type": "object"``.
        output_schema: JSON Schema of the result; None for any JSON.
        effect: The effect of a call; the default assumes that a call changes something.
        idempotent: True if a second call with the same key changes nothing more.
        scopes: Scopes that the principal must have.
        timeout: Seconds that a call may take; None for no limit.
        concurrent: True if a call may run beside others of its batch.
        inline: True to run a plain function on the event loop; only for one that returns at once.
        validator: Makes the checks from the schemas. By default `compile_schema` does, and a Loop
            with a validator of its own uses that one.
        signature: The signature of a typed function, which gets its arguments by name; see `tool`.

    Raises:
        InvalidValue: An argument is not accepted; a schema is one of them.
    """

    __slots__ = (
        "_context", "_fits", "_others", "_signature", "_start", "_validator", "concurrent",
        "description", "effect", "handler", "has_effect", "idempotent", "input_schema", "name",
        "output_schema", "repeatable", "scopes", "threaded", "timeout",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        handler: Callable[..., Any],
        *,
        input_schema: Mapping[str, Any],
        description: str = "",
        output_schema: Mapping[str, Any] | None = None,
        effect: SideEffect = "write",
        idempotent: bool = False,
        scopes: Collection[str] = (),
        timeout: float | None = None,
        concurrent: bool = True,
        inline: bool = False,
        validator: Validator | None = None,
        signature: Signature | None = None,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidValue("name", f"is {edges.came(name)}; use 1 to 64 of A-Z a-z 0-9 _ -")
        if not callable(handler):
            raise InvalidValue("handler", f"must be callable, not {type(handler).__name__}")
        edges.choice(effect, "effect", get_args(SideEffect))
        self.name = name
        self.handler = handler
        self.description = edges.prose(description, "description")
        self.input_schema = _held("input_schema", input_schema)
        if self.input_schema.get("type") != "object":
            raise InvalidValue("input_schema", 'must have "type": "object"; arguments have names')
        self.output_schema = None
        if output_schema is not None:
            self.output_schema = _held("output_schema", output_schema)
        self.effect = effect
        self.has_effect = effect in ("write", "destructive")
        """True if a call changes the world, so that it is put on record before it begins."""
        self.idempotent = edges.flag(idempotent, "idempotent")
        self.repeatable = idempotent or not self.has_effect
        """True if a call that a crash interrupted may be made again."""
        self.scopes = edges.names(scopes, "scopes")
        self.timeout = None if timeout is None else edges.seconds(timeout, "timeout", zero=False)
        self.concurrent = edges.flag(concurrent, "concurrent")
        self._validator = None if validator is None else edges.function(validator, "validator")
        self._signature = signature
        self._context = signature.context if signature else _context_of(handler)
        self.threaded = not edges.flag(inline, "inline") and not _is_async(handler)
        """True if the handler runs in a thread."""
        self._start = handler if _is_async(handler) else self._here
        self._fits: tuple[Fit, Fit | None] | None = None
        self._others: tuple[tuple[Validator, tuple[Fit, Fit | None]], ...] = ()
        """The checks that other validators made, the newest last."""
        if signature is None:
            self.checks()

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, effect={self.effect!r})"

    def checks(self, validator: Validator | None = None) -> tuple[Fit, Fit | None]:
        """The check of the arguments, and that of the result; None without an output schema.

        They are made once: for a typed function at its first call, otherwise with the tool. Those
        of the last `MOST_VALIDATORS` validators are kept.

        Args:
            validator: Makes the checks, unless the tool has a validator of its own.

        Raises:
            InvalidValue: A schema is not accepted.
        """
        if validator is not None and self._validator is None:
            return self._checks_by(validator)
        if self._fits is None:
            self._fits = self._made(self._validator or partial(compile_schema, checked=True))
        return self._fits

    def _checks_by(self, validator: Validator) -> tuple[Fit, Fit | None]:
        for known, fits in self._others:
            if known is validator:
                return fits
        made = self._made(validator)
        self._others = (*self._others[1 - MOST_VALIDATORS :], (validator, made))
        return made

    def _made(self, validator: Validator) -> tuple[Fit, Fit | None]:
        output = self.output_schema
        return validator(self.input_schema), None if output is None else validator(output)

    def start(self, arguments: bytes, context: ToolContext) -> Coroutine[Any, Any, Any]:
        """The call, not yet begun, with its own copy of the arguments.

        Raises:
            msgspec.ValidationError: The arguments do not fit the function's annotations.
        """
        start = self._start
        if self.threaded:
            start = partial(self._aside, context)
            if self._context:
                context = context.for_thread()
        told = {self._context: context} if self._context else {}
        if self._signature is not None:
            return start(**self._signature.arguments(arguments), **told)
        return start(decode(arguments), **told)

    async def _aside(self, told: ToolContext, /, *args: Any, **named: Any) -> Any:
        try:
            result = await told.threads.run(self.name, partial(self.handler, *args, **named))
            return await result if inspect.isawaitable(result) else result
        finally:
            told.over = True

    async def _here(self, /, *args: Any, **named: Any) -> Any:
        result = self.handler(*args, **named)
        return await result if inspect.isawaitable(result) else result


class ToolOptions(TypedDict, total=False):
    """The keyword arguments of `tool`; see there."""

    name: str | None
    description: str | None
    effect: SideEffect
    idempotent: bool
    scopes: Collection[str]
    timeout: float | None
    concurrent: bool
    inline: bool
    validator: Validator | None


@overload
def tool(function: Callable[..., Any], **declared: Unpack[ToolOptions]) -> Tool: ...
@overload
def tool(
    function: None = None, **declared: Unpack[ToolOptions]
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    **declared: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool from a typed function, as a decorator or called with the function.

    The parameters become the arguments. They may be annotated with JSON's own types, ``Literal``,
    unions, enums, dataclasses, TypedDicts, pydantic models, and ``Annotated`` with a description.
    An argument with a default may be left out, and no other argument may be added. The result is
    checked against the return annotation if that has a JSON form.

    Args:
        function: The function; left out if the decorator is given options.
        name: The function's own name by default.
        description: The first paragraph of the docstring by default.
        **declared: As for `Tool`.

    Raises:
        InvalidValue: A parameter has no annotation, or one without a JSON form; it is named.
    """
    if function is None:
        return lambda given: tool(given, name=name, description=description, **declared)
    signature = Signature(function, ToolContext)
    return Tool(
        str(name or getattr(function, "__name__", type(function).__name__)),
        function,
        input_schema=signature.input_schema,
        output_schema=signature.output_schema,
        description=signature.description if description is None else description,
        signature=signature,
        **declared,
    )


def _held(path: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a schema that only the tool holds."""
    copy: dict[str, Any] = decode(encode(mapping(schema, path), path))
    return copy


def _is_async(handler: Any) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004
    )


def _context_of(handler: Any) -> str:
    """The parameter of a handler of raw arguments that receives the context; "" if none does."""
    try:
        parameters = inspect.signature(handler).parameters
    except (TypeError, ValueError):  # Some builtins have no signature.
        return ""
    for name, parameter in parameters.items():
        annotation = parameter.annotation
        # Not resolved, because the handler's other annotations may not exist at run time.
        said = annotation.rpartition(".")[2] if isinstance(annotation, str) else annotation
        if said in (ToolContext, ToolContext.__name__):
            return name
    return ""


def _made(function: Any, path: str) -> Tool:
    if function is None:
        raise InvalidValue(path, "is None; give a tool or a function")
    try:
        made: Tool = tool(function)
    except InvalidValue as error:
        inner = "" if error.path == "function" else f".{error.path}"
        raise InvalidValue(f"{path}{inner}", error.reason) from error
    return made


class Tools:
    """A registry that never changes.

    Args:
        *tools: Tools, and typed functions, which become tools as by `tool`.

    Raises:
        InvalidValue: Two have the same name, or a function cannot become a tool.
    """

    def __init__(self, *tools: Tool | Callable[..., Any]) -> None:
        self._named: dict[str, Tool] = {}
        for index, each in enumerate(tools):
            made = each if isinstance(each, Tool) else _made(each, f"tools[{index}]")
            if made.name in self._named:
                raise InvalidValue("tools", f"has two tools called {made.name!r}; rename one")
            self._named[made.name] = made
        self._all = tuple(self._named.values())

    def tools(self) -> Sequence[Tool]:
        return self._all

    def find(self, name: str) -> Tool | None:
        return self._named.get(name)
