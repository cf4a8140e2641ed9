"""APIPlanner: the base class of planners that ask a model through a vendor's SDK."""

from __future__ import annotations

import asyncio
import copy
from abc import abstractmethod
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, Self

import msgspec

from agentic_kernel import CannotStart, InvalidValue, Task

from .. import values
from ..inputs import Inputs
from ..plans.ending import PlannerError
from ..plans.plan import LARGEST, NOTHING_USED, Delta, Plan, Usage
from ..seams.planner import AsksModel, Context, Counting, Forecast, TakesOptions
from ..substrate import Accepting
from . import failures as names
from .answers import Malformed
from .attachments import DOCUMENTS, documents_of, images_of
from .client import SDKClient
from .connection import broken
from .edges import check_flag, check_model, check_prices, check_seconds
from .failures import Failures
from .fields import check_fields
from .forecast import input_bound
from .hosted import hosted_tools
from .instructions import instructions
from .keywords import check_keywords
from .offers import Function, functions, offered
from .options import FURTHER, AnswerOptions, loop_inputs
from .pacing import Pace
from .patience import Patience
from .planner_options import DEFAULTS
from .pricing import Price, price_of
from .provider_planner import Closing, Renaming
from .reader import Answer, Counted, Reader, Unusable, plan_of, unshown
from .sampling import check_tokens
from .secrets import Redactor, secrets_in
from .stream_events import next_pieces, read_rest, read_usage
from .strict import in_words
from .transport import Responses

COUNT_SECONDS: Final = 10.0
"""The most seconds that the vendor may take to count a prompt."""
_LOST: Final = (names.TIMEOUT, names.CONNECTION)
"""Failures that do not harm an answer which has its end."""
_CHOICES: Final = ("auto", "none", "required")
"""Values of ``tool_choice`` that name no function."""
_OURS: Final = frozenset({"stream", "messages", "input", "contents"})
"""Fields of a request that ``extra_body`` cannot replace: its conversation, and its form."""


