"""PlannerOptions: the keyword arguments of every provider's planner, and their defaults."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypedDict, TypeVar

from .hosted import HostedTool
from .pricing import Price

C = TypeVar("C")


class PlannerOptions(TypedDict, total=False):
    """Keyword arguments of every provider's planner."""

    api_key: str | None
    """None for the environment variable of the provider."""
    timeout: float
    """Seconds without data from the server until the call fails; without ``stream``, for the whole
    answer. 120 by default."""
    max_tokens: int | None
    """See `AnswerOptions`. A Task overrides this option and the next seven by
    ``<provider>/<name>`` in its metadata."""
    temperature: float | None
    system: str | None
    tool_choice: str
    seed: int | None
    """An API that does not have this option, or one of the next three, refuses it."""
    top_p: float | None
    stop: str | Sequence[str] | None
    effort: str | None
    stream: bool
    """True (the default) to receive the answer piece by piece."""
    offers: Collection[str]
    """Names of the Loop's actions that the planner offers to the model as functions; see
    `agentic_kernel_engine.providers.OFFERS`."""
    prices: Mapping[str, Price] | None
    """Prices by model; None for those of the provider."""
    hosted: Sequence[HostedTool] | Mapping[HostedTool, Any]
    """Tools that the vendor runs, e.g. ``["web_search"]``; a mapping has further fields of each."""
    context_tokens: int | None
    """Tokens of the model's context: `worst_case` counts no prompt as longer. None if only the
    length of the prompt is the bound."""
    parallel_tool_calls: bool
    """True (the default) if one answer may call several functions. If the API does not know this
    option, only the first call of an answer counts."""


class SDKOptions(PlannerOptions, Generic[C], total=False):
    """Further keyword arguments of a planner whose SDK has a client of type ``C``."""

    base_url: str | None
    """The server's address; None for the environment variable of the provider, or else for the
    vendor's own server."""
    client: C | None
    """A client of your own, used instead of the default one; the planner never closes it. It keeps
    its HTTP timeouts and how it treats redirects and compressed responses. ``api_key`` and
    ``base_url`` cannot be given with it."""
    extra_body: Mapping[str, Any] | None
    """Further fields of each request, by the API's names, e.g. for a compatible server. They
    override the planner's own fields; only ``tools`` are added to the other tools. The conversation
    and ``stream`` are refused."""


DEFAULTS: Final[Mapping[str, Any]] = {
    "timeout": 120.0,
    "max_tokens": None,
    "temperature": None,
    "system": None,
    "tool_choice": "auto",
    "stream": True,
    "offers": (),
    "hosted": (),
    "prices": None,
    "context_tokens": None,
    "parallel_tool_calls": True,
}
