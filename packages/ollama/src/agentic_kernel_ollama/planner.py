"""OllamaPlanner: a Planner that asks a model of an Ollama server."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Unpack

from agentic_kernel import InvalidValue
from agentic_kernel_engine import edges, providers
from agentic_kernel_engine.loop import Context, Delta, Plan, PlannerError
from agentic_kernel_engine.providers import (
    AnswerOptions,
    APIPlanner,
    Function,
    Price,
    check_flag,
    check_once,
    present,
)
from agentic_kernel_engine.providers import failures as names

from .client import Client
from .failures import CODES, IMPL, explained
from .messages import wire
from .options import LEVELS, OllamaAnswers, sampled
from .pulling import pulled
from .stream import Reply
from .tools import tool_of

if TYPE_CHECKING:
    from ollama import AsyncClient

PROGRESS: Final = "progress"
"""The channel of the pieces that report the progress of pulling a model."""
_DURATION: Final = re.compile(r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?(?:ns|us|µs|ms|s|m|h))+|0")
"""A duration as the server's language writes it."""
_FREE: Final = Price(0.0, 0.0)


class PlannerOptions(providers.PlannerOptions, total=False):
    """Keyword arguments of `OllamaPlanner`, in addition to the model.

    ``api_key`` is for a server that needs one. ``prices`` are for such a server, too: calls of a
    server of your own are free. A large model that the server loads first may need a ``timeout`` of
    more than a minute. ``context_tokens`` is ``num_ctx`` of ``options`` by default. Without
    ``parallel_tool_calls``, only the first call of an answer counts.
    """

    host: str | None
    """The server's address; None for ``OLLAMA_HOST``, or else ``http://127.0.0.1:11434``."""
    client: AsyncClient | None
    """A client of your own; the planner never closes it. It keeps its own HTTP timeouts, and
    ``host`` and ``api_key`` cannot be given with it."""
    think: bool | str | None
    """True, False or a level (``low``, ``medium``, ``high``) of a model's thinking; None for its
    default. The API has the same field for ``effort``."""
    keep_alive: float | str | None
    """Time that the model stays loaded: seconds, or a string like ``10m``; a negative number means
    forever. None for the server's default."""
    options: Mapping[str, Any]
    """Further options of the model, by Ollama's names: ``num_ctx``, ``top_k``. A Task overrides
    ``seed``, ``top_p`` and ``stop`` here."""
    pull: bool
    """True to pull a missing model and then ask it. Pieces on the channel `PROGRESS` report the
    progress."""


class OllamaPlanner(APIPlanner):
    """A Planner that asks a model of an Ollama server through ``/api/chat``.

    When it accepts the first Task, it checks once that a server answers; a server that stops later
    is ``ollama/connection``. The API cannot force a call, so ``tool_choice`` is ``auto`` or
    ``none``.
    """

    impl = IMPL
    images = "by content"
    client = Client
    codes = CODES
    answering = OllamaAnswers
    unopened = names.CONNECTION
    mappings = ("options",)
    own = ("think", "keep_alive", "pull")
    _client: Client

    def __init__(self, model: str, **options: Unpack[PlannerOptions]) -> None:
        super().__init__(model, options)
        think, alive = self._given.get("think"), self._given.get("keep_alive")
        self._model_options = _checked(self._given.get("options", {}))
        check_flag(self._pull, "pull")
        for name in ("seed", "top_p", "stop"):
            given_once = getattr(self.options, name)
            check_once(given_once, name, "options", self._model_options, name)
        check_once(self.options.effort, "effort", "think", present(think=think), "think")
        self._context_tokens = self._context_tokens or self._model_options.get("num_ctx")
        self._free = options.get("prices") is None
        self._same = {"think": _think(think), "keep_alive": _keep_alive(alive)}

    def _named(self) -> None:
        super()._named()
        self._pull = self._given.get("pull", False)
        self._advice = f"pull it with `ollama pull {self.model}`, or give pull=True"
        if self._pull:
            self._advice = "the server cannot pull it either; is its name right?"

    def _price(self) -> Price | None:
        return _FREE if self._free else super()._price()

    def _shown(self, context: Context, options: AnswerOptions) -> list[Function]:
        return [] if options.choice(context) == "none" else super()._shown(context, options)

    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> tuple[Mapping[str, Any], Reply]:
        most = present(num_predict=options.most(context))
        asked = self._model_options | most | sampled(options)
        request = {
            "model": self.model,
            **self._same,
            **present(think=options.effort),
            "messages": wire(self._told(context, options), context),
            "tools": [tool_of(each) for each in shown],
            # Under a schema a model of Ollama can write nothing else, so it would never call.
            "format": None if shown else context.output_schema,
            "options": asked,
        }
        return request, Reply(context.step, self._parallel)

    def _ask(self, client: Any, request: Mapping[str, Any]) -> Any:
        return client.chat(**request, stream=self._streams)

    def _explain(self, error: Exception, request_id: str | None) -> PlannerError | None:
        return explained(self.failures, error, self._advice)

    def _pieces(self, context: Context) -> AsyncGenerator[Delta | Plan, None]:
        return self._pulling(context) if self._pull else super()._pieces(context)

    async def _pulling(self, context: Context) -> AsyncGenerator[Delta | Plan, None]:
        for pulls in (True, False):
            try:
                async with aclosing(super()._pieces(context)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except PlannerError as error:
                if not pulls or error.code != f"{IMPL}/{names.MODEL_NOT_FOUND}":
                    raise
            async with aclosing(self._pulled()) as deltas:
                async for delta in deltas:
                    yield delta

    async def _pulled(self) -> AsyncGenerator[Delta, None]:
        failures, client = self.failures, await self._client.open()
        try:
            async with aclosing(pulled(client, self.model, self._timeout)) as lines:
                async for line in lines:
                    yield Delta(f"{failures.clean(line)}\n", PROGRESS)
        except Exception as error:
            raise self._failure(error, None, Reply(0, False)) from None


def _think(think: Any) -> bool | str | None:
    if think is None or type(think) is bool or (isinstance(think, str) and think in LEVELS):
        return think
    came = edges.came(think)
    raise InvalidValue("think", f"is {came}; use True, False, {', '.join(LEVELS)}, or None")


def _keep_alive(keep_alive: Any) -> float | str | None:
    if type(keep_alive) in (int, float) and abs(keep_alive) <= edges.LONGEST:
        return float(keep_alive)
    if keep_alive is None or (isinstance(keep_alive, str) and _DURATION.fullmatch(keep_alive)):
        return keep_alive
    raise InvalidValue(
        "keep_alive",
        f"is {edges.came(keep_alive)}; use a number of seconds, at most {edges.LONGEST:,.0f}, "
        "a text like 10m or 1h30m, or None",
    )


def _checked(made: dict[str, Any]) -> dict[str, Any]:
    """Check the user's options of the model, and return them."""
    for name, keyword in (("num_predict", "max_tokens"), ("temperature", "temperature")):
        if name in made:
            raise InvalidValue("options", f"has {name}; give {keyword}=")
    return made
