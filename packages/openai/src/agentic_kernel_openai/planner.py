"""OpenAIAPIPlanner: the common part of the planners for OpenAI's two APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from agentic_kernel_engine import providers
from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import AnswerOptions, APIPlanner, Function, present

from .caching import cache_key, is_own
from .client import Client
from .failures import CODES, IMPL, explained
from .prices import PRICES
from .schema import answer_form

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""The fields that limit the tokens of an answer."""


class PlannerOptions(providers.PlannerOptions, total=False):
    """Keyword arguments of both planners, in addition to the model."""

    base_url: str | None
    """None for ``OPENAI_BASE_URL``, or for OpenAI's own server if that is not set."""
    organization: str | None
    """None for ``OPENAI_ORG_ID``."""
    project: str | None
    """None for ``OPENAI_PROJECT_ID``."""
    client: AsyncOpenAI | None
    """A client of the SDK, used instead of the default one. The planner never closes it, and does
    not change how it treats redirects and compressed responses."""
    extra_body: Mapping[str, Any] | None
    """Further fields of each request, for example for a compatible server. They override the
    planner's own fields; only ``tools`` are added to the other tools."""


class OpenAIAPIPlanner(APIPlanner):
    """A planner that asks a model through OpenAI's SDK.

    Use `OpenAIPlanner` or `OpenAIChatPlanner`.
    """

    impl = IMPL
    client = Client
    codes = CODES
    explain = staticmethod(explained)
    listed = PRICES
    said: ClassVar[str]
    """The field of a request that holds the conversation."""

    def _form(self, schema: Mapping[str, Any]) -> Any:
        return answer_form(schema)

    def _sent(
        self,
        request: dict[str, Any],
        context: Context,
        options: AnswerOptions,
        shown: Sequence[Function],
    ) -> Mapping[str, Any]:
        """Return the arguments of the SDK's method from those that the two APIs name differently.

        The conversation goes into ``extra_body``, because it already has its final form: elsewhere
        the SDK would transform all of it again at every turn.
        """
        request |= present(temperature=options.temperature, top_p=options.top_p)
        if shown:
            request["parallel_tool_calls"] = self._parallel
        extra = dict(self._extra)
        if self._tools:
            request["tools"] = [*request.get("tools", ()), *self._tools]
        if any(name in extra for name in LIMITS):  # The APIs refuse two limits of one answer.
            for name in LIMITS:
                request.pop(name, None)
        said = {self.said: request[self.said]}
        request[self.said] = []
        request["extra_body"] = {**said, **extra}
        request["prompt_cache_key"] = cache_key(context.task)
        return {"model": self.model, "stream": self._streams, **request}

    @staticmethod
    def _known(client: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request that the server of a client knows."""
        given = dict(request)
        if not is_own(client):
            del given["prompt_cache_key"]
        return given