class APIPlanner(Accepting, AsksModel, Counting, Forecast, TakesOptions, Renaming, Closing):
    """A planner that asks a model through a vendor's SDK.

    A provider says only: its request, how to read an event, how to explain an error, its prices and
    its names. One planner serves any number of Tasks at the same time, on one pool of connections.
    It keeps nothing of a run. It imports the SDK and makes a client when it accepts or plans the
    first Task. A Task may set the options of `answering` by ``<impl>/<name>`` in its metadata.

    Args:
        model: Name of the model.
        options: The provider's keywords; see `PlannerOptions`.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
        TypeError: There is no such keyword.
    """

    impl: str
    """The first part of its failure codes, and of the keys by which a Task sets its options."""
    wire: ClassVar[str]
    """The API whose opaque items its plans hold; `impl` if the provider has only one API."""
    images: ClassVar[str] = "by content or address"
    """The form in which a Task brings images; see `Inputs`."""
    documents: ClassVar[str] = ""
    """The form in which a Task brings documents; see `Inputs`."""
    hosting: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """By word of `HostedTool`: the tool that the vendor runs."""
    hosting_needs: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By word: the fields that the user has to give."""
    inputs: ClassVar[Inputs]
    """The inputs that it takes."""
    mappings: ClassVar[tuple[str, ...]] = ("extra_body",)
    """The provider's own keywords whose values are JSON objects, or None."""
    merged: ClassVar[tuple[str, ...]] = ()
    """The fields of ``extra_body`` that are JSON objects, and are added to the planner's own."""
    own: ClassVar[tuple[str, ...]] = ()
    """Its other keywords; the provider checks them itself."""
    client: ClassVar[type[SDKClient]]
    """The holder of its client."""
    codes: ClassVar[Mapping[str, str]]
    """Name of each of the vendor's error codes."""
    vague: ClassVar[Mapping[str, str]] = {}
    """Name of each code that says less than an HTTP status; it counts if there is none."""
    listed: ClassVar[Mapping[str, Price]] = {}
    """The vendor's prices by model."""
    answering: ClassVar[type[AnswerOptions]] = AnswerOptions
    """Checks the options of an answer."""
    unopened: ClassVar[str] = names.AUTHENTICATION
    """The failure of a call whose client cannot be made."""
    pings: ClassVar[float] = 10
    """A server that sends only signs of life, or events without a piece of the answer, may take
    this many times ``timeout`` for the next piece: a model may think for long without output."""

    model = ""
    """The model's name, as requests give it."""
    has_fallback = False
    """True if other planners answer after its failures: a server that is down refuses no Task."""

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "impl"):
            cls.inputs = loop_inputs(cls.impl, cls.images, cls.answering, cls.documents)
            cls.wire = getattr(cls, "wire", cls.impl)

    def __init__(self, model: str, options: Mapping[str, Any]) -> None:
        keywords = {"client", *self.client.keywords, *self.mappings, *self.own, *FURTHER}
        given: dict[str, Any] = {**DEFAULTS, **options}
        check_keywords(type(self).__name__, given, {"model", *DEFAULTS, *keywords})
        check_model(model)
        check_seconds(given["timeout"])
        check_flag(given["stream"], "stream")
        check_flag(given["parallel_tool_calls"], "parallel_tool_calls")
        check_prices(given["prices"])
        check_tokens(given["context_tokens"], "context_tokens")
        self.model = model
        names = ("max_tokens", "temperature", "system", "tool_choice", *FURTHER)
        self.options = self.answering(**{name: given[name] for name in names if name in given})
        self._timeout: float = given["timeout"]
        self._streams: bool = given["stream"]
        self._offers = offered(given["offers"])
        self._prices = self.listed if given["prices"] is None else dict(given["prices"])
        self._context_tokens: int | None = given["context_tokens"]
        self._parallel: bool = given["parallel_tool_calls"]
        self._given: dict[str, Any] = {
            name: json_mapping(name, given[name]) if name in self.mappings else given[name]
            for name in (*self.mappings, *self.own)
            if given.get(name) is not None
        }
        self._extra = self._given.get("extra_body", {})
        self._tools: list[Any] = self._extra.pop("tools", [])
        """The tools that the server runs, or that ``extra_body`` adds to the others."""
        if not isinstance(self._tools, list):
            raise InvalidValue("extra_body", "has tools that are not a list")
        for index, tool in enumerate(self._tools):
            if not isinstance(tool, Mapping):
                raise InvalidValue(
                    f"extra_body.tools[{index}]", "is not a mapping; give its fields"
                )
        for name in _OURS & self._extra.keys():
            raise InvalidValue(
                "extra_body", f"has {name}, and the planner sets it itself; remove it"
            )
        self._merged = {
            name: json_mapping(f"extra_body.{name}", self._extra.pop(name))
            for name in self.merged
            if name in self._extra
        }
        for name in self.mappings:
            if name != "extra_body":  # A compatible server has fields of its own.
                check_fields(self._given.get(name, {}), name)
        hosted = hosted_tools(given["hosted"], self.hosting, self.hosting_needs)
        self._tools = [*hosted, *self._tools]
        self._named()
        self._client = self.client(
            given.get("client"),
            self._timeout,
            secrets_in([self._tools, self._extra, self._merged]),
            **{name: given.get(name) for name in self.client.keywords},
        )

    def with_model(self, model: str) -> Self:
        """Return a planner that asks another model, with the same options and the same client.

        Raises:
            InvalidValue: The name is not valid.
        """
        check_model(model)
        other = copy.copy(self)
        other.model = model
        other._named()
        return other

    def with_fallback(self) -> Self:
        """Return a planner with the same client, for a runtime that asks others after failures."""
        other = copy.copy(self)
        other.has_fallback = True
        return other

    def _named(self) -> None:
        """Set all that depends on the model; `with_model` calls it, too.

        Raises:
            InvalidValue: The name is not valid.
        """
        self._pace = Pace()  # A vendor's limits are those of a model.

    async def accept(self, task: Task) -> None:
        """Refuse a Task that this planner cannot serve.

        Raises:
            CannotStart: An option, an image or a document of the Task is unknown or not valid, or
                there is no valid key. Some providers also find out if a server answers, unless
                `has_fallback`.
        """
        self.inputs.check(task)
        self.options.accept(task, self.impl)
        try:
            images_of(task, by_address=self.images != "by content", decoded=True)
            self._check_attachments(task)
            await (self._client.open() if self.has_fallback else self._client.ready())
        except InvalidValue as error:
            raise CannotStart(str(error), task.id) from error
        except CannotStart as error:
            raise CannotStart(error.reason, task.id) from error

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See `seams.TakesOptions`."""
        self.options.check(options)

    async def close(self) -> None:
        """Close the client, unless it is the user's own."""
        await self._client.close()

    def worst_case(self, context: Context) -> Usage:
        """Return the most that one call may use up; tools that the server runs do not count.

        Raises:
            PlannerError: ``no_price`` if the run limits its cost and the model has no price;
                ``bad_options``.
        """
        options = self._options(context)
        shown = self._shown(context, options)
        told = self._told(context, options) + "".join(
            map(_json, filter(None, (self._extra, self._merged, self._tools)))
        )
        read = input_bound(context, shown, told)
        for known in (self._context_tokens, context.prompt_tokens):
            read = read if known is None else min(read, known)
        written = options.bound(context, self._least())
        price = self._price()
        if price is not None:
            return Usage(read, written, cost=price.most(read, written))
        if context.remaining.cost is None:
            return Usage(read, written)
        raise self.failures.failure(
            names.NO_PRICE,
            f"the run has a max_cost, but {self.model} has no price; give one in prices=, or "
            "remove max_cost",
        )

    async def count(self, context: Context) -> int | None:
        """See `seams.Counting`; None also if the vendor's counter fails, or takes too long.

        The vendors call their counts estimates, so a few tokens more are told.
        """
        try:
            client, _, request, _ = await self._prepared(context)
            async with asyncio.timeout(min(self._timeout, COUNT_SECONDS)):
                tokens = await self.counted(client, self.model, request)
        except Exception:
            return None
        if type(tokens) is not int or not 0 < tokens <= LARGEST:
            return None
        return tokens + max(tokens // 20, 16)

    def plan(self, context: Context) -> AsyncGenerator[Delta | Plan, None] | Awaitable[Plan]:
        """Return the pieces of the answer as they come, then the plan; leaving them ends the call.

        Without streaming, return an awaitable of the plan.

        Raises:
            PlannerError: Its code is `impl`, a slash and a name of `providers.failures`.
        """
        return self._pieces(context) if self._streams else self._whole(context)

    @property
    def failures(self) -> Failures:
        """A factory of failures in which the client's keys are redacted."""
        return Failures(self.impl, self.codes, self._client.secrets, self.vague)

    @abstractmethod
    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> tuple[Mapping[str, Any], Reader]:
        """Return the arguments of the SDK's method, and the reader of its answer.

        Raises:
            InvalidValue: An option, or an image of the Task, is not valid.
        """

    @abstractmethod
    def _ask(self, client: Any, request: Mapping[str, Any]) -> Awaitable[Any]:
        """Call the SDK's method; its result is a response, or the iterator of a stream."""

    @staticmethod
    async def counted(client: Any, model: str, request: Mapping[str, Any]) -> Any:
        """Return the tokens of a prompt by the vendor's counter; a provider with one sets this."""
        return None

    def _explain(self, error: Exception, request_id: str | None) -> PlannerError | None:
        """Return the failure for an error that the server answered with; None for other errors."""
        return self.explain(self.failures, error, request_id)

    @staticmethod
    def explain(
        failures: Failures, error: Exception, request_id: str | None
    ) -> PlannerError | None:
        """Return what `_explain` returns; a provider that needs nothing else sets this one."""
        return None

    def _form(self, schema: Mapping[str, Any]) -> Any:
        """Return an answer's schema as the API takes it; None if it has to be told in words."""
        return None

    def _least(self) -> int:
        """Return the smallest token limit of an answer that the API accepts."""
        return 1

    def _shown(self, context: Context, options: AnswerOptions) -> list[Function]:
        """Return the functions that the model is shown."""
        return functions(context.tools, self._offers)

    def _price(self) -> Price | None:
        """Return the price of the model; None if it has none."""
        return price_of(self._prices, self.model)

    def _told(self, context: Context, options: AnswerOptions) -> str:
        """Return the instructions that the model gets in addition to the conversation."""
        told = [instructions(context, options.system)]
        schema = context.output_schema
        if schema is not None and self._form(schema) is None:
            told.append(in_words(schema))
        return "\n\n".join(filter(None, told))

    async def _whole(self, context: Context) -> Plan:
        async with aclosing(self._pieces(context)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Plan):
                    return piece
        raise AssertionError("the pieces end with a plan")

    async def _pieces(self, context: Context) -> AsyncGenerator[Delta | Plan, None]:
        client, shown, request, reader = await self._prepared(context)
        begun, response, opened = False, None, list[Any]()
        patience = Patience()
        if self._pace.known:
            waited = False
            async with aclosing(self._pace.turn(_about(context))) as looks:
                async for _ in looks:
                    waited = True
                    yield Delta("", usage=NOTHING_USED)
            if waited:  # From here on the call may use up all that it reserved.
                yield Delta("", usage=self.worst_case(context))
        try:
            with Responses(opened):
                response = await patience.wait(self._timeout, self._ask(client, request))
            secrets = self._client.secrets  # Now, because an SDK may fetch a key when it asks.
            redactor, longest = Redactor(secrets), self._timeout * self.pings
            if not self._streams:
                reader.whole(response)
            while self._streams and not (reader.done or reader.ended):
                event = next_pieces(response, reader, opened, begun=begun)
                pieces = await patience.wait(longest, event)
                if pieces is None:
                    break
                for piece in pieces:
                    _check_texts(piece.text)
                    told = redactor.take(piece)
                    if told is not None:
                        yield told
                if not begun and (bound := reader.begun()) is not None:
                    begun = True
                    yield Delta("", usage=self._priced(bound))
            if reader.done and self._streams:
                await read_rest(response, reader, patience)
            elif reader.ended:
                try:
                    await read_usage(response, reader, patience)
                except Exception as error:
                    code = self._failure(error, response, reader, opened).code
                    if code.rpartition("/")[2] not in _LOST:
                        raise
            texts, answer = reader.texts(), reader.answer()
            plan = secrets.plan(self._plan(answer, context, shown))
        except Exception as error:
            # The exception quotes the server, and the server may quote the key.
            raise self._failure(error, response, reader, opened) from None
        finally:
            patience.close()
            for each in opened or [getattr(response, "response", None)]:
                self._pace.note(getattr(each, "headers", None) or {})
            if self._streams and response is not None:
                close = getattr(response, "aclose", None) or response.close
                await close()
            for each in opened:  # Does nothing to one that is closed.
                await each.aclose()
            opened.clear()  # The HTTP library's timers keep the context, and so this list.
        for piece in unshown(answer, texts) if self._streams else ():
            told = redactor.take(piece)
            if told is not None:
                yield told
        for piece in redactor.rest():
            yield piece
        yield plan

    async def _prepared(
        self, context: Context
    ) -> tuple[Any, list[Function], Mapping[str, Any], Reader]:
        options = self._options(context)
        try:
            client = await self._opened(context, options)
        except CannotStart as error:
            raise self._refused(self.unopened, error.reason) from error
        if DOCUMENTS in context.task.metadata and not self.documents:
            raise self._refused(
                names.BAD_OPTIONS,
                f"the Task has {DOCUMENTS!r}, and {self.impl} reads no documents; leave them out, "
                "or use a model that reads them",
            )
        shown = self._shown(context, options)
        choice = options.choice(context)
        if (
            choice not in _CHOICES
            and choice not in (each.name for each in shown)
            and choice not in self._hosted()
        ):
            raise self._refused(
                names.BAD_OPTIONS,
                f"tool_choice is {choice}, and this step has no function of that name; use auto, "
                "none, required, or the name of a tool or an offer of this step",
            )
        try:
            self._check_attachments(context.task)
            request, reader = self._request(context, options, shown)
        except InvalidValue as error:
            raise self._refused(names.BAD_OPTIONS, str(error)) from error
        if self._tools:  # The input may grow after the server has counted it.
            reader.most = None
        return client, shown, request, reader

    async def _opened(self, context: Context, options: AnswerOptions) -> Any:
        """Return the client; a provider may ask the server for what its request needs.

        Raises:
            CannotStart: The client cannot be made.
        """
        return await self._client.open()

    def _check_attachments(self, task: Task) -> None:
        """Refuse images and documents in a form that the API does not take.

        Raises:
            InvalidValue: One of them is not valid, or has another form.
        """
        images_of(task, by_address=self.images != "by content")
        documents_of(task, by_address=self.documents != "by content")

    def _hosted(self) -> list[str]:
        """Return the names of the tools that the user added to each request."""
        named = [each.get("name") for each in self._tools if isinstance(each, Mapping)]
        return [name for name in named if isinstance(name, str)]

    def _options(self, context: Context) -> AnswerOptions:
        try:
            return self.options.of(context.task, self.impl, context.options)
        except InvalidValue as error:
            raise self._refused(names.BAD_OPTIONS, str(error)) from error

    def _refused(self, name: str, message: str) -> PlannerError:
        """Return the failure of a call that was not sent."""
        return self.failures.failure(name, message, usage=NOTHING_USED)

    def _failure(
        self, error: Exception, response: Any, reader: Reader, opened: Sequence[Any] = ()
    ) -> PlannerError:
        """Return the failure of a call, with its usage as far as the server has told it."""
        failures, request_id = self.failures, _request_id(response)
        answered = partial(failures.failure, request_id=request_id)
        failure = error if isinstance(error, PlannerError) else self._explain(error, request_id)
        if failure is None and isinstance(error, Unusable):
            failure = answered(error.name, str(error), **error.metadata)
        elif failure is None and isinstance(error, Malformed):
            failure = answered(names.BAD_RESPONSE, str(error))
        elif failure is None:
            http, sdk = map(import_module, (self.client.http, self.client.sdk))
            failure = broken(failures, error, http, opened, sdk)
        if failure.usage is None:
            with suppress(ValueError):
                counted = reader.used()
                known = counted is not None and not counted.uncounted
                failure.usage = self._priced(counted) if counted and known else None
        return failure

    def _plan(self, answer: Answer, context: Context, shown: Sequence[Function]) -> Plan:
        named = (part for call in answer.calls for part in (call.id, call.name))
        _check_texts(answer.text, answer.reasoning, answer.model, *named)
        plan = plan_of(answer, shown, context.output_schema, self.wire)
        usage = self._usage(answer, context)
        return msgspec.structs.replace(plan, usage=usage, model=plan.model or self.model)

    def _usage(self, answer: Answer, context: Context) -> Usage:
        # For what the server does not report, the worst case counts, so that limits still hold.
        counted, left = answer.usage, context.remaining
        limited = (left.input_tokens, left.output_tokens, left.cost) != (None, None, None)
        if counted is None:
            return self.worst_case(context) if limited else NOTHING_USED
        if counted.uncounted and limited:
            counted = counted.filled(self.worst_case(context))
        return self._priced(counted)

    def _priced(self, counted: Counted) -> Usage:
        usage, price = counted.usage, self._price()
        if usage.reasoning_tokens > usage.output_tokens:  # It is a part of the output.
            usage = msgspec.structs.replace(usage, reasoning_tokens=usage.output_tokens)
        if price is None:
            return usage
        return msgspec.structs.replace(usage, cost=price.cost(usage, counted.written))


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields of a request that have a value other than None."""
    return {name: value for name, value in fields.items() if value is not None}


def json_mapping(name: str, value: Any) -> dict[str, Any]:
    """Check a mapping that the user gave, and return a copy, so that later changes have no effect.

    Raises:
        InvalidValue: The value is not a mapping, or not valid JSON.
    """
    if not isinstance(value, Mapping):
        raise InvalidValue(name, f"must be a mapping, not {type(value).__name__}")
    values.check(value, name)
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return made


def _check_texts(*texts: str) -> None:
    """Refuse an answer with a text that no store accepts, because it can be asked for again.

    Raises:
        Malformed: A text has NUL or a lone surrogate.
    """
    for text in texts:
        if not text.isascii() or "\0" in text:
            try:
                values.check_text(text, "the answer")
            except InvalidValue as error:
                raise Malformed(str(error)) from error


def _about(context: Context) -> int:
    """Return the tokens of a prompt, about: a token has about four bytes."""
    return (context.prompt_tokens or getattr(context.transcript, "size", 0) // 4) or 1


def _request_id(response: Any) -> str | None:
    """Return the vendor's id of a request, if its response has one."""
    found = getattr(response, "_request_id", None)
    if found is None:
        headers = getattr(getattr(response, "response", None), "headers", None) or {}
        found = headers.get("x-request-id") or headers.get("request-id")
    return found if isinstance(found, str) else None


def _json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    return msgspec.json.encode(value).decode()
