"""OpenAIChatPlanner: asks a model for the steps of a `Loop`, through Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import (
    AnswerOptions,
    check_name,
    check_once,
    conversation,
    present,
)

from .caching import is_own
from .chat_messages import messages_of
from .chat_stream import ChatReader
from .counting import counted_chat
from .options import ChatOptions
from .planner import OpenAIAPIPlanner, PlannerOptions
from .strict import strict_tools


class OpenAIChatPlanner(OpenAIAPIPlanner):
    """A planner on Chat Completions, for the many servers that have no other API.

    Args:
        model: See `APIPlanner`.
        reasoning_effort: The API's parameter of this name, e.g. ``"low"``, or a word that only
            your server knows; ``effort`` is the name that all runtimes have.
        **options: See `PlannerOptions`; ``stop`` has four texts at most.
    """

    wire = "openai/chat"
    counted = staticmethod(counted_chat)
    answering = ChatOptions
    documents = "by content"
    said = "messages"

    def __init__(
        self, model: str, *, reasoning_effort: str | None = None, **options: Unpack[PlannerOptions]
    ) -> None:
        super().__init__(model, options)
        if reasoning_effort is not None:
            check_name(reasoning_effort, "reasoning_effort")
        given = present(reasoning_effort=reasoning_effort)
        check_once(self.options.effort, "effort", "reasoning_effort", given, "reasoning_effort")
        self._effort = reasoning_effort

    def _body(self, context: Context, options: AnswerOptions) -> tuple[dict[str, Any], ChatReader]:
        told, form = self._told(context, options), self._form(context.output_schema)
        body = present(
            messages=messages_of(told, conversation(context, self.wire)),
            max_completion_tokens=options.most(context),
            seed=options.seed,
            stop=list(options.stop or ()) or None,
            reasoning_effort=options.effort or self._effort,
            response_format=form and {"type": "json_schema", "json_schema": form},
            stream_options={"include_usage": True} if self._streams else None,
        )
        return body, ChatReader()

    def _function(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": fields}

    def _ask(self, client: Any, request: Mapping[str, Any]) -> Any:
        given = self._known(client, request)
        if not is_own(client):
            # Other servers often know only the older name.
            most = given.pop("max_completion_tokens", None)
            given.update({} if most is None else {"max_tokens": most})
        elif "tools" in given:
            given["tools"] = strict_tools(given["tools"], self._tools)  # Others may refuse it.
        return client.chat.completions.create(**given)
