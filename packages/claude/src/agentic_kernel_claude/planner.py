"""ClaudePlanner: a Planner that asks a model of Anthropic, or of a server with the same API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from agentic_kernel import InvalidValue
from agentic_kernel_engine import providers
from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import (
    AnswerOptions,
    APIPlanner,
    Function,
    check_flag,
    check_once,
    conversation,
    present,
    price_of,
)

from .client import Client
from .connector import connected, messages_api
from .counting import counted
from .failures import CODES, VAGUE, explained
from .hosting import HOSTING, NEEDS
from .maximum import Maximum
from .messages import Wire
from .options import MessagesOptions, sampled
from .prices import PRICES
from .schema import form_of
from .stream import Reply
from .strict import tools_of

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

IMPL: Final = "claude"
"""The first part of the failure codes, and of the metadata keys by which a Task sets options; also
the ``runtime_kind`` of the Tasks that the runtime serves, unless it is given another."""

_CHOICES: Final = {"none": "none", "auto": "auto", "required": "any"}


class PlannerOptions(providers.SDKOptions["AsyncAnthropic"], total=False):
    """Keyword arguments of `ClaudePlanner`, in addition to the model.

    ``base_url`` has no ``/v1``, ``client`` is for any platform, and ``extra_body`` repeats no
    keyword of this class.
    """

    thinking: Mapping[str, Any] | None
    """E.g. ``{"type": "adaptive", "display": "summarized"}``; None for the model's default."""
    cache: bool
    """True if the vendor caches the whole prompt for five minutes."""


class ClaudePlanner(APIPlanner):
    """A Planner that asks a model through the Messages API.

    The vendor's current models refuse a temperature, and models that always think accept only
    ``auto`` and ``none`` as tool_choice.

    The plan keeps thinking, citations and the blocks of a server's own tools. The planner sends
    them back unchanged, but leaves out thinking if the content before it has changed. A turn that
    the server paused is a `Thought`: the Loop asks again, and the server goes on.
    """

    impl = IMPL
    client = Client
    codes = CODES
    vague = VAGUE
    explain = staticmethod(explained)
    listed = PRICES
    counted = staticmethod(counted)
    answering = MessagesOptions
    documents = "by content or address"
    hosting = HOSTING
    hosting_needs = NEEDS
    mappings = ("extra_body", "thinking")
    merged = ("output_config",)
    own = ("cache",)

    def __init__(self, model: str, **options: Unpack[PlannerOptions]) -> None:
        super().__init__(model, options)
        self._tools, self._connected = connected(self._tools)
        self._cache = self._given.get("cache", False)
        check_flag(self._cache, "cache")
        self._thinking = self._given.get("thinking", {})
        config = self._merged.get("output_config", {})
        check_once(self.options.effort, "effort", "extra_body", config, "effort")
        if "thinking" in self._given and not isinstance(self._thinking.get("type"), str):
            raise InvalidValue("thinking", 'must have a "type", e.g. {"type": "adaptive"}')

    def _named(self) -> None:
        super()._named()
        self._maximum = Maximum(self.model)
        # Other servers with this API, and older models, may refuse what these models take.
        self._is_listed = price_of(PRICES, self.model) is not None

    def _least(self) -> int:
        budget = self._thinking.get("budget_tokens")
        return budget + 1 if type(budget) is int else 1

    def _form(self, schema: Mapping[str, Any]) -> Any:
        return form_of(schema)

    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> tuple[Mapping[str, Any], Reply]:
        least, system = self._least(), self._told(context, options)
        most = options.most(context, least) or max(self._maximum.tokens, least)
        tools = [*tools_of(shown, strict=self._is_listed), *self._tools]
        wire = Wire(system, tools, bound=self._thinking.get("type") != "enabled")
        wire.add(conversation(context, IMPL))
        form = None if context.output_schema is None else form_of(context.output_schema)
        config = self._merged.get("output_config", {}) | present(effort=options.effort, format=form)
        body = present(
            model=self.model,
            max_tokens=most,
            messages=wire.messages,
            system=system or None,
            tools=tools or None,
            tool_choice=_choice(options.choice(context), self._parallel) if tools else None,
            thinking=self._thinking or None,
            cache_control={"type": "ephemeral"} if self._cache else None,
            output_config=config or None,
            extra_body=self._extra | sampled(options) or None,
        )
        return body | self._connected, Reply(wire, most)

    async def _opened(self, context: Context, options: AnswerOptions) -> AsyncAnthropic:
        client: AsyncAnthropic = await super()._opened(context, options)
        if options.most(context) is None:
            await self._maximum.ask(client)
        return client

    def _ask(self, client: AsyncAnthropic, request: Mapping[str, Any]) -> Any:
        # Without a timeout, the SDK refuses long answers that are not streamed.
        messages = messages_api(client, request)
        return messages.create(**request, stream=self._streams, timeout=client.timeout)


def _choice(choice: str, parallel: bool) -> dict[str, Any]:
    kind = _CHOICES.get(choice)
    made = {"type": kind} if kind else {"type": "tool", "name": choice}
    return made if parallel or choice == "none" else {**made, "disable_parallel_tool_use": True}
