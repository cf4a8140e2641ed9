"""ClaudePlanner: a Planner that asks a model of Anthropic, or of a server with the same API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine.loop import NOTHING_USED, Context, Delta, Plan, PlannerError, Usage
from agentic_kernel_engine.providers import (
    AnswerOptions,
    Failures,
    Price,
    Redactor,
    check_flag,
    check_model,
    check_prices,
    check_seconds,
    input_bound,
    loop_inputs,
    offered,
)
from agentic_kernel_engine.providers import failures as names

from .answer import bound_of, plan_of, usage_of
from .client import Client
from .failures import CODES, expected, translated
from .prices import PRICES, price_for
from .request import Request, Shape
from .stream import Reply

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

IMPL: Final = "claude"
"""The first part of the failure codes, and of the metadata keys by which a Task sets options."""
INPUTS: Final = loop_inputs(IMPL, "by content or address")
"""The inputs that the planner takes."""
PINGS: Final = 10
"""A server that sends only pings may take this many times ``timeout`` for the next event: a model
may think for long without output."""
REST_SECONDS: Final = 0.1
"""Seconds to read the end of a stream after the end of its answer."""


class PlannerOptions(TypedDict, total=False):
    """Keyword arguments of `ClaudePlanner`."""

    api_key: str | None
    base_url: str | None
    client: AsyncAnthropic | None
    timeout: float
    max_tokens: int
    temperature: float | None
    system: str | None
    tool_choice: str
    stream: bool
    offers: Collection[str]
    prices: Mapping[str, Price] | None
    context_tokens: int | None
    parallel_tool_calls: bool
    thinking: Mapping[str, Any] | None
    cache: bool
    extra_body: Mapping[str, Any]


class ClaudePlanner:
    """A Planner that asks a model through the Messages API.

    It imports the SDK and creates a client when it accepts or plans the first Task. A Task may set
    ``claude/max_tokens``, ``claude/temperature``, ``claude/system`` and ``claude/tool_choice`` in
    its metadata, and bring images (`providers.IMAGES`).

    The plan keeps thinking, citations and the blocks of a server's own tools. The planner sends
    them back unchanged, but leaves out thinking if the content before it has changed. A turn that
    the server paused is a `Thought`: the Loop asks again, and the server goes on.

    Args:
        model: E.g. ``claude-opus-5-5``.
        api_key: None for ``ANTHROPIC_API_KEY``, or other credentials that the SDK finds.
        base_url: None for ``ANTHROPIC_BASE_URL``, or else the vendor's address; without ``/v1``.
        client: A client of your own, for any platform; the planner never closes it. It keeps its
            own HTTP timeouts, and ``api_key`` and ``base_url`` cannot be given with it.
        timeout: Seconds without data from the server until the call fails.
        max_tokens: See `AnswerOptions`, as for the next three.
        temperature: For other servers only: the vendor's current models refuse it.
        system: See `AnswerOptions`.
        tool_choice: Models that always think accept only ``auto`` and ``none``.
        stream: True if the answer comes in pieces. If False, the whole answer must come within
            ``timeout``.
        offers: Actions of the Loop that the model may call in addition to the tools; see
            `providers.OFFERS`.
        prices: Prices by model; None for `PRICES`.
        context_tokens: Size of the model's context; `worst_case` counts no prompt as longer.
        parallel_tool_calls: True if one answer may have several calls.
        thinking: E.g. ``{"type": "adaptive", "display": "summarized"}``; None for the model's
            default.
        cache: True if the vendor caches the whole prompt for five minutes.
        extra_body: Further fields of each request, e.g. ``{"output_config": {"effort": "low"}}``.
            Do not repeat a keyword of this class here; ``tools`` are added to the other tools.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
    """

    impl: str = IMPL

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: AsyncAnthropic | None = None,
        timeout: float = 120.0,
        max_tokens: int = 4096,
        temperature: float | None = None,
        system: str | None = None,
        tool_choice: str = "auto",
        stream: bool = True,
        offers: Collection[str] = (),
        prices: Mapping[str, Price] | None = None,
        context_tokens: int | None = None,
        parallel_tool_calls: bool = True,
        thinking: Mapping[str, Any] | None = None,
        cache: bool = False,
        extra_body: Mapping[str, Any] = {},
    ) -> None:
        check_model(model)
        check_seconds(timeout)
        check_prices(prices)
        if context_tokens is not None and (type(context_tokens) is not int or context_tokens < 1):
            raise InvalidValue("context_tokens", "must be a whole number of at least 1, or None")
        flags = (("stream", stream), ("parallel_tool_calls", parallel_tool_calls), ("cache", cache))
        for name, flag in flags:
            check_flag(flag, name)
        self._answer = AnswerOptions(max_tokens, temperature, system, tool_choice)
        self.model = model
        """The model's name, as requests give it."""
        self._stream = stream
        self._context_tokens = context_tokens
        self._prices = PRICES if prices is None else dict(prices)
        self._shape = Shape(
            IMPL,
            model,
            offered(offers),
            _thinking(thinking),
            cache,
            parallel_tool_calls,
            _json("extra_body", extra_body),
        )
        self._timeout = timeout
        self._client = Client(client, api_key, base_url, timeout)

    async def accept(self, task: Task) -> None:
        """Refuse a Task if one of its options is not valid or unknown, or if there is no API key.

        Raises:
            CannotStart: The error says what to do.
        """
        INPUTS.check(task)
        self._answer.accept(task, IMPL)
        await self._client.open()

    async def close(self) -> None:
        """Close the connections; the user's own client stays open."""
        await self._client.close()

    def worst_case(self, context: Context) -> Usage:
        """Return the most that one call may use up; server tools in ``extra_body`` do not count.

        Raises:
            PlannerError: ``claude/no_price``, ``claude/bad_options``.
        """
        options = self._options(context)
        functions = self._shape.functions(context)
        read = input_bound(context, functions, self._shape.told(context, options))
        if self._context_tokens is not None:
            read = min(read, self._context_tokens)
        written = options.most(context, self._shape.least)
        price = price_for(self._prices, self.model, read)
        if price is not None:
            return Usage(read, written, cost=price.most(read, written))
        if context.remaining.cost is None:
            return Usage(read, written)
        raise self._failures().failure(
            names.NO_PRICE,
            f"the run has a max_cost, but {self.model} has no price; give one in prices=, or "
            "remove max_cost",
        )

    def plan(self, context: Context) -> AsyncIterator[Delta | Plan] | Awaitable[Plan]:
        """Return the pieces of the answer, then the plan; leaving the stream closes its connection.

        Without streaming, return an awaitable of the plan.

        Raises:
            PlannerError: Its code is ``claude/`` and a name of `providers.failures`.
        """
        return self._streamed(context) if self._stream else self._whole(context)

    async def _streamed(self, context: Context) -> AsyncIterator[Delta | Plan]:
        client, request = await self._ready(context)
        reply, stream, told_use = Reply(), None, False
        redactor = Redactor(self._client.secrets())
        caught = expected()
        try:
            stream = await client.messages.create(**request.body, stream=True)
            while not reply.ended:
                async with asyncio.timeout(PINGS * self._timeout):
                    event = await anext(stream, None)
                if event is None:
                    break
                delta = reply.take(event)
                if not told_use and reply.counts:
                    told_use = True
                    used = self._used(reply, request)
                    if used is not None:
                        yield Delta("", usage=used)
                told = None if delta is None else redactor.take(delta)
                if told is not None:
                    yield told
            plan = self._plan(reply, request, context)
            # Only a stream that was read to its end leaves its connection for the next call.
            with suppress(*caught):
                async with asyncio.timeout(REST_SECONDS):
                    await anext(stream, None)
        except caught as error:
            # The exception quotes the server, and the server may quote the key.
            raise self._failed(translated(error, self._failures()), reply, request) from None
        except PlannerError as failure:
            self._failed(failure, reply, request)
            raise
        finally:
            if stream is not None:
                await stream.close()
        for rest in redactor.rest():
            yield rest
        yield plan

    async def _whole(self, context: Context) -> Plan:
        client, request = await self._ready(context)
        reply = Reply()
        try:
            reply.whole(await client.messages.create(**request.body))
            return self._plan(reply, request, context)
        except expected() as error:
            raise self._failed(translated(error, self._failures()), reply, request) from None
        except PlannerError as failure:
            self._failed(failure, reply, request)
            raise

    def _used(self, reply: Reply, request: Request) -> Usage | None:
        return bound_of(reply, request, self._prices, self.model)

    def _failed(self, failure: PlannerError, reply: Reply, request: Request) -> PlannerError:
        """Give a failure the usage of its answer, as far as the server has told it."""
        if failure.usage is None:
            failure.usage = self._used(reply, request)
        return failure

    async def _ready(self, context: Context) -> tuple[AsyncAnthropic, Request]:
        options = self._options(context)
        try:
            client = await self._client.open()
        except CannotStart as error:
            raise self._failures().failure(
                names.AUTHENTICATION, error.reason, usage=NOTHING_USED
            ) from error
        try:
            return client, self._shape.request(context, options)
        except InvalidValue as error:
            raise self._bad_options(error) from error

    def _plan(self, reply: Reply, request: Request, context: Context) -> Plan:
        plan = plan_of(reply, request, context.output_schema, IMPL, self._failures())
        usage = usage_of(reply, self._prices, self.model)
        if usage is None:  # The server reports no usage: the worst case counts, so limits hold.
            left = context.remaining
            limited = (left.input_tokens, left.output_tokens, left.cost) != (None, None, None)
            usage = self.worst_case(context) if limited else NOTHING_USED
        return self._client.secrets().plan(msgspec.structs.replace(plan, usage=usage))

    def _options(self, context: Context) -> AnswerOptions:
        try:
            return self._answer.of(context.task, IMPL)
        except InvalidValue as error:
            raise self._bad_options(error) from error

    def _bad_options(self, error: InvalidValue) -> PlannerError:
        return self._failures().failure(names.BAD_OPTIONS, str(error), usage=NOTHING_USED)

    def _failures(self) -> Failures:
        return Failures(IMPL, CODES, self._client.secrets())


def _thinking(thinking: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if thinking is None:
        return None
    checked = _json("thinking", thinking)
    if not isinstance(checked.get("type"), str):
        raise InvalidValue("thinking", 'must have a "type", e.g. {"type": "adaptive"}')
    return checked


def _json(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy of a JSON object, so that later changes by the caller have no effect."""
    try:
        made = msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidValue(name, f"is not valid JSON: {error}") from error
    if not isinstance(made, dict):
        raise InvalidValue(name, "must be a mapping")
    return made
