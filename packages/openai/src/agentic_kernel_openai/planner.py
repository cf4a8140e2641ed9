"""APIPlanner: the base class of the planners for OpenAI's two APIs."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypedDict, TypeVar

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import NOTHING_USED, Context, Delta, Plan, PlannerError, Usage
from agentic_kernel_engine.providers import (
    AnswerOptions,
    Function,
    Malformed,
    Price,
    Redactor,
    check_flag,
    check_model,
    check_prices,
    check_seconds,
    functions,
    input_bound,
    instructions,
    loop_inputs,
    offered,
    price_of,
)
from agentic_kernel_engine.providers import failures as names

from .answer import Answer, plan_of
from .client import Client
from .failures import IMPL, Reported, Unusable, call_failure, read_failure
from .prices import PRICES
from .schema import in_words

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
INPUTS: Final = loop_inputs(IMPL, "by content or address")
"""The inputs that both planners take."""
_END: Final = object()
_DRAIN_SECONDS: Final = 0.1
"""Seconds to read the rest of a response after its last event: only a response that was read to its
end leaves its connection for the next call."""


class PlannerOptions(TypedDict, total=False):
    """Keyword arguments of both planners, in addition to the model."""

    api_key: str | None
    """None for the environment variable ``OPENAI_API_KEY``."""
    base_url: str | None
    """None for ``OPENAI_BASE_URL``, or for OpenAI's own server if that is not set."""
    organization: str | None
    """None for ``OPENAI_ORG_ID``."""
    project: str | None
    """None for ``OPENAI_PROJECT_ID``."""
    client: AsyncOpenAI | None
    """A client of the SDK, used instead of the default one. The planner never closes it, and does
    not change how it treats redirects and compressed responses."""
    timeout: float
    """Seconds to wait for the next piece of an answer; without `stream`, for the whole answer. 120
    by default."""
    max_tokens: int
    """See `AnswerOptions`; 4096 by default. A Task overrides this option and the next three by
    ``openai/<name>`` in its metadata."""
    temperature: float | None
    system: str | None
    tool_choice: str
    stream: bool
    """True (the default) to receive the answer piece by piece."""
    offers: Collection[str]
    """Names of the Loop's actions that the planner offers to the model as functions; see
    `agentic_kernel_engine.providers.OFFERS`."""
    prices: Mapping[str, Price] | None
    """Prices by model; None for `PRICES`."""
    context_tokens: int | None
    """Tokens of the model's context: `worst_case` counts no prompt as longer. None if only the
    length of the prompt is the bound."""
    parallel_tool_calls: bool
    """True (the default) if one answer may call several functions."""
    extra_body: Mapping[str, Any]
    """Further fields of each request, for example for a compatible server. They override the
    planner's own fields."""


class Reader(Protocol):
    """Builds an answer from the events of a stream."""

    done: bool
    """True once no later event can change the answer."""

    def read(self, event: Any) -> Iterable[Delta]:
        """Return the pieces of the answer in one event.

        Raises:
            Malformed: The event does not fit the events before it.
            Reported: The event reports that the server failed.
        """
        ...

    def answer(self) -> Answer:
        """Return the whole answer.

        Raises:
            Malformed: A part of the answer is missing.
            Reported: The server reported that it failed.
        """
        ...

    def used(self) -> tuple[Usage, int] | None:
        """Return the usage that the server reported, and the tokens written to a cache.

        Returns:
            None if the server has not reported the usage of the whole answer.

        Raises:
            Malformed: A count in it is not valid.
        """
        ...


