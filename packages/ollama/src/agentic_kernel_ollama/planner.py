"""OllamaPlanner: a Planner that asks a model of an Ollama server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import NOTHING_USED, Context, Delta, Plan, PlannerError, Usage
from agentic_kernel_engine.providers import (
    AnswerOptions,
    Failures,
    Function,
    Price,
    Redactor,
    check_flag,
    check_model,
    check_prices,
    check_seconds,
    input_bound,
    loop_inputs,
    offered,
    price_of,
)
from agentic_kernel_engine.providers import failures as names

from .answer import plan_of
from .client import Client
from .failures import CODES, IMPL, Inconsistent, translated
from .messages import check_images
from .pulling import pulled
from .request import Shape
from .stream import Reply

if TYPE_CHECKING:
    from ollama import AsyncClient

INPUTS: Final = loop_inputs(IMPL, "by content")
"""The inputs that the planner takes."""
PROGRESS: Final = "progress"
"""The channel of the pieces that report the progress of pulling a model."""
REST_SECONDS: Final = 1.0
"""Seconds to read the end of a response after the end of the answer."""
_MISSING: Final = f"{IMPL}/{names.MODEL_NOT_FOUND}"
_FREE: Final = Price(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Unforced(AnswerOptions):
    """Answer options for an API that cannot force a call."""

    def __post_init__(self) -> None:
        AnswerOptions.__post_init__(self)
        if self.tool_choice not in ("auto", "none"):
            raise InvalidValue("tool_choice", "must be auto or none: Ollama cannot force a call")


class OllamaPlanner:
    """A Planner that asks a model of an Ollama server through ``/api/chat``.

    It imports the SDK and creates a client when it accepts or plans the first Task. A Task may set
    ``ollama/max_tokens``, ``ollama/temperature``, ``ollama/system`` and ``ollama/tool_choice`` in
    its metadata, and bring images (`providers.IMAGES`) by their content.

    Args:
        model: E.g. ``qwen3:8b``.
        host: The server's address; None for ``OLLAMA_HOST``, or else ``http://127.0.0.1:11434``.
        api_key: The key for a server that needs one; None for ``OLLAMA_API_KEY``.
        client: A client of your own; the planner never closes it. It keeps its own HTTP timeouts,
            and ``host`` and ``api_key`` cannot be given with it.
        timeout: Seconds without data from the server until the call fails. A large model that the
            server loads first may need more than a minute.
        max_tokens: See `AnswerOptions`; the API's ``num_predict``.
        temperature: See `AnswerOptions`.
        system: See `AnswerOptions`; it replaces the model's own system text.
        tool_choice: ``auto`` or ``none``: Ollama cannot force a call.
        stream: True if the answer comes in pieces. If False, the whole answer must come within
            ``timeout``.
        offers: Actions of the Loop that the model may call in addition to the tools; see
            `providers.OFFERS`.
        prices: None for a server of your own, where calls are free. If given, a run with a
            ``max_cost`` needs the model's price.
        context_tokens: Size of the model's context; `worst_case` counts no prompt as longer. None
            for ``num_ctx`` of ``options``.
        parallel_tool_calls: True if one answer may have several calls. If False, only the first
            call counts.
        think: True, False or a level (``low``, ``medium``, ``high``) of a model's thinking; None
            for its default.
        keep_alive: Time that the model stays loaded: seconds, or a string like ``10m``; a negative
            number means forever. None for the server's default.
        options: Further options of the model, by Ollama's names: ``num_ctx``, ``seed``, ``top_p``.
        pull: True to pull a missing model and then ask it. Pieces on the channel `PROGRESS` report
            the progress.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
    """

    impl = IMPL

    def __init__(
        self,
        model: str,
        *,
        host: str | None = None,
        api_key: str | None = None,
        client: AsyncClient | None = None,
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
        think: bool | str | None = None,
        keep_alive: float | str | None = None,
        options: Mapping[str, Any] = {},
        pull: bool = False,
    ) -> None:
        check_model(model)
        check_seconds(timeout)
        check_prices(prices)
        if context_tokens is not None and (type(context_tokens) is not int or context_tokens < 1):
            raise InvalidValue("context_tokens", "must be a whole number of at least 1, or None")
        flags = (("stream", stream), ("parallel_tool_calls", parallel_tool_calls), ("pull", pull))
        for name, flag in flags:
            check_flag(flag, name)
        given = _options(options)
        self._answer = Unforced(max_tokens, temperature, system, tool_choice)
        self.model = model
        """The model's name, as requests give it."""
        self._timeout = timeout
        self._stream = stream
        self._context_tokens = context_tokens or given.get("num_ctx")
        self._prices = None if prices is None else dict(prices)
        self._parallel = parallel_tool_calls
        self._pull = pull
        self._advice = f"pull it with `ollama pull {model}`, or give pull=True"
        if pull:
            self._advice = "the server cannot pull it either; is its name right?"
        self._shape = Shape(model, offered(offers), _think(think), _keep_alive(keep_alive), given)
        self._client = Client(client, host, api_key, timeout)

    async def accept(self, task: Task) -> None:
        """Refuse a Task if one of its options is not valid or unknown, or if no server answers.

        The planner checks the server once; a server that stops later is ``ollama/connection``.

        Raises:
            CannotStart: The error says what to do.
        """
        INPUTS.check(task)
        self._answer.accept(task, IMPL)
        try:
            check_images(task)
        except InvalidValue as error:
            raise CannotStart(str(error), task.id) from error
        try:
            await self._client.reach()
        except CannotStart as error:
            raise CannotStart(error.reason, task.id) from error

    async def close(self) -> None:
        """Close the connections; the user's own client stays open."""
        await self._client.close()

    def worst_case(self, context: Context) -> Usage:
        """Return the most that one call may use up.

        Raises:
            PlannerError: ``ollama/no_price``, ``ollama/bad_options``.
        """
        options = self._options(context)
        shown = self._shape.functions(context, options)
        read = input_bound(context, shown, self._shape.told(context, options))
        if self._context_tokens is not None:
            read = min(read, self._context_tokens)
        written = options.most(context)
        price = self._price()
        if price is not None:
            return Usage(read, written, cost=price.most(read, written))
        if context.remaining.cost is None:
            return Usage(read, written)
        raise self._failures().failure(
            names.NO_PRICE,
            f"the run has a max_cost, but {self.model} has no price; give one in prices=, or "
            "remove max_cost",
        )

    def plan(self, context: Context) -> AsyncGenerator[Delta | Plan, None] | Awaitable[Plan]:
        """Return the pieces of the answer, then the plan; leaving the stream closes its connection.

        Without streaming, return an awaitable of the plan.

        Raises:
            PlannerError: Its code is ``ollama/`` and a name of `providers.failures`.
        """
        return self._pieces(context) if self._stream else self._whole(context)

    async def _whole(self, context: Context) -> Plan:
        async with aclosing(self._pieces(context)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Plan):
                    return piece
        raise AssertionError("the pieces end with a plan")

    async def _pieces(self, context: Context) -> AsyncGenerator[Delta | Plan, None]:
        client, shown, request = await self._ready(context)
        pull = self._pull
        while True:
            reply, redactor = Reply(), Redactor(self._client.secrets())
            try:
                async with aclosing(self._answered(client, request, reply)) as deltas:
                    async for delta in deltas:
                        told = redactor.take(delta)
                        if told is not None:
                            yield told
            except PlannerError as error:
                if not pull or error.code != _MISSING:
                    error.usage = error.usage or self._known(reply)
                    raise
            else:
                break
            pull = False
            async with aclosing(self._pulled(client)) as deltas:
                async for delta in deltas:
                    yield delta
        plan = self._plan(reply, shown, context)
        for rest in redactor.rest():
            yield rest
        yield plan

    async def _answered(
        self, client: AsyncClient, request: Mapping[str, Any], reply: Reply
    ) -> AsyncGenerator[Delta, None]:
        """Yield the pieces of one answer; afterwards the reply holds the whole answer."""
        try:
            if not self._stream:
                async with asyncio.timeout(self._timeout):
                    part = await client.chat(**request)
                for delta in reply.take(part):
                    yield delta
                return
            chat = cast("AsyncGenerator[Any, None]", await client.chat(**request, stream=True))
            async with aclosing(chat) as parts:
                async for part in parts:
                    for delta in reply.take(part):
                        yield delta
                    if reply.ended:
                        break
                if reply.ended and await _rest(parts) is not None:
                    raise Inconsistent("the answer went on after its end")
        except Exception as error:
            # The exception quotes the server, and the server may quote the key.
            raise translated(error, self._failures(), self._advice) from None

    async def _pulled(self, client: AsyncClient) -> AsyncGenerator[Delta, None]:
        failures = self._failures()
        try:
            async with aclosing(pulled(client, self.model)) as lines:
                async for line in lines:
                    yield Delta(f"{failures.clean(line)}\n", PROGRESS)
        except Exception as error:
            raise translated(error, failures, self._advice) from None

    async def _ready(
        self, context: Context
    ) -> tuple[AsyncClient, Sequence[Function], Mapping[str, Any]]:
        options = self._options(context)
        try:
            client = await self._client.open()
            shown = self._shape.functions(context, options)
            return client, shown, self._shape.request(context, options, shown)
        except CannotStart as error:
            raise self._failures().failure(
                names.CONNECTION, error.reason, usage=NOTHING_USED
            ) from error
        except InvalidValue as error:
            raise self._bad_options(error) from error

    def _plan(self, reply: Reply, shown: Sequence[Function], context: Context) -> Plan:
        try:
            plan = plan_of(
                reply,
                context.step,
                shown,
                context.output_schema,
                self._parallel,
                self._failures(),
            )
        except ValueError as error:
            raise self._failures().failure(
                names.BAD_RESPONSE, str(error), usage=self._known(reply)
            ) from error
        except PlannerError as failure:
            failure.usage = self._known(reply)
            raise
        whole = msgspec.structs.replace(
            plan, usage=self._usage(reply, context), model=plan.model or self.model
        )
        return self._client.secrets().plan(whole)

    def _usage(self, reply: Reply, context: Context) -> Usage:
        left, worst = context.remaining, Usage()
        limited = (left.input_tokens, left.output_tokens, left.cost) != (None, None, None)
        if limited and (reply.read is None or reply.written is None):
            # If the server reports no usage, the worst case counts, so that limits still hold.
            worst = self.worst_case(context)
        return self._priced(
            Usage(
                worst.input_tokens if reply.read is None else reply.read,
                worst.output_tokens if reply.written is None else reply.written,
            )
        )

    def _known(self, reply: Reply) -> Usage | None:
        """Return the usage that the server reported; None if it did not report both counts."""
        if reply.read is None or reply.written is None:
            return None
        return self._priced(Usage(reply.read, reply.written))

    def _priced(self, used: Usage) -> Usage:
        price = self._price()
        return used if price is None else msgspec.structs.replace(used, cost=price.cost(used))

    def _price(self) -> Price | None:
        return _FREE if self._prices is None else price_of(self._prices, self.model)

    def _options(self, context: Context) -> AnswerOptions:
        try:
            return self._answer.of(context.task, IMPL)
        except InvalidValue as error:
            raise self._bad_options(error) from error

    def _bad_options(self, error: InvalidValue) -> PlannerError:
        return self._failures().failure(names.BAD_OPTIONS, str(error), usage=NOTHING_USED)

    def _failures(self) -> Failures:
        return Failures(IMPL, CODES, self._client.secrets())


