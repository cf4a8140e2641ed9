"""OpenAIAPIPlanner: the common part of the planners for OpenAI's two APIs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from agentic_kernel_engine import providers
from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import (
    AnswerOptions,
    APIPlanner,
    Function,
    Reader,
    is_strict,
    present,
)

from .caching import cache_key, is_own
from .client import Client
from .failures import CODES, IMPL, VAGUE, explained
from .prices import PRICES

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""The fields that limit the tokens of an answer."""


class PlannerOptions(providers.SDKOptions["AsyncOpenAI"], total=False):
    """Keyword arguments of both planners, in addition to the model."""

    organization: str | None
    """None for ``OPENAI_ORG_ID``."""
    project: str | None
    """None for ``OPENAI_PROJECT_ID``."""


class OpenAIAPIPlanner(APIPlanner):
    """A planner that asks a model through OpenAI's SDK.

    Use `OpenAIPlanner` or `OpenAIChatPlanner`.
    """

    impl = IMPL
    client = Client
    codes = CODES
    vague = VAGUE
    explain = staticmethod(explained)
    listed = PRICES
    said: ClassVar[str]
    """The field of a request that holds the conversation."""

    def _form(self, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
        # OpenAI takes a schema whose root is an object, and enforces it if it is strict.
        if schema is None or schema.get("type") != "object":
            return None
        return {"name": "answer", "schema": schema, "strict": is_strict(schema)}

    @abstractmethod
    def _body(self, context: Context, options: AnswerOptions) -> tuple[dict[str, Any], Reader]:
        """Return the fields that the two APIs name differently, and the reader of the answer."""

    @abstractmethod
    def _function(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a function, or the name of one, in the form of the API."""

    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> tuple[Mapping[str, Any], Reader]:
        """See `APIPlanner`.

        The conversation goes into ``extra_body``, because it already has its final form: elsewhere
        the SDK would transform all of it again at every turn.
        """
        request, reader = self._body(context, options)
        request |= present(temperature=options.temperature, top_p=options.top_p)
        request |= {"model": self.model, "stream": self._streams}
        if shown:
            request["tools"] = [self._function(each.described("parameters")) for each in shown]
            choice = options.choice(context)
            plain = choice in ("auto", "none", "required")
            request["tool_choice"] = choice if plain else self._function({"name": choice})
            request["parallel_tool_calls"] = self._parallel
        if self._tools:
            request["tools"] = [*request.get("tools", ()), *self._tools]
        if not self._extra.keys().isdisjoint(LIMITS):  # The APIs refuse two limits of one answer.
            request = {name: value for name, value in request.items() if name not in LIMITS}
        request["extra_body"] = {self.said: request[self.said], **self._extra}
        request[self.said] = []
        request["prompt_cache_key"] = cache_key(context.task)
        return request, reader

    @staticmethod
    def _known(client: AsyncOpenAI, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request that the server of a client knows."""
        given = dict(request)
        if not is_own(client):
            del given["prompt_cache_key"]
        elif given.get("parallel_tool_calls"):
            # That is the default there, and o1 and o3-mini refuse the field.
            del given["parallel_tool_calls"]
        return given
