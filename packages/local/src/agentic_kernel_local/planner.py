"""LocalPlanner: asks a model in this process for the steps of a `Loop`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypedDict, Unpack

import msgspec

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import TaskFailed, edges, values
from agentic_kernel_engine.inputs import DOCUMENTS, IMAGES, Inputs
from agentic_kernel_engine.loop import (
    NOTHING_USED,
    Context,
    Delta,
    Plan,
    PlannerError,
    ToolCall,
    Usage,
)
from agentic_kernel_engine.providers import (
    FURTHER,
    Answer,
    Failures,
    Function,
    Malformed,
    Unusable,
    check_keywords,
    functions,
    loop_inputs,
    offered,
    plan_of,
)
from agentic_kernel_engine.providers import failures as names

from . import failures
from .engine import Engine, Request
from .failures import IMPL
from .generation import End, Piece, Prompt
from .loading import LocalModel
from .options import AnswerOptions
from .prompting import Example, answer_schema, messages
from .reading import ActionReader, action_in

HIDDEN: Final = 1_000
"""Tokens that a model's chat template may add."""
_FAILURES: Final = Failures(IMPL, {})


class PlannerOptions(TypedDict, total=False):
    """Keyword arguments of `LocalPlanner`, in addition to the model."""

    max_tokens: int
    """See `AnswerOptions`; 1024 by default. A Task overrides this option and the next six by
    ``local/<name>`` in its metadata."""
    temperature: float | None
    seed: int | None
    top_p: float | None
    stop: str | Sequence[str] | None
    system: str | None
    tool_choice: str
    offers: Collection[str]
    """Names of the Loop's actions that the model may choose like a tool; see
    `agentic_kernel_engine.providers.OFFERS`."""
    examples: Sequence[Example]
    """Each is shown to the model if the step has its tool."""
    slots: int
    """Answers generated at once, 4 by default; further ones wait in a queue."""
    context_tokens: int
    """Tokens for one prompt and its answer; 4096 by default."""
    threads: int | None
    """Number of computing threads; None for half the number of processors."""


_OTHERS: Final = ("offers", "examples", "slots", "context_tokens", "threads")


