"""GeminiPlanner: a Planner that asks a model through the Gemini API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from agentic_kernel import InvalidValue
from agentic_kernel_engine import providers
from agentic_kernel_engine.loop import Context, PlannerError
from agentic_kernel_engine.providers import (
    AnswerOptions,
    APIPlanner,
    Events,
    Function,
    conversation,
    json_mapping,
    loop_inputs,
)

from .client import Client
from .contents import contents
from .failures import CODES, explained
from .prices import PRICES
from .reply import Reply

if TYPE_CHECKING:
    from google.genai import Client as GenAI

IMPL: Final = "gemini"
"""The first part of the failure codes, and of the metadata keys by which a Task sets options."""
INPUTS: Final = loop_inputs(IMPL, "by content or address")
"""The inputs that the planner takes."""
_MODEL: Final = re.compile(r"(?!.*\.\.)[^?&#%\s]+")
"""A name that can stand in the path of a request."""
_OLD: Final = re.compile(r"(?:.*/)?gemini-[12]\b.*")
"""Models that refuse a schema of the answer beside functions."""
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class PlannerOptions(providers.PlannerOptions, total=False):
    """Keyword arguments of `GeminiPlanner`, in addition to the model.

    Without ``parallel_tool_calls``, only the first call of an answer counts.
    """

    base_url: str | None
    """None for ``GOOGLE_GEMINI_BASE_URL``, or else the vendor's address. A version of the API at
    its end, e.g. ``/v1beta``, replaces that of the SDK."""
    client: GenAI | None
    """A client of your own, e.g. for Google Cloud; the planner never closes it. It keeps its own
    HTTP timeouts, and ``api_key`` and ``base_url`` cannot be given with it."""
    thinking: Mapping[str, Any] | None
    """The API's ``thinkingConfig``: ``{"thinkingLevel": "low", "includeThoughts": True}``."""
    extra_body: Mapping[str, Any] | None
    """Further fields of each request, by the API's names, e.g. ``safetySettings``. They override
    the planner's own; ``tools`` and the fields of ``generationConfig`` are added to the others."""


class GeminiPlanner(APIPlanner):
    """A Planner that asks a model through ``generateContent`` of the Gemini API.

    It imports the SDK and creates a client when it accepts or plans the first Task. A Task may set
    ``gemini/max_tokens``, ``gemini/temperature``, ``gemini/system`` and ``gemini/tool_choice`` in
    its metadata, and bring images (`providers.IMAGES`). The plan keeps the signatures of thoughts,
    and the planner sends them back unchanged.

    Args:
        model: E.g. ``gemini-3.8-flash``.
        **options: See `PlannerOptions`.

    Raises:
        InvalidValue: A value is out of range or of the wrong type; the error names it.
    """

    impl = IMPL
    wire = IMPL
    inputs = INPUTS
    client = Client
    codes = CODES
    listed = PRICES

    def __init__(self, model: str, **options: Unpack[PlannerOptions]) -> None:
        given: dict[str, Any] = dict(options)
        thinking = given.pop("thinking", None)
        super().__init__(model, given, given.pop("extra_body", None))
        if not _MODEL.fullmatch(model):
            raise InvalidValue("model", "has a character that cannot stand in an address")
        self._thinking = None if thinking is None else json_mapping("thinking", thinking)

    def _form(self, schema: Mapping[str, Any]) -> Any:
        return None if _OLD.fullmatch(self.model) else schema

    def _request(
        self, context: Context, options: AnswerOptions, shown: Sequence[Function]
    ) -> tuple[Mapping[str, Any], Reply]:
        extra, most = dict(self._extra), options.most(context)
        config: dict[str, Any] = {"maxOutputTokens": most}
        if options.temperature is not None:
            config["temperature"] = options.temperature
        if self._thinking is not None:
            config["thinkingConfig"] = self._thinking
        schema = context.output_schema
        if schema is not None and (not shown or self._form(schema) is not None):
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        body: dict[str, Any] = {
            "contents": contents(conversation(context, IMPL)),
            "generationConfig": config | extra.pop("generationConfig", {}),
        }
        told, hosted = self._told(context, options), extra.pop("tools", [])
        if told:
            body["systemInstruction"] = {"parts": [{"text": told}]}
        if shown:
            body["tools"] = [{"functionDeclarations": [_declared(each) for each in shown]}]
            body["toolConfig"] = {"functionCallingConfig": _choice(options.choice(context))}
        if hosted:
            body["tools"] = [*body.get("tools", ()), *hosted]
        return body | extra, Reply(context.step, None if hosted else most, self._parallel)

    async def _ask(self, client: GenAI, request: Mapping[str, Any]) -> Any:
        # The body has its final form: elsewhere the SDK would transform all of it at every turn.
        config: Any = {
            "automatic_continuation": False,
            "automatic_function_calling": {"disable": True},
            "http_options": {"extra_body": request, "retry_options": {"attempts": 1}},
        }
        given: dict[str, Any] = {"model": self.model, "contents": "-", "config": config}
        if not self._streams:
            return await client.aio.models.generate_content(**given)
        return await Events.opened(await client.aio.models.generate_content_stream(**given))

    def _explain(self, error: Exception, request_id: str | None) -> PlannerError | None:
        return explained(self.failures, error, request_id)


def _declared(function: Function) -> dict[str, Any]:
    named = {"name": function.name, "description": function.description}
    return {**named, "parametersJsonSchema": function.schema}


def _choice(choice: str) -> dict[str, Any]:
    if choice in _MODES:
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}