class APIPlanner(ABC):
    """A planner that asks a model through the vendor's SDK.

    Use `OpenAIPlanner` or `OpenAIChatPlanner`. One planner serves any number of Tasks at the same
    time, on one pool of connections.

    Raises:
        InvalidValue: A value is not valid; the error names it.
    """

    impl: str = IMPL
    wire: ClassVar[str]
    """The API whose opaque items its plans hold."""
    said: ClassVar[str]
    """The field of a request that holds the conversation."""
    least_tokens: ClassVar[int] = 1
    """The smallest token limit of an answer that the API accepts."""

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
        """The model's name, as requests give it."""
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
        """Refuse a Task that this planner cannot serve.

        Raises:
            CannotStart: An option of the Task is unknown or not valid, or there is no valid key.
        """
        INPUTS.check(task)
        self.options.accept(task, self.impl)
        await self._client.load()
        self._client.open()

    async def close(self) -> None:
        """Close the client, unless it is the user's own."""
        await self._client.close()

    def worst_case(self, context: Context) -> Usage:
        """Return the most that one call may use up.

        Raises:
            PlannerError: ``openai/no_price`` if the run limits its cost and the model has no
                price; ``openai/bad_options``.
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
                f"the run has a max_cost, but {self.model} has no price; give one in prices=, or "
                "remove max_cost",
            )
        return Usage(read, written)

    def plan(self, context: Context) -> Awaitable[Plan] | AsyncIterator[Delta | Plan]:
        """Return the pieces of the answer as they come, then the plan; leaving them ends the call.

        Without streaming, return an awaitable of the plan.

        Raises:
            PlannerError: The documentation has a table of its codes.
        """
        return self._pieces(context) if self._streams else self._whole(context)

    @abstractmethod
    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> dict[str, Any]:
        """Return the arguments of the SDK's method.

        Raises:
            InvalidValue: An option, or an image of the Task, is not valid.
        """

    @abstractmethod
    def _ask(self, client: AsyncOpenAI, request: Mapping[str, Any]) -> Awaitable[Any]:
        """Call the SDK's method."""

    @abstractmethod
    def _reader(self) -> Reader:
        """Return a reader for one streamed answer."""

    @abstractmethod
    def _read_whole(self, response: Any) -> Answer:
        """Return the answer in a response that was not streamed; raises as a `Reader` does."""

    @abstractmethod
    def _used_by(self, response: Any) -> tuple[Usage, int] | None:
        """Return the usage in a response that was not streamed, as `Reader.used` does."""

    async def _whole(self, context: Context) -> Plan:
        shown, request = self._prepared(context)
        response = await self._call(self._ask(self._opened(), request))
        request_id = getattr(response, "_request_id", None)
        try:
            return self._plan(self._read_whole(response), context, shown)
        except (Unusable, Malformed, Reported) as error:
            failure = read_failure(self._client.failures, error, request_id)
            failure.usage = self._known(partial(self._used_by, response))
            raise failure from None

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
            failure = read_failure(self._client.failures, error, request_id)
            failure.usage = self._known(reader.used)
            raise failure from None
        except PlannerError as failure:
            failure.usage = failure.usage or self._known(reader.used)
            raise
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
                names.BAD_OPTIONS,
                f"tool_choice is {choice}, and this step has no function of that name; use auto, "
                "none, required, or the name of a tool or an offer of this step",
                usage=NOTHING_USED,
            )
        try:
            request = self._request(context, options, shown)
        except InvalidValue as error:
            raise self._refused(names.BAD_OPTIONS, error) from error
        if options.temperature is not None:
            request["temperature"] = options.temperature
        if shown:
            request["parallel_tool_calls"] = self._parallel
        # The conversation goes into extra_body, because it already has its final form: elsewhere
        # the SDK would transform all of it again at every turn.
        said = {self.said: request[self.said]}
        request[self.said] = []
        request["extra_body"] = {**said, **self._extra_body}
        return shown, {"model": self.model, "stream": self._streams, **request}

    def _options(self, context: Context) -> AnswerOptions:
        try:
            return self.options.of(context.task, self.impl)
        except InvalidValue as error:
            raise self._refused(names.BAD_OPTIONS, error) from error

    def _told(self, context: Context, options: AnswerOptions) -> str:
        """Return the instructions that the model gets in addition to the conversation."""
        told = [instructions(context, options.system), in_words(context.output_schema)]
        return "\n\n".join(filter(None, told))

    def _opened(self) -> AsyncOpenAI:
        try:
            return self._client.open()
        except CannotStart as error:
            raise self._refused(names.AUTHENTICATION, error) from error

    def _refused(self, name: str, error: Exception) -> PlannerError:
        """Return the failure of a call that was not sent."""
        return self._client.failures.failure(name, str(error), usage=NOTHING_USED)

    async def _call(self, asked: Awaitable[T]) -> T:
        """Await the SDK for at most `timeout`, even if the server sends only keep-alive signals."""
        try:
            async with asyncio.timeout(self._timeout):
                return await asked
        except Exception as error:
            # The exception quotes the server, and the server may quote the key.
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
            # If the server reports no usage, the worst case counts, so that limits still hold.
            left = context.remaining
            limited = (left.input_tokens, left.output_tokens, left.cost) != (None, None, None)
            return self.worst_case(context) if limited else Usage()
        return self._priced(used, answer.written)

    def _known(self, used: Callable[[], tuple[Usage, int] | None]) -> Usage | None:
        """Return the usage of an answer that cannot be used; None if the server told no valid one.

        Args:
            used: See `Reader.used`.
        """
        try:
            counted = used()
        except Malformed:
            return None
        return None if counted is None else self._priced(*counted)

    def _priced(self, used: Usage, written: int) -> Usage:
        price = price_of(self._prices, self.model)
        cost = 0.0 if price is None else price.cost(used, written)
        return Usage(
            used.input_tokens, used.output_tokens, used.cached_tokens, used.reasoning_tokens, cost
        )


def json_mapping(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Check a mapping that the user gave, and return a shallow copy.

    Raises:
        InvalidValue: The value is not a mapping, or not valid JSON.
    """
    if not isinstance(value, Mapping):
        raise InvalidValue(name, f"must be a mapping, not {type(value).__name__}")
    values.check(value, name)
    return dict(value)


async def _drain(stream: Any) -> None:
    """Read the rest of a stream for at most `_DRAIN_SECONDS`; ignore errors."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while await anext(stream, _END) is not _END:
                pass
