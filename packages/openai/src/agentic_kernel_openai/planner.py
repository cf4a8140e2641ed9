"""APIPlanner: what the planners of both of OpenAI's APIs share."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypedDict, TypeVar

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import Context, Delta, Plan, Usage
from agentic_kernel_engine.providers import (
    AnswerOptions,
    Function,
    Malformed,
    Price,
    Redactor,
    functions,
    input_bound,
    instructions,
    offered,
    price_of,
)
from agentic_kernel_engine.providers import failures as names
from agentic_kernel_engine.providers.edges import (
    check_flag,
    check_model,
    check_prices,
    check_seconds,
)

from .answer import Answer, plan_of
from .client import Client
from .failures import IMPL, Reported, Unusable, call_failure, read_failure
from .prices import PRICES
from .schema import in_words

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
_END: Final = object()
_DRAIN_SECONDS: Final = 0.1
"""How long the end of a response is waited for behind its last event: a response that was read to
its end leaves its connection for the next call."""


class PlannerOptions(TypedDict, total=False):
    """What both planners take beside their model."""

    api_key: str | None
    """None for the environment variable ``OPENAI_API_KEY``."""
    base_url: str | None
    """None for ``OPENAI_BASE_URL``, or OpenAI's own server."""
    organization: str | None
    """None for ``OPENAI_ORG_ID``."""
    project: str | None
    """None for ``OPENAI_PROJECT_ID``."""
    client: AsyncOpenAI | None
    """The SDK's client, if it should be another than the default one. It is never closed, and what
    it does about redirects and compressed responses is left to it."""
    timeout: float
    """Seconds between two pieces of an answer; without `stream`, for all of it. 120 by default."""
    max_tokens: int
    """See `AnswerOptions`; 4096 by default. A Task overrides it, and the next three, by
    ``openai/<name>`` in its metadata."""
    temperature: float | None
    system: str | None
    tool_choice: str
    stream: bool
    """Whether the answer is asked for piece by piece; True by default."""
    offers: Collection[str]
    """Actions of the Loop, by name, that the model is offered as functions; see
    `agentic_kernel_engine.providers.OFFERS`."""
    prices: Mapping[str, Price] | None
    """By model; None for `PRICES`."""
    context_tokens: int | None
    """The model's context, if it should count as the bound of what a call may read; otherwise the
    length of the prompt does."""
    parallel_tool_calls: bool
    """Whether one answer may call several functions; True by default."""
    extra_body: Mapping[str, Any]
    """Further fields of each request, as a compatible server may want them. They win over those
    that are sent anyway."""


class Reader(Protocol):
    """Puts an answer together from what is streamed."""

    done: bool
    """Whether nothing that matters can follow."""

    def read(self, event: Any) -> Iterable[Delta]:
        """The pieces of the answer in one event.

        Raises:
            Malformed: The event does not fit what came before.
            Reported: It says that the server failed.
        """
        ...

    def answer(self) -> Answer:
        """The whole answer.

        Raises:
            Malformed: Something is missing.
            Reported: The server failed.
        """
        ...