async def _rest(parts: AsyncGenerator[Any, None]) -> Any:
    """Return the part after the end of an answer; None if there is none, or it cannot be read.

    Only a response that was read to its end leaves its connection for the next call.
    """
    import httpx

    with suppress(TimeoutError, httpx.TransportError):
        async with asyncio.timeout(REST_SECONDS):
            return await anext(parts, None)
    return None


def _think(think: Any) -> bool | str | None:
    if think is None or type(think) is bool or (isinstance(think, str) and think):
        return think
    raise InvalidValue("think", "must be True, False, a level like low, or None")


def _keep_alive(keep_alive: Any) -> float | str | None:
    if type(keep_alive) in (int, float) and math.isfinite(keep_alive):
        return float(keep_alive)
    if keep_alive is None or (isinstance(keep_alive, str) and keep_alive):
        return keep_alive
    raise InvalidValue("keep_alive", "must be a number of seconds, a text like 10m, or None")


def _options(options: Any) -> dict[str, Any]:
    """Check the user's options, and return a copy, so that later changes have no effect."""
    if not isinstance(options, Mapping):
        raise InvalidValue("options", "must be a mapping")
    values.check(options, "options")
    for name, keyword in (("num_predict", "max_tokens"), ("temperature", "temperature")):
        if name in options:
            raise InvalidValue("options", f"has {name}; give {keyword}=")
    size = options.get("num_ctx", 1)
    if type(size) is not int or size < 1:
        raise InvalidValue("options", "has a num_ctx that is not a whole number of at least 1")
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(options))
    return made
