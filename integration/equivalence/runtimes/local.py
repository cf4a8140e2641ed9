"""The local runtime: the real small model, held to the script by constrained decoding."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from agentic_kernel_engine import Host
from agentic_kernel_engine.loop import AskUser, Context, Delta, FinalAnswer, Plan, ToolCall
from agentic_kernel_engine.providers import ProviderRuntime, RuntimeOptions, parted
from agentic_kernel_local import LocalPlanner, find_model
from agentic_kernel_local.engine import Engine, EngineOptions, Request
from agentic_kernel_local.generation import Item, Piece
from agentic_kernel_local.reading import ActionReader

from ..scenarios import SCENARIOS
from ..script import Answer, Overflows, actions
from ..setting import Setting
from ..trace import Trace
from ..vendor import options

SLOTS = 1
CONTEXT_TOKENS = 4096


class Runtime:
    """See `Subject`; the model is loaded once, for all scenarios."""

    name = "local"
    kind = "local"
    closed: Mapping[str, str] = {
        "parallel tools": "one answer is one action, so there are no two calls in it",
        "images of a Task": "its model sees no pictures, so the Task is refused",
        "images from a tool": "its model sees no pictures, and reads the rest of the result",
        "refusal": "there is no form for one: a refusal is an answer like any other",
    }
    unseen: Mapping[str, str] = {
        scenario.name: "there is no wire to look at" for scenario in SCENARIOS
    }
    otherwise: Sequence[str] = (
        "JSON under a schema has no blanks, because the grammar of the script allows none.",
    )

    def __init__(self, keep: ExitStack) -> None:
        """Load the model; it is let go of when ``keep`` is closed."""
        engine = asyncio.run(Engine.open(EngineOptions(find_model(), SLOTS, CONTEXT_TOKENS)))
        keep.callback(lambda: asyncio.run(engine.close()))

    def comparable(self, traced: Trace) -> Trace:
        return replace(traced, texts=[_packed(text) for text in traced.texts])

    @asynccontextmanager
    async def runtime(self, setting: Setting) -> AsyncGenerator[Host, None]:
        rest, planned = parted(options(setting), RuntimeOptions)
        store = planned.pop("store")
        planner = Held(setting.script, setting.spent, planned)
        async with ProviderRuntime(planner, self.kind, setting.tools, store, rest) as host:
            yield host


class Held(LocalPlanner):
    """A LocalPlanner whose model can say nothing but the next answer of a script."""

    def __init__(
        self, script: Sequence[Answer], spent: list[float], planned: dict[str, Any]
    ) -> None:
        super().__init__(
            max_tokens=3_000, slots=SLOTS, context_tokens=CONTEXT_TOKENS, **cast("Any", planned)
        )
        self._script: Iterator[Answer] = iter(script)
        self.answer: Answer | None = None
        """The next one; none is due while a prompt is only counted."""
        self.spent = spent

    async def open(self) -> Engine:
        return cast("Engine", OneAnswer(await super().open(), self))

    def plan(self, context: Context) -> AsyncGenerator[Delta | Plan, None]:
        self.answer = next(self._script)
        return super().plan(context)


class OneAnswer:
    """An Engine for one planner: the schema of every request admits one answer only."""

    def __init__(self, engine: Engine, planner: Held) -> None:
        self._engine = engine
        self._planner = planner
        self.options = engine.options

    def generate(self, request: Request) -> aclosing[AsyncGenerator[Item, None]]:
        answer = self._planner.answer
        if answer is None or isinstance(answer, Overflows):
            return self._engine.generate(request)
        schema = request.schema
        wanted = replace(request, schema={"const": _form(answer, beside=_beside(schema))})
        items = self._timed(self._engine.generate(wanted))
        return aclosing(_text(items) if schema is None else items)

    async def _timed(
        self, items: aclosing[AsyncGenerator[Item, None]]
    ) -> AsyncGenerator[Item, None]:
        """The items, with the seconds of the model put on record."""
        began = time.perf_counter()
        try:
            async with items as given:
                async for item in given:
                    yield item
        finally:  # The planner leaves as soon as it has an answer.
            self._planner.spent.append(time.perf_counter() - began)


def _beside(schema: Mapping[str, Any] | None) -> bool:
    """True if the answer is an action in JSON: it is text, or stands beside functions."""
    return schema is None or "oneOf" in schema


def _form(answer: Answer, *, beside: bool) -> Any:
    """Exactly this answer, in the form of `prompting.answer_schema`."""
    (action,) = actions(answer)
    if isinstance(action, ToolCall):
        return {"tool": action.tool, "arguments": dict(action.arguments)}
    if isinstance(action, AskUser):
        return {"tool": "ask_user", "arguments": {"question": action.question}}
    assert isinstance(action, FinalAnswer)
    return {"answer": action.output} if beside else action.output


def _packed(text: str) -> str:
    """A text that is a JSON object without its blanks; another text as it is."""
    return json.dumps(json.loads(text), separators=(",", ":")) if text.startswith("{") else text


async def _text(items: AsyncGenerator[Item, None]) -> AsyncGenerator[Item, None]:
    """The items of an answer in JSON as if it were text, because no schema admits text alone."""
    reader = ActionReader()
    async with aclosing(items):
        async for item in items:
            if not isinstance(item, Piece):
                yield item
            elif (delta := reader.take(item.text)) is not None:
                yield Piece(delta.text, item.tokens)