class APIPlanner(ABC):
    """A planner that asks a model through the vendor's SDK.

    Use `OpenAIPlanner` or `OpenAIChatPlanner`. One planner serves any number of Tasks at the same
    time, on one pool of connections.

    Raises:
        InvalidValue: A value makes no sense; it is named.
    """

    impl: str = IMPL
    wire: ClassVar[str]
    """Whose opaque items its plans hold."""
    said: ClassVar[str]
    """The field of a request that holds the conversation."""
    least_tokens: ClassVar[int] = 1
    """The smallest limit of an answer that the API takes."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        organization: str | None = None,
        project: str | None = None,
        client: AsyncOpenAI | None = None,
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
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        check_model(model)
        check_seconds(timeout)
        check_flag(stream, "stream")
        check_flag(parallel_tool_calls, "parallel_tool_calls")
        check_prices(prices)
        if context_tokens is not None and (type(context_tokens) is not int or context_tokens < 1):
            raise InvalidValue("context_tokens", "must be a whole number of at least 1, or None")
        self.model = model
        self.options = AnswerOptions(max_tokens, temperature, system, tool_choice)
        self._timeout = timeout
        self._streams = stream
        self._offers = offered(offers)
        self._prices = PRICES if prices is None else dict(prices)
        self._context_tokens = context_tokens
        self._parallel = parallel_tool_calls
        self._extra_body = json_mapping("extra_body", extra_body or {})
        self._client = Client(api_key, base_url, client, timeout, organization, project)

    async def accept(self, task: Task) -> None:
        """Refuse a Task that cannot be planned for.

        Raises:
            CannotStart: An option of it is not valid, or there is no key.
        """
        self.options.accept(task, self.impl)
        await self._client.load()
        self._client.open()

    async def close(self) -> None:
        """Close the client, unless it is the user's own."""
        await self._client.close()

    def worst_case(self, context: Context) -> Usage:
        """What a call may use up at most.

        Raises:
            PlannerError: ``openai/no_price``, if cost is limited and the model has no price;
                ``openai/bad_options``.
        """
        options = self._options(context)
        shown = functions(context.tools, self._offers)
        read = input_bound(context, shown, self._told(context, options))
        if self._context_tokens is not None:
            read = min(read, self._context_tokens)
        written = options.most(context, self.least_tokens)
        price = price_of(self._prices, self.model)
        if price is not None:
            return Usage(read, written, cost=price.most(read, written))
        if context.remaining.cost is not None:
            raise self._client.failures.failure(
                names.NO_PRICE,
                f"cost is limited, and {self.model} has no price that could be held against the "
                "limit; give prices=",
            )
        return Usage(read, written)

    def plan(self, context: Context) -> Awaitable[Plan] | AsyncIterator[Delta | Plan]:
        """The pieces of the answer as they come, then the plan; leaving them ends the call.

        Without streaming, an awaitable of the plan.

        Raises:
            PlannerError: Each code is in the table of the documentation.
        """
        return self._pieces(context) if self._streams else self._whole(context)

    @abstractmethod
    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> dict[str, Any]:
        """The arguments of the SDK's method.

        Raises:
            InvalidValue: An option, or an image of the Task, is not valid.
        """

    @abstractmethod
    def _ask(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> Awaitable[Any]:
        """The one call of the SDK."""

    @abstractmethod
    def _reader(self) -> Reader:
        """Reads one streamed answer."""

    @abstractmethod
    def _read_whole(self, response: Any) -> Answer:
        """The answer in a response that was not streamed; raises as a `Reader`."""

    async def _whole(self, context: Context) -> Plan:
        shown, request = self._prepared(context)
        response = await self._call(self._ask(self._opened(), request))
        request_id = getattr(response, "_request_id", None)
        try:
            return self._plan(self._read_whole(response), context, shown)
        except (Unusable, Malformed, Reported) as error:
            raise read_failure(self._client.failures, error, request_id) from None

    async def _pieces(self, context: Context) -> AsyncIterator[Delta | Plan]:
        shown, request = self._prepared(context)
        stream = await self._call(self._ask(self._opened(), request))
        request_id = stream.response.headers.get("x-request-id")
        reader, redactor = self._reader(), Redactor(self._client.secrets)
        try:
            while not reader.done:
                event = await self._call(anext(stream, _END))
                if event is _END:
                    break
                for piece in reader.read(event):
                    told = redactor.take(piece)
                    if told is not None:
                        yield told
            await _drain(stream)
            plan = self._plan(reader.answer(), context, shown)
        except (Unusable, Malformed, Reported) as error:
            raise read_failure(self._client.failures, error, request_id) from None
        finally:
            await stream.close()
        for piece in redactor.rest():
            yield piece
        yield plan

    def _prepared(self, context: Context) -> tuple[list[Function], dict[str, Any]]:
        options = self._options(context)
        shown = functions(context.tools, self._offers)
        choice = options.choice(context)
        if choice not in ("auto", "none", "required", *(each.name for each in shown)):
            raise self._client.failures.failure(
                names.BAD_OPTIONS, f"tool_choice is {choice}, which the model is not shown here"
            )
        try:
            request = self._request(context, options, shown)
        except InvalidValue as error:
            raise self._client.failures.failure(names.BAD_OPTIONS, str(error)) from error
        if options.temperature is not None:
            request["temperature"] = options.temperature
        if shown:
            request["parallel_tool_calls"] = self._parallel
        # In this form already: the SDK would go through all of it again, at every turn.
        said = {self.said: request[self.said]}
        request[self.said] = []
        request["extra_body"] = {**said, **self._extra_body}
        return shown, {"model": self.model, "stream": self._streams, **request}

    def _options(self, context: Context) -> AnswerOptions:
        try:
            return self.options.of(context.task, self.impl)
        except InvalidValue as error:
            raise self._client.failures.failure(names.BAD_OPTIONS, str(error)) from error

    def _told(self, context: Context, options: AnswerOptions) -> str:
        """What the model is told beside the conversation."""
        told = [instructions(context, options.system), in_words(context.output_schema)]
        return "\n\n".join(filter(None, told))

    def _opened(self) -> AsyncOpenAI:
        try:
            return self._client.open()
        except CannotStart as error:
            raise self._client.failures.failure(names.AUTHENTICATION, str(error)) from error

    async def _call(self, asked: Awaitable[T]) -> T:
        """What the SDK gives, within `timeout`, also where a server sends signs of life only."""
        try:
            async with asyncio.timeout(self._timeout):
                return await asked
        except Exception as error:
            # What it raised quotes the server, who may quote the key.
            raise call_failure(self._client.failures, error) from None

    def _plan(self, answer: Answer, context: Context, shown: Sequence[Function]) -> Plan:
        plan = plan_of(answer, shown, context.output_schema, self.wire)
        whole = Plan(
            plan.actions,
            plan.text,
            plan.reasoning,
            self._usage(answer, context),
            plan.provider,
            answer.model or self.model,
        )
        return self._client.secrets.plan(whole)

    def _usage(self, answer: Answer, context: Context) -> Usage:
        used = answer.usage
        if used is None:
            # A server that does not count must not lift a limit.
            left = context.remaining
            limited = (left.input_tokens, left.output_tokens, left.cost) != (None, None, None)
            return self.worst_case(context) if limited else Usage()
        price = price_of(self._prices, self.model)
        cost = 0.0 if price is None else price.cost(used, answer.written)
        return Usage(
            used.input_tokens, used.output_tokens, used.cached_tokens, used.reasoning_tokens, cost
        )


def json_mapping(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping that the user gave, checked.

    Raises:
        InvalidValue: It is none, or holds what is no JSON.
    """
    if not isinstance(value, Mapping):
        raise InvalidValue(name, f"must be a mapping, not {type(value).__name__}")
    values.check(value, name)
    return dict(value)


async def _drain(stream: Any) -> None:
    """Read what is left behind the last event that matters, for a moment at most."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while await anext(stream, _END) is not _END:
                pass
