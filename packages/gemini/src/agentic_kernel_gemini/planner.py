"""GeminiPlanner: a Planner that asks a model through the Gemini API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from agentic_kernel import InvalidValue
from agentic_kernel_engine import providers
from agentic_kernel_engine.loop import Context
from agentic_kernel_engine.providers import AnswerOptions, conversation, present

from .client import Client
from .contents import contents
from .counting import counted
from .failures import CODES, explained
from .hosting import HOSTING, NEEDS
from .options import GeminiOptions, check_levels, sampled
from .prices import PRICES
from .reply import Reply

if TYPE_CHECKING:
    from google.genai import Client as GenAI

IMPL: Final = "gemini"
"""The first part of the failure codes, and of the metadata keys by which a Task sets options; also
the ``runtime_kind`` of the Tasks that the runtime serves, unless it is given another."""
_MODEL: Final = re.compile(r"(?!.*\.\.)[^?&#%\s]+")
_OLD: Final = re.compile(r"(?:.*/)?gemini-[12]\b.*")
"""Models that refuse a schema of the answer beside functions; they are told it in words."""
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class PlannerOptions(providers.SDKOptions["GenAI"], total=False):
    """Keyword arguments of `GeminiPlanner`, in addition to the model.

    A version of the API at the end of ``base_url``, e.g. ``/v1beta``, replaces that of the SDK. The
    fields of ``generationConfig`` in ``extra_body`` are added to the others.
    """

    thinking: Mapping[str, Any] | None
    """The API's ``thinkingConfig``: ``{"thinkingLevel": "low", "includeThoughts": True}``."""


class GeminiPlanner(providers.APIPlanner):
    """A Planner that asks a model through the Gemini API; it sends signatures back unchanged."""

    impl = IMPL
    client = Client
    codes = CODES
    explain = staticmethod(explained)
    listed = PRICES
    counted = staticmethod(counted)
    answering = GeminiOptions
    documents = "by content or address"
    hosting = HOSTING
    hosting_needs = NEEDS
    mappings = ("extra_body", "thinking")
    merged = ("generationConfig",)

    def __init__(self, model: str, **options: Unpack[PlannerOptions]) -> None:
        super().__init__(model, options)
        check_levels(self.options, self._given.get("thinking", {}))

    def _named(self) -> None:
        super()._named()
        if not _MODEL.fullmatch(self.model):
            raise InvalidValue("model", "has a character that cannot stand in an address")

    def _form(self, schema: Mapping[str, Any]) -> Any:
        return None if _OLD.fullmatch(self.model) else schema

    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[providers.Function]
    ) -> tuple[Mapping[str, Any], Reply]:
        most, schema = options.most(context), context.output_schema
        config = sampled(options, self._given.get("thinking")) | present(maxOutputTokens=most)
        if schema is not None and self._form(schema) is not None:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        told, tools, calling = self._told(context, options), list(self._tools), None
        if shown:
            declared = [each.described("parametersJsonSchema") for each in shown]
            tools.insert(0, {"functionDeclarations": declared})
            choice = options.choice(context)
            only = None if choice in _MODES else [choice]
            calling = present(mode=_MODES.get(choice, "ANY"), allowedFunctionNames=only)
        body = present(
            contents=contents(conversation(context, IMPL, answered=True)),
            generationConfig=config | self._merged.get("generationConfig", {}),
            systemInstruction={"parts": [{"text": told}]} if told else None,
            tools=tools or None,
            toolConfig=calling and {"functionCallingConfig": calling},
        )
        return body | self._extra, Reply(context.step, most, self._parallel)

    async def _ask(self, client: GenAI, request: Mapping[str, Any]) -> Any:
        # The body has its final form: elsewhere the SDK would transform all of it at every turn.
        config: Any = {
            "automatic_continuation": False,
            "automatic_function_calling": {"disable": True},
            "http_options": {"extra_body": request, "retry_options": {"attempts": 1}},
        }
        models: Any = client.aio.models
        if self._streams:
            # The public method sends the request only when its first event is taken, so a head
            # that never comes would have the patience of a stream.
            ask = getattr(models, "_generate_content_stream", models.generate_content_stream)
        else:
            ask = models.generate_content
        answer = await ask(model=self.model, contents="-", config=config)
        return providers.Events(answer) if self._streams else answer