class LocalPlanner:
    """A Planner that asks a model in this process.

    Decoding is constrained: the model can only call a function that it is shown, with arguments
    that fit its schema, or give the final answer, which fits the schema of the run. A small model
    still chooses badly: give it one or two tools, tiny tasks and an `Example` for each tool. A step
    without tools and without a schema is free text, and goes on from the text of an answer that a
    pause or a crash cut short.

    Args:
        model: The path of a GGUF file; if None, `find_model` chooses one.
        **options: See `PlannerOptions`.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
        TypeError: There is no such keyword.
    """

    impl = IMPL
    inputs: ClassVar[Inputs] = loop_inputs(IMPL, "", AnswerOptions)

    def __init__(
        self, model: str | os.PathLike[str] | None = None, **options: Unpack[PlannerOptions]
    ) -> None:
        answers = {*AnswerOptions.names(), *FURTHER}
        check_keywords(type(self).__name__, options, {"model", *answers, *_OTHERS})
        given: dict[str, Any] = dict(options)
        self._context_tokens: int = given.get("context_tokens", 4096)
        self._model = LocalModel(
            model, given.get("slots", 4), self._context_tokens, given.get("threads")
        )
        self.options = AnswerOptions(**{name: given[name] for name in answers & given.keys()})
        self._offers = offered(given.get("offers", ()))
        self._examples = _examples(given.get("examples", ()))

    @property
    def model(self) -> str:
        """The name of the model's file without the suffix; "" if there is no such file."""
        return self._model.name

    async def open(self) -> Engine:
        """Load the model now; otherwise the first Task that is accepted loads it.

        Raises:
            CannotStart: There is no model, or it cannot be loaded; the error says what to do.
        """
        return await self._model.open()

    async def accept(self, task: Task) -> None:
        """Refuse a Task that this planner cannot serve; load the model.

        Raises:
            CannotStart: The Task has an input that is not taken or not valid, or there is no model.
        """
        self.inputs.check(task)
        self.options.accept(task, IMPL)
        try:
            await self.open()
        except CannotStart as error:
            raise CannotStart(error.reason, task.id) from error

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See `seams.TakesOptions`."""
        self.options.check(options)

    async def close(self) -> None:
        """Give the model back; the last user in this process frees it."""
        await self._model.close()

    def worst_case(self, context: Context) -> Usage:
        """Return the most that one call may use up: a token is at least one byte of the prompt.

        Raises:
            PlannerError: ``local/bad_options``.
        """
        options = self._options(context)
        chat = messages(context, options.system, self._shown(context, options), self._examples)
        size = len(msgspec.json.encode(chat)) + len(context.continuation.encode()) + HIDDEN
        known = (self._context_tokens, context.prompt_tokens)
        read = min([size, *(each for each in known if each is not None)])
        return self._most(read, options.bound(context))

    async def count(self, context: Context) -> int | None:
        """See `seams.Counting`: llama.cpp counts the prompt of the step."""
        options = self._options(context)
        request = self._request(context, options, self._shown(context, options))
        try:
            engine = await self.open()
        except CannotStart:
            return None
        measured = dataclasses.replace(request, max_tokens=1)
        async with engine.generate(measured) as items:
            async for item in items:
                if isinstance(item, Prompt) and item.tokens:
                    return item.tokens
        return None

    async def plan(self, context: Context) -> AsyncGenerator[Delta | Plan, None]:
        """Yield the pieces of the answer as they come, then the plan; leaving stops the model.

        Each piece tells the most that the answer uses up if it is left there: the prompt, and the
        longest answer, because the model may be ahead of the pieces.

        Raises:
            PlannerError: Its code is ``local/`` and a name of `providers.failures`.
        """
        options = self._options(context)
        shown = self._shown(context, options)
        request = self._request(context, options, shown)
        try:
            engine = await self.open()
        except CannotStart as error:
            raise _refused(names.MODEL_NOT_FOUND, error.reason) from error
        answering = _Answering(context, shown, request.max_tokens)
        try:
            if request.messages[-1]["role"] == "assistant":
                # The tokens of the beginning are those of the prompt with it, less those without.
                measured = Request(request.messages[:-1], max_tokens=1)
                async with engine.generate(measured) as items:
                    async for item in items:
                        yield Delta("", usage=NOTHING_USED)
                        if isinstance(item, Prompt) and item.tokens:
                            answering.goes_on(item.tokens)
                            break
            async with engine.generate(request) as items:
                async for item in items:
                    if isinstance(item, Prompt):
                        answering.prompt = item.tokens
                        yield Delta("", usage=self._used(answering))
                    elif isinstance(item, Piece) and (delta := answering.take(item)) is not None:
                        yield msgspec.structs.replace(delta, usage=self._used(answering))
                    if answering.full:
                        item = End("length", answering.tokens)
                    if isinstance(item, End):
                        if (delta := answering.rest()) is not None:
                            yield delta
                        yield self._plan(item, answering, engine)
                        return
        except TaskFailed as failure:
            if isinstance(failure, PlannerError):
                raise
            used = Usage(answering.prompt, answering.tokens)
            raise PlannerError(
                failure.code, failure.message, failure.metadata, usage=used
            ) from failure
        raise _FAILURES.failure(
            names.SERVER_ERROR,
            "the model was closed in the middle of an answer",
            usage=self._used(answering),
        )

    def _options(self, context: Context) -> AnswerOptions:
        try:
            options = self.options.of(context.task, IMPL, context.options)
        except InvalidValue as error:
            raise _refused(names.BAD_OPTIONS, str(error)) from error
        assert isinstance(options, AnswerOptions)
        for key in (IMAGES, DOCUMENTS):
            if key in context.task.metadata:
                raise _refused(
                    names.BAD_OPTIONS,
                    f"the Task has {key!r}, and a local model sees none; leave them out, or use "
                    "a model that takes them",
                )
        return options

    def _shown(self, context: Context, options: AnswerOptions) -> list[Function]:
        """Return the functions that the model may call.

        Raises:
            PlannerError: ``local/bad_options``: the forced function is not there.
        """
        choice, shown = options.choice(context), functions(context.tools, self._offers)
        if choice == "none":
            return []
        if choice not in ("auto", *(each.name for each in shown)) and not (
            choice == "required" and shown
        ):
            raise _refused(
                names.BAD_OPTIONS,
                f"tool_choice is {choice}, and this step has no such function; use auto, none, "
                "required if there are tools, or the name of a tool or an offer of this step",
            )
        return shown

    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> Request:
        chat = messages(context, options.system, shown, self._examples)
        try:
            schema = answer_schema(shown, context.output_schema, options.choice(context))
        except InvalidValue as error:
            raise _refused(names.INVALID_REQUEST, f"the schema {error}") from error
        if context.continuation and schema is None:
            chat.append({"role": "assistant", "content": context.continuation})
        return Request(
            messages=chat,
            max_tokens=options.bound(context),
            temperature=options.temperature,
            seed=options.seed,
            top_p=options.top_p,
            stop=tuple(options.stop or ()),
            schema=schema,
        )

    def _used(self, answering: _Answering) -> Usage:
        """Return the most that the answer has used so far."""
        if not answering.prompt:
            return NOTHING_USED
        return self._most(answering.prompt, answering.left)

    def _most(self, prompt: int, written: int) -> Usage:
        return Usage(prompt, min(written, self._context_tokens))

    def _plan(self, end: End, answering: _Answering, engine: Engine) -> Plan:
        usage = Usage(answering.prompt, end.tokens)
        if end.reason == "length" and end.tokens < answering.left:
            outgrown = failures.outgrown(engine.options.context_tokens)
            metadata = {**(outgrown.metadata or {}), "text": answering.text[: names.MAX_TEXT]}
            raise PlannerError(outgrown.code, outgrown.message, metadata, usage=usage)
        fail = partial(_FAILURES.failure, usage=usage)
        try:
            plan = answering.plan(end)
        except Unusable as error:
            raise fail(error.name, str(error), **error.metadata) from error
        except Malformed as error:
            raise fail(names.BAD_RESPONSE, str(error), text=answering.text) from error
        return msgspec.structs.replace(plan, usage=usage, model=engine.options.model.stem)


class _Answering:
    """One answer while it comes.

    Args:
        context: The step.
        shown: The functions that the model may call.
        most: The most tokens of the answer.
    """

    def __init__(self, context: Context, shown: Sequence[Function], most: int) -> None:
        self._context = context
        self._shown = shown
        self._reader = ActionReader() if shown else None
        self._pieces: list[str] = []
        self._before = 0
        """Tokens of the prompt without the beginning of the answer, if it goes on."""
        self._most = most
        self._at: int | None = None
        self.prompt = 0
        """Tokens of the prompt."""
        self.tokens = 0
        """Tokens that were generated."""

    def goes_on(self, before: int) -> None:
        """Go on from the continuation.

        Args:
            before: The tokens of the prompt without it.
        """
        self._before = before
        self._pieces = [self._context.continuation]
        self._at = len(self._context.continuation)

    @property
    def text(self) -> str:
        """All that the model has written."""
        return "".join(self._pieces)

    @property
    def left(self) -> int:
        """The most tokens that may be generated: those of the beginning count."""
        begun = self.prompt - self._before if self._before else 0
        return max(self._most - begun, 0)

    @property
    def full(self) -> bool:
        """True if an answer that goes on has reached its limit."""
        return bool(self._before and self.prompt) and self.tokens >= self.left

    def take(self, piece: Piece) -> Delta | None:
        """Take the next piece; return the piece to tell."""
        self.tokens = piece.tokens
        self._pieces.append(piece.text)
        if self._reader is not None:
            return self._reader.take(piece.text)
        at, self._at = self._at, None
        return Delta(piece.text, at=at)

    def rest(self) -> Delta | None:
        """Return the last piece to tell."""
        return None if self._reader is None else self._reader.end()

    def plan(self, end: End) -> Plan:
        """Return the plan, without its usage.

        Raises:
            Unusable: The answer was cut short.
            Malformed: The answer is empty or is not an action.
        """
        if end.reason == "length":
            answer = Answer(self.text, end="length")
        elif self._reader is None:
            answer = Answer(self.text)
        else:
            answer = action_in(self.text, self._context.step)
        return plan_of(answer, self._shown, self._context.output_schema, IMPL)


def _refused(name: str, message: str) -> PlannerError:
    """Return the failure of a call that was not made."""
    return _FAILURES.failure(name, message, usage=NOTHING_USED)


def _examples(given: Any) -> tuple[Example, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidValue("examples", f"is {edges.came(given)}; give a list of Example")
    for index, each in enumerate(given):
        if not isinstance(each, Example):
            raise InvalidValue(f"examples[{index}]", f"is {edges.came(each)}; give an Example")
        path = f"examples[{index}]"
        edges.text(each.instructions, f"{path}.instructions")
        edges.instance(each.call, f"{path}.call", ToolCall)
        values.check(each.call.arguments, f"{path}.call.arguments")
        values.check(each.output, f"{path}.output")
        values.check(each.answer, f"{path}.answer")
    return tuple(given)
