"""OpenAIPlanner: asks a model for the steps of a `Loop`, through the Responses API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Unpack

from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import (
    AnswerOptions,
    check_once,
    conversation,
    present,
)

from .counting import counted_responses
from .hosting import HOSTING, NEEDS
from .options import ResponsesOptions
from .planner import OpenAIAPIPlanner, PlannerOptions
from .responses_input import items_of
from .responses_stream import ResponsesReader
from .strict import strict_field

_REASONING: Final = re.compile(r"(?!.*-chat-latest)(?:gpt-(?:[5-9]|\d\d)|o\d|codex-|gpt-oss).*")
"""Models that reason. Other models refuse a request for encrypted reasoning, and so do servers that
do not know it."""


class OpenAIPlanner(OpenAIAPIPlanner):
    """A planner on the Responses API.

    By default the vendor stores nothing: a plan keeps the encrypted reasoning of its answer, and
    the planner sends it back with the next request.

    Args:
        model: See `APIPlanner`.
        reasoning: The API's parameter of this name, e.g. ``{"effort": "low"}``.
        store: True if the vendor stores the responses.
        **options: See `PlannerOptions`.
    """

    wire = "openai/responses"
    counted = staticmethod(counted_responses)
    answering = ResponsesOptions
    documents = "by content or address"
    hosting = HOSTING
    hosting_needs = NEEDS
    mappings = ("extra_body", "reasoning")
    said = "input"

    def __init__(
        self,
        model: str,
        *,
        reasoning: Mapping[str, Any] | None = None,
        store: bool = False,
        **options: Unpack[PlannerOptions],
    ) -> None:
        super().__init__(model, {**options, "reasoning": reasoning})
        self._store = store
        self._reasoning = self._given.get("reasoning", {})
        check_once(self.options.effort, "effort", "reasoning", self._reasoning, "effort")

    def _body(
        self, context: Context, options: AnswerOptions
    ) -> tuple[dict[str, Any], ResponsesReader]:
        form = self._form(context.output_schema)
        asked = self._reasoning | present(effort=options.effort)
        sealed = not self._store and (asked or _REASONING.fullmatch(self.model))
        body = present(
            input=items_of(conversation(context, self.wire)),
            instructions=self._told(context, options) or None,
            max_output_tokens=options.most(context, self._least()),
            store=self._store,
            reasoning=asked or None,
            include=["reasoning.encrypted_content"] if sealed else None,
            text=form and {"format": {"type": "json_schema", **form}},
        )
        return body, ResponsesReader(self._store)

    def _function(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", **fields, **strict_field(fields)}

    def _least(self) -> int:
        return 16

    def _ask(self, client: Any, request: Mapping[str, Any]) -> Any:
        return client.responses.create(**self._known(client, request))
